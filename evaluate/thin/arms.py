"""Operands of thin products on a GPU, and graphs of launches that read each set of weights in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from math import ceil
from typing import Any

from evaluate.cublas import CublasError, open_cublas
from evaluate.cublaslt import open_cublaslt
from evaluate.operands import DTYPES, draw, poison, widen
from evaluate.shapes import Grouped
from evaluate.thin.kernel import Product, ThinKernel, Way
from evaluate.timing import Launch

_LEAST_LAUNCHES = 24  # of a graph, so that its own start does not count
_MOST_SETS = 256  # of weights: small ones need no more, since what a launch itself takes counts more than the memory
_PLACES = 6  # algorithms of cuBLASLt that are tried, of those that its heuristic ranks


@dataclass(frozen=True)
class Operands:
    """What is multiplied: one A, and so many sets of B that none is in a cache when it comes round.

    Attributes:
        xp: cupy.
        what: number of products, and M, N, K of each.
        dtype: of all matrices.
        layout: "nn" or "nt".
        left: A, [groups * M, K].
        rights: each B, [groups * K, N] or [groups * N, K].
        out: C, [groups * M, N], poisoned.
    """

    xp: Any
    what: Grouped
    dtype: str
    layout: str
    left: Any
    rights: list[Any]
    out: Any

    @property
    def bytes(self) -> int:
        """Of A, one B and C."""
        return int(self.left.nbytes + self.rights[0].nbytes + self.out.nbytes)

    @property
    def launches(self) -> int:
        """Of a graph: whole rounds of the sets."""
        return len(self.rights) * ceil(_LEAST_LAUNCHES / len(self.rights))

    def product(self, number: int, way: Way = Way()) -> Product:  # noqa: B008 (a tuple, never changed)
        """The arguments of the thin kernel for a set of weights."""
        (m, n, k), groups = self.what.shape, self.what.groups
        right = self.rights[number % len(self.rights)]
        return Product(
            *(groups, m, n, k, 1.0, 0.0, self.left.data.ptr, k, m * k),
            *(right.data.ptr, right.shape[1], k * n, self.out.data.ptr, n, m * n, None, *way),
        )

    def error(self, number: int) -> float:
        """Relative Frobenius error of what C holds, for a set of weights, against FP64."""
        (m, n, k), groups, xp = self.what.shape, self.what.groups, self.xp
        stored = widen(xp, self.rights[number % len(self.rights)], self.dtype)
        right = stored.reshape(groups, n, k).transpose(0, 2, 1) if self.layout == "nt" else stored.reshape(groups, k, n)
        exact = xp.matmul(widen(xp, self.left, self.dtype).reshape(groups, m, k), right)
        found = widen(xp, self.out, self.dtype).reshape(groups, m, n)
        return float(xp.linalg.norm(found - exact) / xp.linalg.norm(exact))


def draw_operands(xp: Any, what: Grouped, dtype: str, layout: str, l2_bytes: int, seed: int = 0) -> Operands:
    """Standard normal operands; sets of weights of at least three times the cache, or ``_MOST_SETS`` of small ones."""
    (m, n, k), groups = what.shape, what.groups
    shape = (groups * n, k) if layout == "nt" else (groups * k, n)
    sets = min(1 + ceil(3 * l2_bytes / (groups * k * n * DTYPES[dtype].bytes)), _MOST_SETS)
    rng = xp.random.default_rng(seed)
    left = draw(xp, rng, (groups * m, k), dtype)
    rights = [draw(xp, rng, shape, dtype, side="b", transposed=layout == "nt") for _ in range(sets)]
    return Operands(xp, what, dtype, layout, left, rights, poison(xp, (groups * m, n), dtype))


def graph(operands: Operands, queue: Launch) -> Any:
    """A graph of ``operands.launches`` launches, each with the next set of weights, captured on the current stream."""
    stream = operands.xp.cuda.get_current_stream()
    stream.begin_capture()
    try:
        for number in range(operands.launches):
            queue(number)
    finally:
        captured = stream.end_capture()
    return captured


def thin_queue(operands: Operands, kernel: ThinKernel, way: Way) -> Launch:
    """Queues the thin kernel on the current stream."""
    stream = operands.xp.cuda.get_current_stream().ptr
    products = [operands.product(number, way) for number in range(len(operands.rights))]
    return lambda number: kernel.launch(stream, products[number % len(products)])


@contextmanager
def open_vendor(operands: Operands, further: bool = True) -> Iterator[list[tuple[str, bool, Launch]]]:
    """What the vendor's libraries offer for the product, closed on leaving.

    Args:
        operands: what is multiplied.
        further: whether algorithms are wanted that a library ranks behind its own choice.

    Yields:
        For each a text, whether it is a library's own choice (others are further algorithms of cuBLASLt's ranking), and
        what queues it.

    Raises:
        evaluate.device.DeviceMissingError: no cuBLAS.
    """
    xp, (m, n, k), groups = operands.xp, operands.what.shape, operands.what.groups
    left, rights, out = operands.left.data.ptr, [right.data.ptr for right in operands.rights], operands.out.data.ptr

    def rotated(gemm: Callable[[int, int, int], None]) -> Launch:
        return lambda number: gemm(left, rights[number % len(rights)], out)

    with ExitStack() as stack:
        cublas = stack.enter_context(open_cublas(xp, operands.dtype))
        layout = operands.layout
        if groups == 1:
            plain = rotated(lambda a, b, c: cublas.gemm(m, n, k, a, b, c, layout))
        else:
            plain = rotated(lambda a, b, c: cublas.gemms(groups, m, n, k, a, b, c, layout))
        entry = "cublasGemmEx" if groups == 1 else "cublasGemmStridedBatchedEx"
        found = [(cublas.describe(entry), True, plain)]
        for place in range(_PLACES if further else 1):
            try:
                gemm = stack.enter_context(
                    open_cublaslt(xp, operands.dtype, (m, n, k), layout, groups=groups, place=place)
                )
            except CublasError:
                break
            found.append((cublas.describe(f"cublasLtMatmul, heuristic {place + 1}"), place == 0, rotated(gemm)))
        yield found
