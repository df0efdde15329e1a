"""CUDA text: the device code of ``kernels/`` put together with the linear maps of one plan, products by cuBLAS."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from catalog.measures import growth
from codegen.device_text import STORAGE, joined
from codegen.emit_planes import access_width, sides_text, sum_text
from codegen.epilogue import NOTHING, Epilogue
from codegen.epilogue_text import declared, largest_integer, steps_text, with_epilogue
from codegen.heading import block_comment, comment
from codegen.plan import Plan
from codegen.products import products

SOURCES = ("host", "types", "ahead", "planes", "scatter", "products", "launch", "selftest")
# 32-bit registers that the blocks of C of one thread may take, beside the products that it has under way.
_COMFORTABLE = 64
_FACTORS = "// For each product the plane that is its factor, or -1 - the number of a block that is one as it lies."


def emit_cuda(
    plan: Plan,
    dtype: str = "fp32",
    product_dtype: str | None = None,
    epilogue: str | Epilogue = NOTHING,
    version: str = "unknown",
) -> str:
    """One self-contained .cu: C entry points, kernels, the loader of cuBLAS and a self-test.

    Args:
        plan: what to compute.
        dtype: fp16, bf16, fp32 or fp64: the type of A, B, C and of the planes. Sums and products accumulate in fp32
            (fp64 for fp64).
        product_dtype: how block products are stored; ``dtype`` or "fp32", which saves one rounding of the 16-bit
            types for twice the bytes. Default: ``dtype``.
        epilogue: what is done to each element of C before it is stored, as in ``codegen.epilogue``; "bias,gelu" for
            example. A launch then has one more argument.
        version: of the emitting program, for the first lines of the text.

    Raises:
        ValueError: an unknown dtype or step, or more blocks than a thread's registers hold.
    """
    steps = Epilogue.parse(epilogue)
    if dtype not in STORAGE:
        raise ValueError(f"unknown dtype {dtype!r}; choose one of {', '.join(STORAGE)}")
    product_dtype = product_dtype or dtype
    if product_dtype not in ({dtype, "fp32"} if dtype != "fp64" else {dtype}):
        raise ValueError(f"products of {dtype} can be stored as {dtype} or fp32 (fp64: only fp64), not {product_dtype}")
    m, k, n = plan.format
    storage, wide = STORAGE[dtype], STORAGE["fp64" if dtype == "fp64" else "fp32"].bytes
    width = access_width(f"{m} x {n}", m * n, wide, storage.bytes, _COMFORTABLE)
    found = products(plan)
    maps = sides_text((found.a.side, found.b.side), storage.bytes, storage.bytes, wide)
    tables = [_table("kFactorsA", found.a.entries), _table("kFactorsB", found.b.entries)]
    parts = [_constants(plan, dtype, product_dtype, width, steps)]
    parts.append(
        "\n\n".join(["namespace {", maps, _outputs(found.W), "\n".join([_FACTORS, *tables]), "}  // namespace\n"])
    )
    if steps:
        parts.append(steps_text(steps, "Input"))
    includes, body = joined(with_epilogue(SOURCES) if steps else SOURCES, (dtype, product_dtype), steps)
    # The constants need the storage types' names, the kernels need the constants.
    text = "\n".join([includes, *parts, body]).replace("SCHEME_", prefix(plan, dtype, product_dtype, steps) + "_")
    return _banner(plan, dtype, product_dtype, version, steps) + "\n" + text


def header(
    plan: Plan,
    dtype: str = "fp32",
    product_dtype: str | None = None,
    epilogue: str | Epilogue = NOTHING,
    version: str = "unknown",
) -> str:
    """The C header of the entry points that ``emit_cuda`` with the same arguments defines."""
    name = prefix(plan, dtype, product_dtype, epilogue)
    text = files("codegen.kernels").joinpath("scheme.h").read_text(encoding="utf-8")
    text = declared(text, Epilogue.parse(epilogue))
    return block_comment(plan, version) + text.replace("SCHEME_", name + "_").replace("SCHEME", name)


def prefix(plan: Plan, dtype: str, product_dtype: str | None = None, epilogue: str | Epilogue = NOTHING) -> str:
    """What the names of the entry points begin with, so that the files of one plan can be linked together."""
    products = "" if product_dtype in (None, dtype) else f"{product_dtype}products"
    return "_".join(filter(None, [plan.name, dtype, products, Epilogue.parse(epilogue).suffix]))


def _banner(plan: Plan, dtype: str, product_dtype: str, version: str, epilogue: Epilogue) -> str:
    facts = {"dtype": f"{dtype}, products stored as {product_dtype}"}
    if epilogue:
        facts["after"] = f"{epilogue}, for each element of C in {'fp64' if dtype == 'fp64' else 'fp32'}"
    return f"""\
