"""Fused kernels on a device: schemes by name, kernels built before the tests, products checked against FP64."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog
from catalog.transform import kron, orient
from codegen.build import build_cuda
from codegen.emit import fused_arch
from codegen.plan import Plan, plan
from evaluate.accuracy import tolerance
from evaluate.device import array_module
from evaluate.fused import ZEROED_BYTES, FusedKernel, build_fused, fused_text, open_fused
from evaluate.kernel import Built
from evaluate.operands import narrow, poison, widen
from evaluate.variants import OPERANDS, Variant
from subcubic.starter import shipped
from tests.codegen.schemes import rational, rectangular
from tests.prebuild import kept

# The plain product, one without planes, coefficients beyond one, mixed ones.
KNOWN: dict[str, Callable[[], Scheme]] = {
    "plain": lambda: classical(Format(1, 1, 1)),
    "no planes": lambda: classical(Format(2, 1, 3)),
    "strassen": strassen,
    "winograd": winograd,
    "winograd2": lambda: kron(winograd(), winograd()),
    "mixed": lambda: kron(winograd(), classical(Format(1, 2, 1))),
    "rectangular": rectangular,
    "rational": rational,
}
# Every orientation of the roles, ranks 11 to 49, as the starter catalog has them.
STORED = (
    *("2x2x3", "3x2x2", "2x4x2", "5x2x2", "3x2x3", "2x3x3", "2x3x4", "4x3x2", "3x5x2", "4x4x2", "4x2x4", "2x4x5"),
    *("3x3x3", "3x4x3", "5x3x3", "3x4x4", "3x4x5", "4x4x4"),
)
NAMES = (*KNOWN, *STORED)


@functools.cache
def the_plan(name: str) -> Plan:
    """The plan of one of ``NAMES``; a stored scheme is the best one of its format."""
    if name in KNOWN:
        return plan(KNOWN[name]())
    shelf, wanted = Catalog(shipped()), Format.parse(name)
    rows = [row for row in shelf.rows() if row.ring in (Ring.Z, Ring.Q) and row.format.sorted == wanted.sorted]
    return plan(orient(shelf.get(min(rows, key=lambda row: row.merit).id).scheme, wanted))


@kept
def library(name: str, variant: Variant, arch: str) -> Built:
    """The library of a scheme's fused kernel."""
    return build_fused(the_plan(name), variant, arch)


@kept
def program(name: str, variant: Variant, arch: str) -> Path:
    """The self-test of a scheme's fused kernel."""
    return build_cuda(fused_text(the_plan(name), variant, arch), fused_arch(arch), "program")


def variant(dtype: str, plane_dtype: str | None = None, layout: str = "nn", **options: int) -> Variant:
    """A variant of the fused path; ``options`` are the emitter's, of which those that are 0 or False are left out."""
    chosen = tuple(item for item in options.items() if item[1])
    return Variant(dtype, "fused", "variable", plane_dtype or dtype, "fp32", layout, chosen)


@dataclass
class Opened:
    """One open kernel and what it was built from."""

    plan: Plan
    variant: Variant
    kernel: FusedKernel

    def workspace(self, *shapes: tuple[int, int, int]) -> Any:
        """A workspace for the largest of some shapes (M, N, K): NaN after its zeros."""
        xp = array_module()
        space = xp.full(max(self.kernel.workspace_bytes(*shape) for shape in shapes), 255, dtype=xp.uint8)
        space[:ZEROED_BYTES] = 0
        return space

    def launch(self, product: Product, stream: Any, workspace: Any, **options: Any) -> None:
        """Queue a product."""
        arrays = (product.a, product.b, product.c, workspace)
        pointers = [array.data.ptr for array in arrays]
        self.kernel.launch(stream.ptr, product.shape, *pointers, workspace.nbytes, leading=product.leading, **options)

    def pack(self, product: Product, side: str, stream: Any) -> Any:
        """Queue the making of the planes of one operand."""
        xp = array_module()
        m, n, k = product.shape
        rows, matrix, ld = (m, product.a, product.leading[0]) if side == "a" else (n, product.b, product.leading[1])
        planes = xp.full(self.kernel.planes_bytes(side, rows, k), 255, dtype=xp.uint8)
        xp.cuda.Device().synchronize()  # the stream need not wait for the one that fills
        self.kernel.pack(side, stream.ptr, (rows, k), matrix.data.ptr, ld, planes.data.ptr, planes.nbytes)
        return planes


@contextmanager
def opened(name: str, variant: Variant, arch: str) -> Iterator[Opened]:
    with open_fused(library(name, variant, arch)) as kernel:
        yield Opened(the_plan(name), variant, kernel)


