"""C = A B in fp16 or bf16 on NVIDIA GPUs: of the trivial scheme, a plain GEMM. The emitter puts others in its place."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

# PRODUCTS, in order: of the factor from A whether it is a plane, row and column of its block or number of the plane
#     and 0; the same from B; whether the accumulator starts from zero; the first of its publications and how many it
#     has.
# PUBLICATIONS: row and column of the block of C, factor of the accumulator, slot of the pending sum, whether it is the
#     first and whether it is the last one to the block.
# combine_a, combine_b: kernels that write the planes; each reads every element of the blocks once.
# <scheme>
DTYPE, PLANE_DTYPE = torch.bfloat16, torch.bfloat16
BLOCKS_M, BLOCKS_K, BLOCKS_N = 1, 1, 1
RANK, DIVISOR = tl.constexpr(1), tl.constexpr(1)
PLANES_A, PLANES_B, SLOTS = 0, 0, 0
SPAN_A, SPAN_B = 1024, 1024  # elements of each block that a program combines
PRODUCTS = tl.constexpr(
    (
        (0, 0, 0, 0, 0, 0, 1, 0, 1),
    )
)  # fmt: skip
PUBLICATIONS = tl.constexpr(
    (
        (0, 0, 1, 0, 1, 1),
    )
)  # fmt: skip
combine_a = None
combine_b = None
# </scheme>

# Tile M, N, K, warps, stages. Without tune(), the first that gives every multiprocessor a tile, else the last.
CONFIGS = [
    (256, 128, 64, 8, 4),
    (256, 128, 64, 8, 3),
    (128, 256, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 4),
]
GROUP = 8  # rows of tiles that are walked together, so that they share columns of B in the L2 cache
# Blocks are multiples of these. So no tile along K reaches into the next block, and rows stay aligned.
ALIGN_K, ALIGN_N = 64, 16

_best: dict = {}  # of tune
_compiled: dict = {}  # for resources


def matmul(a, b, out=None, config=None):
    """A @ B with fp32 accumulation, rounded once.

    Args:
        a: [M, K] CUDA tensor of DTYPE.
        b: [K, N], of the same type and on the same device.
        out: [M, N] tensor with dense rows to write to, apart from a and b in memory; made if left out.
        config: one of CONFIGS; default what tune() found for these sizes, or a choice by size.
    """
    a, b, out = _checked(a, b, out)
    M, K, N = a.shape[0], a.shape[1], b.shape[1]
    if 0 in (M, K, N):
        return out.zero_()
    mb, kb, nb = (_up(M, BLOCKS_M, 1), _up(K, BLOCKS_K, ALIGN_K), _up(N, BLOCKS_N, ALIGN_N))
    operands = [
        a,
        combined(combine_a, a, PLANES_A, mb, kb, SPAN_A),
        b,
        combined(combine_b, b, PLANES_B, kb, nb, SPAN_B),
    ]
    multiprocessors = _multiprocessors(a.device)
    config = config or _best.get((M, K, N)) or _by_size(mb, nb, multiprocessors)
    tile_m, tile_n, tile_k, warps, stages = config
    programs = min(multiprocessors, triton.cdiv(mb, tile_m) * triton.cdiv(nb, tile_n))
    scratch = torch.empty(max(1, programs * SLOTS * tile_m * tile_n), dtype=torch.float32, device=a.device)
    strides = [x.stride(0) for x in operands]
    descriptors = all(
        x.data_ptr() % 16 == 0 and x.stride(0) * x.element_size() % 16 == 0 and x.stride(1) == 1 for x in operands
    )
    if descriptors:
        tiles = [[tile_m, tile_k]] * 2 + [[tile_k, tile_n]] * 2
        operands = [TensorDescriptor(x, x.shape, x.stride(), tile) for x, tile in zip(operands, tiles, strict=True)]
    kernel = multiply[(programs,)](
        *operands, *strides, out, out.stride(0), scratch, M, K, N, mb, kb, nb, PLANES_A * mb, PLANES_B * kb,
        TILE_M=tile_m, TILE_N=tile_n, TILE_K=tile_k, ROWS=GROUP, PENDING=SLOTS, DESCRIPTORS=descriptors,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    _compiled[label(config)] = kernel
    return out


def tune(a, b):
    """Time CONFIGS on these operands and keep the best for their sizes; returns {config: milliseconds}.

    A config that the device cannot run is left out.
    """
    times = {}
    for config in CONFIGS:
        try:
            times[config] = triton.testing.do_bench(lambda config=config: matmul(a, b, config=config))
        except triton.runtime.errors.OutOfResources:
            continue
    if times:
        _best[a.shape[0], a.shape[1], b.shape[1]] = min(times, key=lambda config: times[config])
    return times


def resources():
    """Registers and bytes of local memory (spills) of a thread, of every kernel launched so far: {name: (r, s)}."""
    return {name: (kernel.n_regs, 4 * kernel.n_spills) for name, kernel in _compiled.items() if kernel is not None}


def label(config):
    """The name of a config in resources()."""
    tile_m, tile_n, tile_k, warps, stages = config
    return f"multiply {tile_m}x{tile_n}x{tile_k}, {warps} warps, {stages} stages"


def combined(kernel, x, planes, rows, columns, span):
    """The planes of a matrix, one below the other, each rows x columns; the matrix itself if there are none."""
    if not planes:
        return x
    result = torch.empty((planes * rows, columns), dtype=PLANE_DTYPE, device=x.device)
    grid = (rows * triton.cdiv(columns, span),)
    _compiled[kernel.__name__] = kernel[grid](x, x.stride(0), *x.shape, result, rows, columns, SPAN=span)
    return result


# fmt: off
@triton.jit
def multiply(
    a, a_planes, b, b_planes, lda, lda_planes, ldb, ldb_planes, c, ldc, scratch, M, K, N, mb, kb, nb,
    a_plane_rows, b_plane_rows, TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr, ROWS: tl.constexpr,
    PENDING: tl.constexpr, DESCRIPTORS: tl.constexpr,
):
    # fmt: on
    """All products of a tile in turn through one accumulator, which is published to blocks of C on the way."""
    tiles_m, tiles_n = tl.cdiv(mb, TILE_M), tl.cdiv(nb, TILE_N)
    for tile in range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0)):
        start = tile // (ROWS * tiles_n) * ROWS
        height = min(ROWS, tiles_m - start)
        row = (start + tile % (ROWS * tiles_n) % height) * TILE_M
        column = tile % (ROWS * tiles_n) // height * TILE_N
        acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
        for turn in tl.static_range(RANK):
            # A tile may reach into the rows of A or the columns of B of the next block: what it makes of them stays
            # out of C. Along K it never does.
            a_row, a_column = PRODUCTS[turn][1] * mb + row, PRODUCTS[turn][2] * kb
            b_row, b_column = PRODUCTS[turn][4] * kb, PRODUCTS[turn][5] * nb + column
            if PRODUCTS[turn][6]:
                acc = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
            for k in range(0, kb, TILE_K):
                if PRODUCTS[turn][0]:
                    x = load(a_planes, lda_planes, a_plane_rows, kb, a_row, k, TILE_M, TILE_K, DESCRIPTORS)
                else:
                    x = load(a, lda, M, K, a_row, a_column + k, TILE_M, TILE_K, DESCRIPTORS)
                if PRODUCTS[turn][3]:
                    y = load(b_planes, ldb_planes, b_plane_rows, nb, b_row + k, column, TILE_K, TILE_N, DESCRIPTORS)
                else:
                    y = load(b, ldb, K, N, b_row + k, b_column, TILE_K, TILE_N, DESCRIPTORS)
                acc = tl.dot(x, y, acc)
            pending = scratch + tl.program_id(0) * PENDING * (TILE_M * TILE_N)
            publish(
                acc, PRODUCTS[turn][7], PRODUCTS[turn][8], pending, c, ldc, row, column, M, N, mb, nb, TILE_M, TILE_N
            )


# fmt: off
@triton.jit
def publish(
    acc, FIRST: tl.constexpr, COUNT: tl.constexpr, pending, c, ldc, row, column, M, N, mb, nb,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr,
):
    # fmt: on
    """Add multiples of the accumulator to pending sums of blocks; write the blocks to C that are complete by that."""
    for number in tl.static_range(FIRST, FIRST + COUNT):
        down, across = PUBLICATIONS[number][0] * mb, PUBLICATIONS[number][1] * nb
        place = pending + PUBLICATIONS[number][3] * (TILE_M * TILE_N)
        # The sum that was completed just before may have lain in the slot that is taken now: another thread may still
        # be reading there.
        if number > FIRST and PUBLICATIONS[number][4] and not PUBLICATIONS[number][5]:
            tl.debug_barrier()
        # In quarters: only so much of the pending sum is in registers beside the accumulator.
        for quarter in tl.static_range(4):
            i, j = tl.arange(0, TILE_M)[:, None], quarter * (TILE_N // 4) + tl.arange(0, TILE_N // 4)[None, :]
            value = half(half(acc, quarter // 2), quarter % 2) * PUBLICATIONS[number][2]
            if not PUBLICATIONS[number][4]:
                value += tl.load(place + i * TILE_N + j)
            if PUBLICATIONS[number][5]:
                inside = (row + i < min(mb, M - down)) & (column + j < min(nb, N - across))
                to = c + (down + row + i).to(tl.int64) * ldc + across + column + j
                tl.store(to, (value / DIVISOR).to(c.dtype.element_ty), mask=inside)
            else:
                tl.store(place + i * TILE_N + j, value)
    # Another thread may read what this one has parked, and write where it has read.
    if COUNT > 0:
        tl.debug_barrier()


@triton.jit
def half(x, which: tl.constexpr):
    """The left or right half of a tile."""
    return tl.permute(tl.reshape(x, (x.shape[0], 2, x.shape[1] // 2)), (0, 2, 1)).split()[which]


@triton.jit
def load(x, ld, rows, columns, row, column, HEIGHT: tl.constexpr, ACROSS: tl.constexpr, DESCRIPTORS: tl.constexpr):
    """A tile of a matrix, zero beyond its edges."""
    if DESCRIPTORS:
        result = x.load([row, column])
    else:
        i, j = row + tl.arange(0, HEIGHT), column + tl.arange(0, ACROSS)
        inside = (i < rows)[:, None] & (j < columns)[None, :]
        result = tl.load(x + i.to(tl.int64)[:, None] * ld + j[None, :], mask=inside, other=0.0)
    return result


@triton.jit
def place(columns, SPAN: tl.constexpr):
    """The row of a program and the columns of its elements."""
    programs = tl.cdiv(columns, SPAN)
    row = (tl.program_id(0) // programs).to(tl.int64)
    return row, tl.program_id(0) % programs * SPAN + tl.arange(0, SPAN)


@triton.jit
def read(x, ld, rows, columns, row, column, wanted):
    """Elements of a row of a matrix in fp32, zero beyond its edges."""
    return tl.load(x + row * ld + column, mask=wanted & (row < rows) & (column < columns), other=0.0).to(tl.float32)


@triton.jit
def write(planes, number, value, row, column, rows, columns):
    """Elements of a row of one plane."""
    to = planes + (number * rows + row) * columns + column
    tl.store(to, value.to(planes.dtype.element_ty), mask=column < columns)


def _checked(a, b, out):
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"a must be [M, K] and b [K, N], not {tuple(a.shape)} and {tuple(b.shape)}")
    if a.dtype != DTYPE or b.dtype != DTYPE:
        raise ValueError(f"a and b must be {DTYPE}, not {a.dtype} and {b.dtype}")
    shape = (a.shape[0], b.shape[1])
    if out is None:
        out = torch.empty(shape, dtype=DTYPE, device=a.device)
    if tuple(out.shape) != shape or out.dtype != DTYPE or (out.shape[1] > 1 and out.stride(1) != 1):
        raise ValueError(f"out must be {shape} of {DTYPE} with dense rows, not {tuple(out.shape)} of {out.dtype}")
    if not a.device == b.device == out.device:
        raise ValueError(f"a, b and out must be on one device, not {a.device}, {b.device} and {out.device}")
    a, b = (x if x.stride(1) == 1 and x.stride(0) >= x.shape[1] else x.contiguous() for x in (a, b))
    return a, b, out


def _up(size, parts, multiple):
    return triton.cdiv(size, parts * multiple) * multiple


def _by_size(mb, nb, multiprocessors):
    for config in CONFIGS:
        if triton.cdiv(mb, config[0]) * triton.cdiv(nb, config[1]) >= multiprocessors:
            return config
    return CONFIGS[-1]


def _multiprocessors(device):
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
