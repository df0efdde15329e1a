"""A product followed by element-wise steps: the kernel that does both against itself without, and the vendor's ways.

The vendor's ways are cuBLASLt with the same steps, where it has them, and its plain product followed by one more kernel
that reads and writes C, as a framework's fused element-wise kernel does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from codegen.epilogue import Epilogue, apply
from codegen.extras import Operands
from codegen.plan import Plan
from evaluate import counters
from evaluate.cases import Row, Shape, facts_of
from evaluate.cublas import CublasError, open_cublas
from evaluate.cublaslt import EPILOGUES, open_cublaslt
from evaluate.device import DeviceInfo, array_module, release_memory, require_gpu
from evaluate.epilogue_pass import element_pass
from evaluate.fused import ZEROED_BYTES, build_fused, open_fused
from evaluate.gpu import Buffers, draw_buffers
from evaluate.kernel import Built
from evaluate.operands import DTYPES, draw, widen
from evaluate.timing import PAIRS, Comparison, Launch, compare, verdict
from evaluate.variants import FUSED_PATH, Variant
from evaluate.windows import GPU_REGIMES, gpu_measure

KIND = "epilogue"
OURS, PLAIN, VENDOR, UNFUSED = "ours", "plain", "vendor", "unfused"
_WINDOWS = 3  # by which the vendor's faster product is chosen
_ROWS = 64  # of C that are compared with FP64
_TOLERANCE = 8.0  # roundings to the type of C
_COUNTED = ("dram_read_bytes", "dram_write_bytes", "l2_hit_rate", "reason")


@dataclass(frozen=True)
class EpilogueCase:
    """One row.

    Attributes:
        plan: of the scheme.
        shape: M, N, K.
        epilogue: the steps, vectors only.
        dtype: of all matrices.
        layout: of A and B.
        options: further ones of the emitter.
    """

    plan: Plan
    shape: Shape
    epilogue: Epilogue
    dtype: str = "bf16"
    layout: str = "nn"
    options: tuple[tuple[str, Any], ...] = ()

    def variant(self, epilogue: bool) -> Variant:
        """How the kernel is built, with the steps or without."""
        options = (*self.options, ("epilogue", str(self.epilogue))) if epilogue else self.options
        return Variant(self.dtype, FUSED_PATH, "variable", self.dtype, "fp32", self.layout, options)


def measure_epilogues(
    cases: Sequence[EpilogueCase], gpu: DeviceInfo, pairs: int = PAIRS, limit: float | None = None, count: bool = False
) -> Iterator[Row]:
    """Measure cases in their order.

    Args:
        cases: what to measure.
        gpu: where.
        pairs: interleaved pairs of windows for each comparison.
        limit: seconds of pairs for each comparison, or None.
        count: whether to count the bytes that a launch of each arm moves, by Nsight Compute.

    Yields:
        A row for each: ``ratio`` is that to the vendor's fused way, None where it has none, ``ratio_unfused`` that to
        its product and one more pass, ``ratio_plain`` the time of the same kernel without steps over that with them;
        each with its interval. ``counters`` by arm, where they were counted.

    Raises:
        evaluate.device.DeviceMissingError: no cuBLAS, or the device is lost.
        ValueError: a step with a matrix, or one that the emitter refuses.
        codegen.build.BuildError: nvcc refuses the text.
    """
    for case in cases:
        built = [build_fused(case.plan, case.variant(one), gpu.arch) for one in (True, False)]
        release_memory()
        with open_arms(case, built, gpu) as arms:
            row = {**_identity(case), **_compared(case, arms, gpu, pairs, limit), **built[0].facts}
        if count:
            row["counters"] = {name: _counted(case, name) for name in arms.launches}
        yield {**row, "verdict": verdict(row)}


@dataclass(frozen=True)
class Arms:
    """What is compared, ready to launch.

    Attributes:
        launches: by name.
        texts: what the vendor's ways are.
        buffers: operands and results.
        operands: of the steps, as the device has them.
    """

    launches: dict[str, Launch]
    texts: dict[str, str]
    buffers: Buffers
    operands: dict[str, Any]


@contextmanager
def open_arms(case: EpilogueCase, built: Sequence[Built], gpu: DeviceInfo) -> Iterator[Arms]:
    """Draw operands and open all libraries, ours with the steps and without; they are closed on leaving."""
    xp, (m, n, k) = array_module(), case.shape
    variant = case.variant(False)
    buffers = draw_buffers(xp, variant, case.shape, "normal", 0, gpu.l2_bytes)
    rng = xp.random.default_rng(1)
    vectors = {name: draw(xp, rng, (1, n), case.dtype)[0] for name in case.epilogue.operands}
    if "residual" in vectors:
        raise ValueError(f"steps with vectors only are compared, not {case.epilogue}")
    places = Operands({name: x.data.ptr for name, x in vectors.items()})
    launches: dict[str, Launch] = {}
    texts: dict[str, str] = {}
    with ExitStack() as stack:
        for name, one, steps in ((OURS, built[0], case.epilogue), (PLAIN, built[1], Epilogue())):
            kernel = stack.enter_context(open_fused(one, steps))
            size = kernel.workspace_bytes(m, n, k)
            space = xp.full(size, 0, dtype=xp.uint8)
            assert ZEROED_BYTES <= size
            launch = kernel.launcher(case.shape, buffers.leading, places if steps else None)
            launches[name] = buffers.rotated(_queue(launch, buffers.stream, space, size), buffers.outputs)
        cublas = stack.enter_context(open_cublas(xp, case.dtype))
        products = [
            (
                cublas.describe(),
                buffers.rotated(lambda _, a, b, c: cublas.gemm(m, n, k, a, b, c, case.layout), buffers.references),
            )
        ]
        for epilogue in ("", str(case.epilogue)):
            if epilogue not in EPILOGUES:
                continue
            try:
                gemm = stack.enter_context(open_cublaslt(xp, case.dtype, case.shape, case.layout, epilogue=epilogue))
            except CublasError:
                continue
            bias = [vectors["bias"].data.ptr] if "bias" in epilogue else []
            queue = buffers.rotated(_vendor(gemm, bias), buffers.references)
            if epilogue:
                launches[VENDOR], texts[VENDOR] = queue, cublas.describe(f"cublasLtMatmul with {epilogue}")
            else:
                products.append((cublas.describe("cublasLtMatmul, first heuristic"), queue))
        measure = gpu_measure(xp, GPU_REGIMES["burst"], gpu.l2_bytes)
        text, product = min(products, key=lambda one: min(measure(one[1]) for _ in range(_WINDOWS)))
        launches[UNFUSED] = _followed(product, element_pass(xp, case.epilogue, case.dtype, n, vectors), buffers)
        texts[UNFUSED] = f"{text}; then one kernel with {case.epilogue}"
        yield Arms(launches, texts, buffers, vectors)
        xp.cuda.get_current_stream().synchronize()


def _queue(launch: Any, stream: int, space: Any, size: int) -> Any:
    return lambda _, a, b, c: launch(stream, a, b, c, space.data.ptr, size)


def _vendor(gemm: Any, bias: list[int]) -> Any:
    return lambda _, a, b, c: gemm(a, b, c, *bias)


def _followed(product: Launch, after: Any, buffers: Buffers) -> Launch:
    def launch(number: int) -> None:
        product(number)
        after(buffers.references[number % len(buffers.references)])

    return launch


def _compared(case: EpilogueCase, arms: Arms, gpu: DeviceInfo, pairs: int, limit: float | None) -> Row:
    buffers = arms.buffers
    measure = gpu_measure(buffers.xp, GPU_REGIMES["burst"], gpu.l2_bytes)
    row: Row = {"regime": "burst"}
    arms.launches[OURS](0)
    error = _error(case, arms, buffers.outputs[0])
    reference = VENDOR if VENDOR in arms.launches else UNFUSED
    arms.launches[reference](0)
    baseline_error = _error(case, arms, buffers.references[0])
    names = {VENDOR: "", UNFUSED: "_unfused", PLAIN: "_plain"}
    for name, suffix in names.items():
        if name not in arms.launches:
            row |= dict.fromkeys((f"ratio{suffix}", f"ratio{suffix}_low", f"ratio{suffix}_high"))
            continue
        found: Comparison = compare(measure, arms.launches[OURS], arms.launches[name], pairs=pairs, limit=limit)
        row |= {
            f"seconds{suffix}": found.seconds,
            f"baseline_seconds{suffix}": found.baseline_seconds,
            f"ratio{suffix}": found.ratio,
            f"ratio{suffix}_low": found.ratio_low,
            f"ratio{suffix}_high": found.ratio_high,
            "pairs": found.pairs,
        }
    m, n, k = case.shape
    seconds = row.get("seconds") or row["seconds_unfused"]
    return {
        **row,
        "seconds": seconds,
        "tflops_effective": 2 * m * n * k / seconds / 1e12,
        "baseline": arms.texts.get(VENDOR, "cuBLASLt has no such steps"),
        "baseline_unfused": arms.texts[UNFUSED],
        "error_fro": error,
        "baseline_error_fro": baseline_error,
        # Of a scheme the sums have an error of their own, which its rows without steps tell.
        "correct": bool(error <= _TOLERANCE * max(baseline_error, DTYPES[case.dtype].roundoff)),
    }


def _identity(case: EpilogueCase) -> Row:
    m, n, k = case.shape
    return {
        **facts_of(case.plan),
        "kind": KIND,
        "path": FUSED_PATH,
        "epilogue": str(case.epilogue),
        "M": m,
        "N": n,
        "K": k,
        "dtype": case.dtype,
        "layout": case.layout,
        **({"options": dict(case.options)} if case.options else {}),
    }


def _error(case: EpilogueCase, arms: Arms, out: Any) -> float:
    """Relative Frobenius error of some rows against FP64."""
    buffers, xp, m = arms.buffers, arms.buffers.xp, case.shape[0]
    rows = np.unique(np.linspace(0, m - 1, _ROWS).astype(np.int64))
    a, b = (
        stored[0].T if letter == "t" else stored[0]
        for letter, stored in zip(case.layout, (buffers.lefts, buffers.rights), strict=True)
    )
    sums = widen(xp, a[xp.asarray(rows)], case.dtype) @ widen(xp, b, case.dtype)
    host = _host(xp)
    operands = {name: host(widen(xp, x, case.dtype)) for name, x in arms.operands.items()}
    exact = apply(case.epilogue, host(sums), operands)
    found = host(widen(xp, out[xp.asarray(rows)], case.dtype))
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


def _host(xp: Any) -> Any:
    return getattr(xp, "asnumpy", np.asarray)


def _counted(case: EpilogueCase, arm: str) -> Row:
    found = counters.count_of("evaluate.epilogue_bench", (case, arm))
    return {key: found[key] for key in _COUNTED if key in found}


def main(arguments: Sequence[str]) -> int:
    """Make the one launch of an arm that is counted."""
    import pickle

    case, arm = pickle.loads(Path(arguments[0]).read_bytes())
    gpu = require_gpu()
    built = [build_fused(case.plan, case.variant(one), gpu.arch) for one in (True, False)]
    with open_arms(case, built, gpu) as arms:
        counters.counted_launch(arms.buffers.xp, arms.launches[arm])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
