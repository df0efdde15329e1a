"""What a call of the dispatch costs the host, beside what it chose alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from codegen.plan import Plan
from evaluate.array_jax import array_of
from evaluate.array_torch import tensor_of
from evaluate.arrays import library_of
from evaluate.cases import Row
from evaluate.decide import vendor
from evaluate.decision import MOST_CANDIDATES
from evaluate.device import DeviceInfo
from evaluate.dispatch import Dispatcher
from evaluate.dispatch_check import operands, wait
from evaluate.gpu import build_library, open_arms
from evaluate.variants import FUSED_PATH, Variant

SIDES = (256, 8192)  # of square products: one too small for any scheme, which leaves the look-up, and a large one
# Calls before the device is waited for. JAX holds a caller back while a few dozen products are under way: then a call
# would take as long as the device's product.
_CALLS = 20
_TURNS = 101
_ENTRY = 1024  # side of the products whose C entry is timed
_LAUNCHED = {"classical-1x1x1": 1, "winograd": 2}  # kernels that an entry launches


def host_times(fresh: Callable[[], Dispatcher], dtype: str, xp: Any, sides: Sequence[int] = SIDES) -> list[Row]:
    """Microseconds of the host in one call, with arrays of CuPy and of what else is there.

    Args:
        fresh: makes a dispatcher.
        dtype: fp16 or bf16.
        xp: cupy.
        sides: of square products.
    """
    found = []
    for side in sides:
        a, b, c = operands(xp, (side,) * 3, dtype)
        found.append(host_time(fresh(), a, b, c, xp))
        for made in (tensor_of, array_of):
            try:
                left, right, out = (made(x.view(xp.uint16), dtype) for x in (a, b, c))
            except (ImportError, RuntimeError):  # it is not there, or has no GPU
                continue
            found.append(host_time(fresh(), left, right, out if made is tensor_of else None, xp))
    return found


def host_time(dispatcher: Dispatcher, a: Any, b: Any, c: Any | None, xp: Any) -> Row:
    """Microseconds of the host that one call takes by the dispatch, its look-up, and what it chose takes alone.

    Alone a kernel is launched for these very operands, and with memory for its workspace like any launch. The look-up
    is all that ``matmul`` does beside what was decided: its checks, its key and its answer.

    Args:
        dispatcher: that decides.
        a: [M, K].
        b: [K, N].
        c: the result; None where the library makes a new one.
        xp: cupy.
    """
    library = library_of(type(a))
    told = dispatcher.matmul(a, b, c, explain=True)[1]
    rivals = dict(dispatcher.rivals(a, b, MOST_CANDIDATES)) if c is not None else {}
    opened = rivals.get(told.choice)
    run = opened.alike(a, b, c) if opened else None
    direct = (lambda: library.matmul(a, b, c)) if run is None else lambda: run(a, b, c, None)
    known = opened is not None or told.choice == vendor(library)
    ours, theirs = _interleaved(lambda: dispatcher.matmul(a, b, c), direct, xp)
    found, clock = _interleaved(dispatcher.idle(a, b, c), lambda: None, xp)
    what = "the library's product" if opened is None else "the kernel"
    return {
        **{"library": library.name, "choice": told.choice, "why": told.why},
        **{"M": a.shape[0], "N": b.shape[1], "K": a.shape[1]},
        **{"look_up_us": found - clock, "call_us": ours},
        "direct": what if known else None,  # what JAX is given by a kernel cannot be had alone
        **{"direct_us": theirs if known else None, "overhead_us": ours - theirs if known else None},
    }


def entry_times(plan_of: Callable[[str, int, str], Plan], dtype: str, gpu: DeviceInfo, xp: Any) -> list[Row]:
    """Microseconds of the host in the C entry of a fused kernel and in cublasGemmEx, both called by ctypes.

    Args:
        plan_of: finds the plan of a scheme.
        dtype: fp16 or bf16.
        gpu: where.
        xp: cupy.
    """
    found = []
    for reference, kernels in _LAUNCHED.items():
        plan, variant = plan_of(reference, 1, ""), Variant(dtype, FUSED_PATH, "variable", dtype, "fp32")
        built = build_library(plan, variant, gpu)
        with open_arms(variant, built, (_ENTRY,) * 3, "normal", 0, gpu) as arms:
            ours, theirs = _interleaved(partial(arms.ours, 0), partial(arms.baselines[0][1], 0), xp)
        facts = {"reference": reference, "side": _ENTRY, "kernels": kernels, "entry_us": ours, "cublas_us": theirs}
        found.append({**facts, "more_for_each_kernel_us": (ours - theirs) / kernels})
    return found


def _interleaved(first: Callable[[], Any], second: Callable[[], Any], xp: Any) -> tuple[float, float]:
    """Medians in microseconds."""
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(_TURNS):
        for arm, call in enumerate((first, second)):
            samples[arm].append(_host_each(call, xp))
    ours, theirs = (float(np.median(each)) * 1e6 for each in samples)
    return ours, theirs


def _host_each(call: Callable[[], Any], xp: Any) -> float:
    wait(xp)
    times = [perf_counter()]
    for _ in range(_CALLS):
        call()
        times.append(perf_counter())
    wait(xp)
    return float(np.median([after - before for before, after in pairwise(times)]))