@dataclass
class Product:
    """Operands of one product on the device, rows padded by NaN.

    Attributes:
        shape: M, N, K.
        dtype: of all three.
        a: as it is stored, [M, K + gap], or [K, M + gap] for layout t.
        b: [K, N + gap] or [N, K + gap].
        c: [M, N + gap].
        leading: of the three.
        exact: [M, N] float64, alpha A B + beta C.
        scale: of its elements' roundings, by Frobenius norms.
    """

    shape: tuple[int, int, int]
    dtype: str
    a: Any
    b: Any
    c: Any
    leading: tuple[int, int, int]
    exact: Any
    scale: float
    before: Any

    def error(self) -> float:
        """|C - exact|_F over the scale; NaN if an element is."""
        xp = array_module()
        found = widen(xp, self.c[:, : self.shape[1]], self.dtype)
        return float(xp.linalg.norm(found - self.exact)) / self.scale

    def is_exact(self) -> bool:
        """Whether every element is the exact one."""
        xp = array_module()
        return bool((widen(xp, self.c[:, : self.shape[1]], self.dtype) == self.exact).all())

    def gaps_kept(self) -> bool:
        """Whether nothing was written between the rows of C."""
        return bool((bits(self.c[:, self.shape[1] :]) == bits(self.before[:, self.shape[1] :])).all())

    def reset(self) -> None:
        """C as it was before the first launch."""
        self.c[...] = self.before


def bits(array: Any) -> Any:
    """16-bit elements as integers, so that NaN equals itself."""
    return array.view(np.uint16)


def product(
    shape: tuple[int, int, int],
    dtype: str,
    gap: int = 0,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    integers: bool = False,
    layout: str = "nn",
    seed: int = 0,
    reach: int = 0,
) -> Product:
    """Draw a product: standard normal operands, or integers of -1..1 of which every plane and sum is exact.

    With ``reach`` rows of A and columns of B are multiplied by powers of two, with exponents up to that.
    """
    xp = array_module()
    m, n, k = shape
    rng = xp.random.default_rng(seed + 7 * m + 11 * n + 13 * k)

    def stored(rows: int, columns: int, letter: str, powers: tuple[int, int] = (1, 1)) -> tuple[Any, Any]:
        size = (columns, rows) if letter == "t" else (rows, columns)
        values = rng.integers(-1, 2, size).astype(xp.float32) if integers else rng.standard_normal(size, xp.float32)
        if reach:
            exponents = rng.integers(-reach, reach + 1, powers).astype(xp.float32)
            values *= xp.exp2(exponents.T if letter == "t" else exponents)
        matrix = poison(xp, (size[0], size[1] + gap), dtype)
        matrix[:, : size[1]] = narrow(xp, values, dtype)
        exact = widen(xp, matrix[:, : size[1]], dtype)
        return matrix, exact.T if letter == "t" else exact

    (a, left), (b, right) = stored(m, k, layout[0], (m, 1)), stored(k, n, layout[1], (1, n))
    c, old = stored(m, n, "n") if beta else (poison(xp, (m, n + gap), dtype), 0.0)
    exact = alpha * (left @ right) + beta * old
    scale = abs(alpha) * float(xp.linalg.norm(left) * xp.linalg.norm(right)) / k**0.5 + float(xp.linalg.norm(exact))
    leading = (a.shape[1], b.shape[1], c.shape[1])
    return Product(shape, dtype, a, b, c, leading, exact, max(scale, 1e-30), c.copy())


def limit(plan: Plan, variant: Variant, k: int) -> float:
    """The error above which a product is wrong rather than rounded."""
    return tolerance(plan, variant.dtype, variant.plane_dtype, k)


# What is drawn depends on no scheme, so that the checks of many share it, and its exact product.
drawn = functools.lru_cache(maxsize=64)(product)


def warm_up() -> None:
    """Make CuPy compile what ``check`` needs of it."""
    for dtype in ("fp16", "bf16"):
        for layout in ("nn", "tt"):
            made = product((40, 24, 16), dtype, 3, beta=1.0, integers=layout == "tt", layout=layout)
            made.error(), made.is_exact(), made.gaps_kept(), made.reset()


def check(
    one: Opened,
    shape: tuple[int, int, int],
    gap: int,
    alpha: float,
    beta: float,
    integers: bool = False,
    reach: int = 0,
) -> None:
    """Every way to give the operands gives the product, and writes C and nothing else."""
    xp = array_module()
    stream = xp.cuda.Stream(non_blocking=True)
    layout = one.variant.layout
    made = drawn(shape, one.variant.dtype, gap, alpha=alpha, beta=beta, integers=integers, layout=layout, reach=reach)
    workspace = one.workspace(shape)
    xp.cuda.Device().synchronize()
    planes = {side: one.pack(made, side, stream) for side in "ab"}
    for operands in OPERANDS:
        stream.synchronize()
        made.reset()
        xp.cuda.Device().synchronize()
        left = planes["a"].data.ptr if operands == "planes_given" else 0
        right = planes["b"].data.ptr if operands != "variable" else 0
        one.launch(made, stream, workspace, planes=(left, right), alpha=alpha, beta=beta)
        stream.synchronize()
        place = (shape, gap, alpha, beta, operands)
        assert made.gaps_kept(), place
        assert not workspace[:ZEROED_BYTES].any(), place
        if integers:
            assert made.is_exact(), place
        else:
            assert made.error() <= limit(one.plan, one.variant, shape[2]), place
