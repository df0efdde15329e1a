"""Fused kernels on a device: many schemes built in parallel, and products checked against FP64 on the device."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog
from catalog.transform import kron, orient
from codegen.plan import Plan, plan
from evaluate.accuracy import tolerance
from evaluate.device import array_module
from evaluate.fused import ZEROED_BYTES, FusedKernel, build_fused, open_fused
from evaluate.kernel import Built
from evaluate.operands import narrow, poison, widen
from evaluate.variants import OPERANDS, Variant
from subcubic.starter import shipped
from tests.codegen.schemes import rational, rectangular

# Every orientation of the roles, ranks 11 to 49, as the starter catalog has them.
STORED = (
    *("2x2x3", "3x2x2", "2x4x2", "5x2x2", "3x2x3", "2x3x3", "2x3x4", "4x3x2", "3x5x2", "4x4x2", "4x2x4", "2x4x5"),
    *("3x3x3", "3x4x3", "5x3x3", "3x4x4", "3x4x5", "4x4x4"),
)
PLANES = {"fp16": ("fp16",), "bf16": ("bf16", "fp16")}


def schemes() -> dict[str, Scheme]:
    """Schemes by name: the plain product, one without planes, coefficients beyond one, mixed and stored ones."""
    shelf = Catalog(shipped())
    rows = [row for row in shelf.rows() if row.ring in (Ring.Z, Ring.Q)]
    found = {
        "plain": classical(Format(1, 1, 1)),
        "no planes": classical(Format(2, 1, 3)),
        "strassen": strassen(),
        "winograd": winograd(),
        "winograd2": kron(winograd(), winograd()),
        "mixed": kron(winograd(), classical(Format(1, 2, 1))),
        "rectangular": rectangular(),
        "rational": rational(),
    }
    for name in STORED:
        format = Format.parse(name)
        best = min((row for row in rows if row.format.sorted == format.sorted), key=lambda row: row.merit)
        found[name] = orient(shelf.get(best.id).scheme, format)
    return found


Key = tuple[str, Variant]


def build_all(keys: Sequence[Key], plans: dict[str, Plan], arch: str) -> dict[Key, Built | str]:
    """Libraries, or why there is none, made by as many processes as there are cores: planning is Python."""
    context = multiprocessing.get_context("spawn")  # a forked process must not inherit the CUDA context
    with ProcessPoolExecutor(min(16, os.cpu_count() or 1), mp_context=context) as pool:
        futures = {key: pool.submit(_build, plans[key[0]], key[1], arch) for key in keys}
        return {key: future.result() for key, future in futures.items()}


def _build(plan: Plan, variant: Variant, arch: str) -> Built | str:
    try:
        return build_fused(plan, variant, arch)
    except (ValueError, RuntimeError, OSError) as error:  # not all of them can be sent to another process
        return f"{type(error).__name__}: {error}"


def variant(dtype: str, plane_dtype: str | None = None, layout: str = "nn") -> Variant:
    return Variant(dtype, "fused", "variable", plane_dtype or dtype, "fp32", layout)


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
def opened(built: Built | str, plan: Plan, variant: Variant) -> Iterator[Opened]:
    if isinstance(built, str):
        pytest.fail(built)
    with open_fused(built) as kernel:
        yield Opened(plan, variant, kernel)


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
) -> Product:
    """Draw a product: standard normal operands, or integers of -1..1 of which every plane and sum is exact."""
    xp = array_module()
    m, n, k = shape
    rng = xp.random.default_rng(seed + 7 * m + 11 * n + 13 * k)

    def stored(rows: int, columns: int, letter: str) -> tuple[Any, Any]:
        size = (columns, rows) if letter == "t" else (rows, columns)
        values = rng.integers(-1, 2, size).astype(xp.float32) if integers else rng.standard_normal(size, xp.float32)
        matrix = poison(xp, (size[0], size[1] + gap), dtype)
        matrix[:, : size[1]] = narrow(xp, values, dtype)
        exact = widen(xp, matrix[:, : size[1]], dtype)
        return matrix, exact.T if letter == "t" else exact

    (a, left), (b, right) = stored(m, k, layout[0]), stored(k, n, layout[1])
    c, old = stored(m, n, "n") if beta else (poison(xp, (m, n + gap), dtype), 0.0)
    exact = alpha * (left @ right) + beta * old
    scale = abs(alpha) * float(xp.linalg.norm(left) * xp.linalg.norm(right)) / k**0.5 + float(xp.linalg.norm(exact))
    leading = (a.shape[1], b.shape[1], c.shape[1])
    return Product(shape, dtype, a, b, c, leading, exact, max(scale, 1e-30), c.copy())


def limit(plan: Plan, variant: Variant, k: int) -> float:
    """The error above which a product is wrong rather than rounded."""
    return tolerance(plan, variant.dtype, variant.plane_dtype, k)


def plans() -> dict[str, Plan]:
    return {name: plan(scheme) for name, scheme in schemes().items()}


def check(
    one: Opened, shape: tuple[int, int, int], gap: int, alpha: float, beta: float, integers: bool = False
) -> None:
    """Every way to give the operands gives the product, and writes C and nothing else."""
    xp = array_module()
    stream = xp.cuda.Stream(non_blocking=True)
    made = product(shape, one.variant.dtype, gap, alpha=alpha, beta=beta, integers=integers, layout=one.variant.layout)
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
