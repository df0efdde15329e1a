"""Element-wise steps as a kernel of their own, which reads C and writes it: what a fused kernel saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codegen.device_text import STORAGE, guarded, joined
from codegen.epilogue import Epilogue
from codegen.epilogue_text import steps_text

_THREADS = 256
_KERNEL = r"""
extern "C" __global__ void pass(Extra* matrix, long long packs, int columns, const void* const* data) {
  constexpr int V = 8;
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  Extras extras = {};
  extras.alignment = 16;
  for (int operand = 0; operand < Steps::operands; ++operand) extras.data[operand] = data[operand];
  Extra* const place = matrix + i * V;
  store<V>(place, finished(load<V>(place), extras, fetched<V>(extras, 0, i * V % columns)));
}
"""


def pass_text(epilogue: Epilogue, dtype: str) -> str:
    """CUDA text of the kernel for NVRTC."""
    includes, body = joined(("types", "epilogue"), (dtype,), epilogue)
    head = f"namespace {{\nusing Output = {STORAGE[dtype].name};\nusing Accumulator = float;\n}}\n"
    return "\n".join([guarded(includes), head, steps_text(epilogue, "Output"), body, _KERNEL])


def element_pass(
    xp: Any, epilogue: Epilogue, dtype: str, columns: int, vectors: Mapping[str, Any]
) -> Callable[[Any], None]:
    """What applies the steps to a C with rows of ``columns`` elements, a multiple of 8, on the current stream.

    Args:
        xp: cupy.
        epilogue: steps with vectors only.
        dtype: of C and the vectors.
        columns: of C.
        vectors: of the steps, by name.

    Raises:
        ValueError: rows that are no whole number of 16 bytes.
    """
    if columns % 8:
        raise ValueError(f"the separate pass takes rows of a multiple of 8 elements, not of {columns}")
    kernel = xp.RawKernel(pass_text(epilogue, dtype), "pass", options=("-std=c++17",))
    data = xp.asarray([vectors[name].data.ptr for name in epilogue.operands], dtype=xp.uint64)

    def apply(matrix: Any) -> None:
        packs = matrix.size // 8
        kernel((-(-packs // _THREADS),), (_THREADS,), (matrix, packs, columns, data))

    return apply