// C = alpha * A B + beta * C by a low-rank scheme: {plan.format} blocks, {plan.rank} products instead of \
{plan.format.volume}.
//
{comment(plan, version, "//", facts)}\
//
// Library: nvcc -O3 -std=c++17 -gencode=arch=compute_90,code=sm_90 -shared -Xcompiler -fPIC -o kernel.so FILE.cu
// Test:    nvcc -O3 -std=c++17 -gencode=arch=compute_90,code=sm_90 -DSUBCUBIC_MAIN -o selftest FILE.cu && ./selftest
"""


def _constants(plan: Plan, dtype: str, product_dtype: str, width: int, epilogue: Epilogue) -> str:
    storage, product = STORAGE[dtype], STORAGE[product_dtype]
    accumulator, compute = ("double", 70) if dtype == "fp64" else ("float", 68)
    m, k, n = plan.format
    # A few roundings of what is stored, and the accumulation of some hundred to a thousand terms.
    unit = 8 * 2.0 ** -min(storage.significand, product.significand) + 32 * 2.0 ** -(53 if dtype == "fp64" else 24)
    # The standard algorithm has the growth factor mkn.
    tolerance = unit * max(1.0, growth(plan.scheme) / plan.format.volume)
    return f"""\
namespace {{

using Input = {storage.name};
using Plane = {storage.name};
using Product = {product.name};
using Accumulator = {accumulator};
constexpr int kBlocksM = {m}, kBlocksK = {k}, kBlocksN = {n}, kRank = {plan.rank};
constexpr Accumulator kDivisor = {plan.divisor};
// Elements of one access to C: 16 bytes where the blocks of a thread leave registers for it.
constexpr int kWidthC = {width};
// cudaDataType_t of planes and products; CUBLAS_COMPUTE_32F is 68 (true FP32), CUBLAS_COMPUTE_64F is 70.
constexpr int kPlaneType = {storage.library}, kProductType = {product.library}, kComputeType = {compute};
// cublasMath_t: 0 is the default, which never rounds FP32 to TF32; 16 forbids to add parts of a product in 16 bits.
constexpr int kMathMode = {16 if storage.bytes == 2 else 0};
#ifdef SUBCUBIC_MAIN
// Of the self-test: relative Frobenius error, and whether small integers pass through every step exactly.
constexpr double kTolerance = {tolerance:.3e};
constexpr bool kExactIntegers = {str(_exact(plan, dtype, product_dtype, epilogue)).lower()};
#endif

}}  // namespace
"""


def _exact(plan: Plan, dtype: str, product_dtype: str, epilogue: Epilogue) -> bool:
    """Whether the self-test's integer cases stay exact in every type: entries up to 2, inner size up to 32.

    |alpha A B + beta C| is at most 2 * 4 * 23 + 2 there, or 4 * 32, before the steps of an epilogue.
    """
    peak_a, peak_b, peak_c = (
        int(np.abs(factor).sum(axis=axis).max()) for factor, axis in zip(plan.scheme.factors, (0, 0, 1), strict=True)
    )
    product = 4 * peak_a * peak_b * (-(-32 // plan.format.k))
    largest = {
        "planes": 2 * max(peak_a, peak_b),
        "products": product,
        "output": largest_integer(epilogue, 2 * 4 * 23 + 2, 1),
    }
    limits = {name: 1 << STORAGE[t].significand for name, t in (("planes", dtype), ("products", product_dtype))}
    limits["output"] = limits["planes"]
    accumulator = 1 << STORAGE["fp64" if dtype == "fp64" else "fp32"].significand
    return all(largest[name] <= limit for name, limit in limits.items()) and product * peak_c <= accumulator


def _outputs(factor: np.ndarray) -> str:
    lines = [
        "// Blocks of C from the products, each product read once and added wherever it is needed.",
        "struct MapC {",
        "  static constexpr int rows = kBlocksM, columns = kBlocksN;",
        "  template <class Next, class Block>",
        "  static __device__ __forceinline__ void outputs(Next next, Block& y) {",
    ]
    started: set[int] = set()
    for r, column in enumerate(factor.T.tolist()):
        lines.append(f"    const auto p{r} = next();")
        for i, c in enumerate(column):
            if c:
                head = f"y[{i}] = y[{i}]" if i in started else f"y[{i}] ="
                text = sum_text({r: c}, lambda r: f"p{r}")
                joined = f"- {text[1:]}" if text.startswith("-") else f"+ {text}"
                lines.append(f"    {head} {joined if i in started else text};")
                started.add(i)
    return "\n".join([*lines, "  }", "};"])


def _table(name: str, entries: Sequence[int]) -> str:
    lines = [", ".join(map(str, entries[i : i + 20])) for i in range(0, len(entries), 20)]
    return f"constexpr short {name}[kRank] = {{\n    " + ",\n    ".join(lines) + "};"
