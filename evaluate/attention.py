"""Whether a low-rank scheme can pay inside attention: the share of its two products, bounds, and one that is measured.

The inner size of Q K^T is that of a head, 64 to 256, so its result is larger than what it is made of. A flash
attention (Dao et al., arXiv 2205.14135) never writes it; a scheme that works on whole matrices has to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

from codegen.plan import Plan
from evaluate.attention_library import flash_attentions
from evaluate.cases import Row
from evaluate.device import DeviceInfo, array_module, release_memory
from evaluate.device_model import DeviceModel
from evaluate.fused import build_fused, open_fused
from evaluate.gemm_model import full_rate
from evaluate.model import predict
from evaluate.variants import FUSED_PATH, Variant

TOKENS, HEADS = (8192, 16384, 32768, 65536, 131072), (64, 128, 256)
KIND = "attention"
_SAVED = 1 / 8  # of the multiplications, by one level of a 2x2x2 scheme of rank 7
_WINDOWS = 7
_BYTES = 2  # of an element of Q, K, V, of what softmax makes, and of the result


@dataclass(frozen=True)
class Layer:
    """A transformer layer, by default that of an eight-billion-parameter model (Llama 3, arXiv 2407.21783).

    Attributes:
        hidden: width.
        inner: width of the gated feed-forward part, which has three products.
        keys: width of keys and of values.
    """

    hidden: int = 4096
    inner: int = 14336
    keys: int = 1024


def shares(tokens: int, layer: Layer = Layer(), causal: bool = True) -> Row:  # noqa: B008 (frozen)
    """What share of a layer's multiplications the two products of attention are, and what saving an eighth brings.

    Args:
        tokens: of a sequence that is read at once.
        layer: sizes.
        causal: whether tokens see only those before, so that half is computed.

    Returns:
        ``share``, and the most that the layer and its attention can gain if an eighth were saved for nothing.
    """
    both = 4 * tokens * tokens * layer.hidden * (0.5 if causal else 1.0)
    projections = 2 * tokens * layer.hidden * (2 * layer.hidden + 2 * layer.keys)
    feed_forward = 2 * tokens * 3 * layer.hidden * layer.inner
    share = both / (both + projections + feed_forward)
    return {"share": share, "most_for_layer": 1 / (1 - share * _SAVED), "most_for_attention": 1 / (1 - _SAVED)}


def bounds(plan: Plan, tokens: int, head: int, device: DeviceModel) -> Row:
    """What the cost model says of one head whose products are done as whole matrices.

    Args:
        plan: of the scheme.
        tokens: of the sequence; every token sees all.
        head: size of a head.
        device: where.

    Returns:
        Seconds of ``flash``, as if its products ran at the full rate and nothing else took time; of ``whole``, the same
        products by the scheme and softmax as a copy of the matrix between them; the scheme's ratio at each product.
    """
    first = predict(plan, (tokens, tokens, head), device)
    second = predict(plan, (tokens, head, tokens), device)
    flash = 4 * tokens * tokens * head / full_rate(device, "bf16", "burst")
    softmax = 2 * _BYTES * tokens * tokens / device.copy
    return {
        "flash_seconds": flash,
        "whole_seconds": first.seconds + softmax + second.seconds,
        "softmax_seconds": softmax,
        "ratio_qk": first.ratio,
        "ratio_pv": second.ratio,
        "bound": flash / (first.seconds + softmax + second.seconds),
    }


def measured(plans: Sequence[Plan], tokens: int, head: int, heads: int, gpu: DeviceInfo) -> Iterator[tuple[str, Row]]:
    """Time attention of some heads, the arms in turn; the host waits for the end of each call.

    Args:
        plans: of schemes whose fused kernels do both products.
        tokens: of the sequence; every token sees all.
        head: size of a head.
        heads: how many.
        gpu: where.

    Yields:
        The name of an arm, with ``seconds``, the ``spread`` of its windows, and ``error`` against FP64 of some rows of
        the first head: the library's flash attention first where there is one, then a scheme each.
    """
    xp = array_module()
    release_memory()
    rng = xp.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, tokens, head), dtype=xp.float32).astype(xp.float16) for _ in range(3))
    exact = _exact(xp, q[0], k[0], v[0])
    calls: dict[str, Callable[[], Any]] = {}
    wrong: dict[str, float] = {}
    with ExitStack() as stack:
        for name, make in flash_attentions().items():
            calls[name], fetch = make(q, k, v)
            wrong[name] = _error(xp, fetch(), exact)
        for plan in plans:
            first, second = (stack.enter_context(open_fused(_kernel(plan, layout, gpu))) for layout in ("nt", "nn"))
            name = f"{plan.base.format}:{plan.base.rank}"
            calls[name], out = _whole(xp, first, second, q, k, v)
            calls[name]()
            wrong[name] = _error(xp, out[0], exact)
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(_WINDOWS):
            for name, call in calls.items():
                began = perf_counter()
                call()
                seconds[name].append(perf_counter() - began)
    for name, times in seconds.items():
        times.sort()
        middle = median(times)
        yield name, {"seconds": middle, "spread": (times[-2] - times[1]) / middle, "error": wrong[name]}


def _kernel(plan: Plan, layout: str, gpu: DeviceInfo) -> Any:
    variant = Variant("fp16", FUSED_PATH, "variable", "fp16", "fp32", layout)
    return build_fused(plan, variant, gpu.arch)


def _whole(xp: Any, first: Any, second: Any, q: Any, k: Any, v: Any) -> tuple[Callable[[], None], Any]:
    """Attention by two products of whole matrices for each head, and where it puts its result."""
    heads, tokens, head = q.shape
    scores, out = xp.empty((tokens, tokens), xp.float16), xp.empty_like(q)
    sizes = (tokens, tokens, head), (tokens, head, tokens)
    size = max(kernel.workspace_bytes(*each) for kernel, each in zip((first, second), sizes, strict=True))
    workspace = xp.zeros(size, xp.uint8)
    stream = xp.cuda.get_current_stream()
    shared, softmax = (workspace.data.ptr, size), _softmax(xp)

    def run() -> None:
        for number in range(heads):
            places = (q[number].data.ptr, k[number].data.ptr, scores.data.ptr)
            first.launch(stream.ptr, sizes[0], *places, *shared, leading=(head, head, tokens), alpha=head**-0.5)
            softmax((tokens,), (1024,), (scores, tokens))
            places = (scores.data.ptr, v[number].data.ptr, out[number].data.ptr)
            second.launch(stream.ptr, sizes[1], *places, *shared, leading=(tokens, head, head))
        stream.synchronize()

    return run, out


def _softmax(xp: Any) -> Any:
    """A kernel that makes the softmax of each row in place."""
    return xp.RawKernel(_SOFTMAX, "softmax", options=("-std=c++17",))


# A block for each row, whose maximum and sum are found in one pass by rescaling, so that memory is read twice and
# written once.
_SOFTMAX = r"""
#include <cuda_fp16.h>
__device__ float2 joined(float2 a, float2 b) {
  const float top = fmaxf(a.x, b.x);
  return {top, a.y * __expf(a.x - top) + b.y * __expf(b.x - top)};
}
__device__ float2 of_warp(float2 mine) {
  for (int i = 16; i; i /= 2)
    mine = joined(mine, {__shfl_xor_sync(~0u, mine.x, i), __shfl_xor_sync(~0u, mine.y, i)});
  return mine;
}
extern "C" __global__ void softmax(__half* matrix, long long columns) {
  __half2* row = reinterpret_cast<__half2*>(matrix + blockIdx.x * columns);
  __shared__ float2 parts[32];
  float2 mine = {-1e30f, 0.f};
  for (int i = threadIdx.x; i < columns / 2; i += blockDim.x) {
    const float2 both = __half22float2(row[i]);
    const float top = fmaxf(mine.x, fmaxf(both.x, both.y));
    mine = {top, mine.y * __expf(mine.x - top) + __expf(both.x - top) + __expf(both.y - top)};
  }
  mine = of_warp(mine);
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = mine;
  __syncthreads();
  const int lane = threadIdx.x % 32;
  mine = of_warp(lane < blockDim.x / 32 ? parts[lane] : float2{-1e30f, 0.f});
  for (int i = threadIdx.x; i < columns / 2; i += blockDim.x) {
    const float2 both = __half22float2(row[i]);
    row[i] = __floats2half2_rn(__expf(both.x - mine.x) / mine.y, __expf(both.y - mine.x) / mine.y);
  }
}
"""


def _exact(xp: Any, q: Any, k: Any, v: Any) -> Any:
    """The first rows of one head in FP64."""
    scores = q[:64].astype(xp.float64) @ k.astype(xp.float64).T * q.shape[1] ** -0.5
    weights = xp.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.astype(xp.float64)


def _error(xp: Any, found: Any, exact: Any) -> float:
    return float(xp.linalg.norm(found[: len(exact)].astype(xp.float64) - exact) / xp.linalg.norm(exact))
