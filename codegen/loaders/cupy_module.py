"""The exported kernel for CuPy: ``matmul`` on the current stream, capturable in a CUDA graph after a first call."""

from __future__ import annotations

from typing import NamedTuple

import cupy

from codegen.loaders.binding import Kernel, Workspaces, extras, leading, library, multiplied, operand_shapes

KERNEL = Kernel("SCHEME", "ARCH", "DTYPE", "C_DTYPE", "LAYOUT")


def _fresh(device: int, size: int) -> cupy.ndarray:
    """A workspace on the current device before its first launch: only its beginning has to be zero."""
    space = cupy.empty(size, cupy.uint8)
    space[:4096] = 0
    return space


_spaces = Workspaces(_fresh)


# constant-b: begin
class Packed(NamedTuple):
    """A constant matrix and its planes; the matrix must not change as long as they are used.

    Attributes:
        matrix: [K, N] what was packed.
        planes: uint8 device memory.
    """

    matrix: cupy.ndarray
    planes: cupy.ndarray


def pack(b: cupy.ndarray) -> Packed:
    """Make the planes of a constant B, such as weights, once.

    Args:
        b: [K, N] as ``matmul`` takes it.

    Raises:
        ValueError: another type, device or memory layout.
        KernelError: the kernel's library cannot be built or opened, or it refuses.
    """
    ldb = _leading("b", b, KERNEL.dtype, KERNEL.layout[1])
    k, n = b.shape
    with b.device:
        stream = cupy.cuda.get_current_stream()
        ours = library(KERNEL)
        size = ours.bytes_of("planes_b", n, k)
        planes = cupy.empty(max(size, 1), cupy.uint8)
        handle = ours.handle(b.device.id, stream.is_capturing())
        ours.call("pack_b", handle, stream.ptr, n, k, b.data.ptr, ldb, planes.data.ptr, size)
    return Packed(b, planes)


# constant-b: end
def matmul(
    a: cupy.ndarray, b: cupy.ndarray | Packed, out: cupy.ndarray | None = None, **operands: cupy.ndarray | float
) -> cupy.ndarray:
    """The product of two matrices on a device.

    Args:
        a: [M, K] of the kernel's type; which of its dimensions is contiguous follows from the kernel's layout.
        b: [K, N] likewise.
        out: [M, N] with contiguous rows, of the kernel's output type; default: a new one.
        # epilogue: begin
        **operands: those of the kernel's epilogue by name, of its output type: vectors [N], a residual [M, N] with
            contiguous rows that is not ``out``, a scale as a number.
        # epilogue: end

    Raises:
        ValueError: shapes, types, devices or memory layouts that do not fit.
        KernelError: the kernel's library cannot be built or opened, or it refuses.
    """
    planes = None
    # constant-b: begin
    if isinstance(b, Packed):
        b, planes = b
    # constant-b: end
    m, n, k = multiplied(a.shape, b.shape)
    lda = _leading("a", a, KERNEL.dtype, KERNEL.layout[0])
    ldb = _leading("b", b, KERNEL.dtype, KERNEL.layout[1])
    # epilogue: begin
    shapes = operand_shapes(KERNEL, m, n, list(operands))
    # epilogue: end
    with a.device:
        if out is None:
            out = cupy.empty((m, n), _type(KERNEL.c_dtype))
        ldc = _leading("out", out, KERNEL.c_dtype, "n")
        if out.shape != (m, n):
            raise ValueError(f"out must have the shape [{m}, {n}], not {list(out.shape)}")
        if not a.device.id == b.device.id == out.device.id:
            numbers = f"{a.device.id}, {b.device.id} and {out.device.id}"
            raise ValueError(f"a, b and out must be on one device, not {numbers}")
        stream, device = cupy.cuda.get_current_stream(), a.device.id
        capturing = stream.is_capturing()
        ours = library(KERNEL)
        handle, size = ours.handle(device, capturing), ours.bytes_of("workspace", m, n, k)
        space = _spaces.take(device, stream.ptr, size, capturing)
        addresses = None, None if planes is None else planes.data.ptr, space.data.ptr, size
        matrices = a.data.ptr, lda, b.data.ptr, ldb, 0.0, out.data.ptr, ldc
        # epilogue: begin
        given = {name: _operand(name, operands[name], shape, a) for name, shape in shapes.items()}
        last = [extras(KERNEL, given, float(operands.get("scale", 1.0)))]
        # epilogue: end
        ours.call("launch", handle, stream.ptr, m, n, k, 1.0, *matrices, *addresses, *last)
    return out


# epilogue: begin
def _operand(name: str, operand: cupy.ndarray, shape: tuple[int, ...], beside: cupy.ndarray) -> tuple[int, int]:
    """Address and leading dimension of an operand of the epilogue, checked."""
    _check(name, operand, KERNEL.c_dtype)
    if operand.shape != shape or operand.device.id != beside.device.id:
        places = f"on device {beside.device.id}, not {list(operand.shape)} on device {operand.device.id}"
        raise ValueError(f"{name} must have the shape {list(shape)} {places}")
    *rows, step = [stride // operand.itemsize for stride in operand.strides]
    return operand.data.ptr, leading(name, (1, *shape)[-2:], (*(rows or shape), step), "n")


# epilogue: end
def _leading(name: str, matrix: cupy.ndarray, dtype: str, layout: str) -> int:
    _check(name, matrix, dtype)
    if matrix.ndim != 2:
        raise ValueError(f"{name} must be a matrix, not of shape {list(matrix.shape)}")
    return leading(name, matrix.shape, [stride // matrix.itemsize for stride in matrix.strides], layout)


def _check(name: str, operand: cupy.ndarray, dtype: str) -> None:
    if not isinstance(operand, cupy.ndarray) or operand.dtype != _type(dtype):
        found = getattr(operand, "dtype", type(operand).__name__)
        raise ValueError(f"{name} must be a CuPy array of {_type(dtype)}, not {type(operand).__name__} of {found}")


def _type(dtype: str) -> cupy.dtype:
    if dtype == "bf16":
        import ml_dtypes  # brings NumPy and CuPy the type bfloat16

        return cupy.dtype(ml_dtypes.bfloat16)
    return cupy.dtype({"fp16": "float16", "fp32": "float32"}[dtype])
