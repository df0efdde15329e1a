"""How the linear layers of a model multiply: by the vendor's GEMM, or by a scheme that is forced on every product.

On a GPU both run on JAX's arrays where they lie, the vendor's by cuBLAS as in ``evaluate.bench``. On a CPU both are
emulated with every rounding, see ``evaluate.emulate_fused``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from codegen.limits import why_not_chained
from codegen.plan import Plan
from codegen.schedule import schedule
from evaluate.array_numpy import Numpy
from evaluate.arrays import library_of
from evaluate.candidate import Candidate
from evaluate.cublas import open_cublas
from evaluate.device import DeviceInfo, array_module
from evaluate.emulate import emulate_baseline
from evaluate.emulate_fused import emulate_fused
from evaluate.opened import Kernels, Opened
from evaluate.variants import FUSED_PATH, LIBRARY_PATH, why_not_fused
from evaluate.whole import whole

EMULATED_PATH = "emulated"
# x [M, K] and w [K, N] to [M, N], all of one dtype.
Multiply = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class Case:
    """A scheme that is to be forced.

    Attributes:
        plan: the scheme and its levels.
        dtype: of the model: fp16 or bf16.
        plane_dtype: of the planes.
        path: "fused", "cuda" or "emulated".
        facts: further keys of its row.
    """

    plan: Plan
    dtype: str
    plane_dtype: str
    path: str
    facts: tuple[tuple[str, Any], ...] = ()

    @property
    def candidate(self) -> Candidate:
        """The same for ``evaluate.opened``."""
        plan = self.plan
        return Candidate(plan.name, plan.levels, path=self.path, plane_dtype=self.plane_dtype)


class Arm:
    """Multiplies in linear layers, and counts how often.

    Args:
        multiply: two matrices.
    """

    def __init__(self, multiply: Multiply) -> None:
        self.multiply = multiply
        self.products = 0

    def __call__(self, x: jax.Array, w: jax.Array) -> jax.Array:
        """The product of x [.., K] and w [K, N]: [.., N]."""
        flat = self.multiply(x.reshape(-1, x.shape[-1]), w)
        self.products += 1
        found: jax.Array = flat.reshape(*x.shape[:-1], w.shape[1])
        return found


def path_of(plan: Plan, dtype: str, gpu: DeviceInfo | None) -> str:
    """Where a plan runs: in a fused kernel if the device and the number of its products allow one."""
    if gpu is None:
        return EMULATED_PATH
    return LIBRARY_PATH if why_not_fused(dtype, gpu) or why_not_chained(plan, FUSED_PATH) else FUSED_PATH


def scheme_arm(case: Case, kernels: Kernels, gpu: DeviceInfo | None) -> Arm:
    """The arm of a scheme.

    Raises:
        ValueError: there is no kernel with these types.
        codegen.build.MissingCompilerError: no nvcc.
        codegen.build.BuildError: nvcc refuses the text.
        evaluate.kernel.KernelError: the kernel cannot be opened.
    """
    plan, dtype, planes = case.plan, case.dtype, case.plane_dtype
    if gpu is None:
        order = schedule(plan, planes != dtype)
        return Arm(_on_host(lambda a, b: emulate_fused(plan, a, b, dtype, plane_dtype=planes, order=order)))
    if case.path == LIBRARY_PATH and planes != dtype:
        raise ValueError(f"path {LIBRARY_PATH} has planes of the input type, not {planes}")
    like = jnp.zeros((1, 1), jax_dtype(dtype))
    library = library_of(type(like))
    opened = kernels.open(library, like, plan, case.candidate, "nn", gpu)
    return Arm(_on_device(library, opened))


@contextmanager
def vendor_arm(dtype: str, gpu: DeviceInfo | None) -> Iterator[tuple[Arm, str]]:
    """The arm of the vendor's GEMM and what it is, in words.

    Raises:
        evaluate.device.DeviceMissingError: no cuBLAS.
    """
    if gpu is None:
        yield Arm(_on_host(lambda a, b: emulate_baseline(a, b, dtype))), "emulated: fp32 accumulation, one rounding"
        return
    with open_cublas(array_module(), dtype) as cublas:
        library = library_of(type(jnp.zeros((1, 1))))

        def run(a: Any, b: Any, c: Any, planes: Any) -> None:
            (m, k), n = a.shape, b.shape[1]
            cublas.gemm(m, n, k, library.address(a), library.address(b), library.address(c))

        opened = Opened("nn", lambda *_: run, lambda m, n, k: 0, lambda b: None)
        yield Arm(_on_device(library, opened)), cublas.describe()


def jax_dtype(dtype: str) -> Any:
    """The type of JAX of a name."""
    return {"fp16": jnp.float16, "bf16": jnp.bfloat16, "fp32": jnp.float32}[dtype]


def _on_device(library: Numpy, opened: Opened) -> Multiply:
    return lambda x, w: whole(library, opened)(x, w, None, None)


def _on_host(multiply: Callable[[Any, Any], Any]) -> Multiply:
    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        found = multiply(*(np.asarray(one).astype(np.float32) for one in (x, w)))
        return jnp.asarray(found).astype(x.dtype)

    return run
