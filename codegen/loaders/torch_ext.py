"""The exported kernel for PyTorch: ``matmul`` on the current stream, capturable in a CUDA graph after a first call."""

from __future__ import annotations

from typing import NamedTuple

import torch

from codegen.loaders.binding import Kernel, Workspaces, extras, leading, library, multiplied, operand_shapes

KERNEL = Kernel("SCHEME", "ARCH", "DTYPE", "C_DTYPE", "LAYOUT")

_TYPES = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def _fresh(device: int, size: int) -> torch.Tensor:
    """A workspace before its first launch: only its beginning has to be zero."""
    space = torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")
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

    matrix: torch.Tensor
    planes: torch.Tensor


def pack(b: torch.Tensor) -> Packed:
    """Make the planes of a constant B, such as weights, once.

    Args:
        b: [K, N] as ``matmul`` takes it.

    Raises:
        ValueError: another type, device or memory layout.
        KernelError: the kernel's library cannot be built or opened, or it refuses.
    """
    ldb = _leading("b", b, KERNEL.dtype, KERNEL.layout[1])
    (k, n), device = b.shape, b.get_device()
    with torch.cuda.device(device):
        stream, capturing = torch.cuda.current_stream().cuda_stream, torch.cuda.is_current_stream_capturing()
        ours = library(KERNEL)
        size = ours.bytes_of("planes_b", n, k)
        planes = torch.empty(max(size, 1), dtype=torch.uint8, device=b.device)
        handle = ours.handle(device, capturing)
        ours.call("pack_b", handle, stream, n, k, b.data_ptr(), ldb, planes.data_ptr(), size)
    return Packed(b, planes)


# constant-b: end
def matmul(
    a: torch.Tensor, b: torch.Tensor | Packed, out: torch.Tensor | None = None, **operands: torch.Tensor | float
) -> torch.Tensor:
    """The product of two CUDA matrices; no gradient is recorded.

    Args:
        a: [M, K] of the kernel's type; which of its dimensions is contiguous follows from the kernel's layout.
        b: [K, N] likewise.
        out: [M, N] with contiguous rows, of the kernel's output type; default: a new one.
        # epilogue: begin
        **operands: those of the kernel's epilogue by name, of its output type: vectors [N], a residual [M, N] with
            contiguous rows that is not ``out``, a scale as a number.
        # epilogue: end

    Raises:
        ValueError: shapes, types, devices or memory layouts that do not fit, or a gradient is wanted.
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
    if out is None:
        out = torch.empty(m, n, dtype=_TYPES[KERNEL.c_dtype], device=a.device)
    ldc = _leading("out", out, KERNEL.c_dtype, "n")
    if tuple(out.shape) != (m, n):
        raise ValueError(f"out must have the shape [{m}, {n}], not {list(out.shape)}")
    if not a.device == b.device == out.device:
        raise ValueError(f"a, b and out must be on one device, not {a.device}, {b.device} and {out.device}")
    # epilogue: begin
    shapes = operand_shapes(KERNEL, m, n, list(operands))
    # epilogue: end
    device = a.get_device()
    with torch.cuda.device(device):
        stream, capturing = torch.cuda.current_stream().cuda_stream, torch.cuda.is_current_stream_capturing()
        ours = library(KERNEL)
        handle, size = ours.handle(device, capturing), ours.bytes_of("workspace", m, n, k)
        space = _spaces.take(device, stream, size, capturing)
        addresses = None, None if planes is None else planes.data_ptr(), space.data_ptr(), size
        matrices = a.data_ptr(), lda, b.data_ptr(), ldb, 0.0, out.data_ptr(), ldc
        # epilogue: begin
        given = {name: _operand(name, operands[name], shape, a) for name, shape in shapes.items()}
        last = [extras(KERNEL, given, float(operands.get("scale", 1.0)))]
        # epilogue: end
        ours.call("launch", handle, stream, m, n, k, 1.0, *matrices, *addresses, *last)
    return out


# epilogue: begin
def _operand(name: str, operand: torch.Tensor, shape: tuple[int, ...], beside: torch.Tensor) -> tuple[int, int]:
    """Address and leading dimension of an operand of the epilogue, checked."""
    _check(name, operand, KERNEL.c_dtype)
    if tuple(operand.shape) != shape or operand.device != beside.device:
        places = f"on {beside.device}, not {list(operand.shape)} on {operand.device}"
        raise ValueError(f"{name} must have the shape {list(shape)} {places}")
    *rows, step = operand.stride()
    return operand.data_ptr(), leading(name, (1, *shape)[-2:], (*(rows or shape), step), "n")


# epilogue: end
def _leading(name: str, matrix: torch.Tensor, dtype: str, layout: str) -> int:
    _check(name, matrix, dtype)
    if matrix.dim() != 2:
        raise ValueError(f"{name} must be a matrix, not of shape {list(matrix.shape)}")
    return leading(name, matrix.shape, matrix.stride(), layout)


def _check(name: str, operand: torch.Tensor, dtype: str) -> None:
    if not operand.is_cuda or operand.dtype is not _TYPES[dtype]:
        raise ValueError(f"{name} must be {_TYPES[dtype]} on a CUDA device, not {operand.dtype} on {operand.device}")
    if operand.requires_grad and torch.is_grad_enabled():
        raise ValueError(
            f"{name} requires a gradient, which this kernel does not record: call it under torch.no_grad()"
        )
