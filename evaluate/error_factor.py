"""How many times larger the error of a scheme is than that of the vendor's GEMM, found on the CPU at a small size."""

from __future__ import annotations

import functools

import numpy as np

from codegen.plan import Plan
from evaluate.blas import BLAS_DTYPES
from evaluate.cpu import numpy_twin
from evaluate.emulate import emulate_baseline, rounded
from evaluate.emulate_fused import emulate_fused

_SIZE = 256


@functools.lru_cache(maxsize=64)
def error_factor(plan: Plan, dtype: str, plane_dtype: str) -> float:
    """Relative Frobenius errors of products of standard normal matrices, scheme over plain product.

    For types of 16 bits every rounding of a fused kernel is emulated. For fp32 and fp64 the scheme runs in fp32: both
    errors are in proportion to the unit roundoff, so their ratio is that of either type.

    Args:
        plan: the scheme and its levels.
        dtype: of A, B and C.
        plane_dtype: of the planes.
    """
    rng = np.random.default_rng(0)
    wide = [rng.standard_normal((_SIZE, _SIZE)).astype(np.float32) for _ in range(2)]
    if dtype in BLAS_DTYPES:
        a, b = wide
        ours, plain = np.empty_like(a), a @ b
        numpy_twin(plan)(a, b, ours)
    else:
        a, b = (rounded(matrix, dtype) for matrix in wide)
        ours, plain = emulate_fused(plan, a, b, dtype, plane_dtype=plane_dtype), emulate_baseline(a, b, dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    return float(np.linalg.norm(ours - exact) / np.linalg.norm(plain - exact))
