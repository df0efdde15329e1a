"""Options of ``subcubic bench``: names, and what they mean for ``evaluate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

import typer

from subcubic.errors import UsageError
from subcubic.options import MOST, MOST_SEEDS, MOST_SIZE, Device, at_least, checked_levels

# Parameters that every measurement has, and those of the two that are of a kind of their own.
_ALWAYS = (
    *("schemes", "set_name", "size", "shape", "dtype", "device", "path", "layout", "pairs", "limit", "out"),
    *("catalog", "json_output"),
)
_TAKEN = {
    "--path thin": ("regime",),  # which it refuses itself
    "--epilogue": ("epilogue", "levels", "turn", "counters", "profile"),
}
_DIGITS = 9
_MOST_PAIRS = 10**5
_SHOWN = 60  # characters of a value that a sentence repeats


class Regime(StrEnum):
    """How a timed window is prepared."""

    BURST = "burst"
    STEADY = "steady"


class KernelPath(StrEnum):
    """Products by the vendor's library, all in one kernel, its Triton twin, or the vendor's GEMM; table: by results.

    thin: the kernel for few rows, of the scheme of one product.
    """

    AUTO = "auto"
    CUDA = "cuda"
    FUSED = "fused"
    CUBLAS = "cublas"
    TRITON = "triton"
    THIN = "thin"
    TABLE = "table"


class Operands(StrEnum):
    """What a launch of a fused kernel is given: nothing, the planes of B, the planes of both."""

    VARIABLE = "variable"
    B_CONSTANT = "b_constant"
    PLANES_GIVEN = "planes_given"


class PlaneDtype(StrEnum):
    """Types of planes of fused kernels."""

    INPUT = "input"
    FP16 = "fp16"
    BF16 = "bf16"


class Distribution(StrEnum):
    """What the random inputs are drawn from, see ``evaluate.operands.DISTRIBUTIONS``."""

    NORMAL = "normal"
    UNIFORM = "uniform"
    POSITIVE = "positive"
    LOGNORMAL = "lognormal"
    OUTLIERS = "outliers"
    OUTLIERS60 = "outliers60"
    CANCELLATION = "cancellation"
    NONFINITE = "nonfinite"


def values(chosen: Sequence[StrEnum] | None, default: StrEnum) -> tuple[str, ...]:
    """The distinct values of an option that may be given several times."""
    return tuple(dict.fromkeys(item.value for item in chosen or [default]))


def parse_shape(text: str) -> tuple[int, int, int]:
    """M, N, K from ``M,N,K``.

    Raises:
        UsageError: it is not of that form, or no memory holds such matrices.
    """
    try:
        m, n, k = (int(part) for part in text.lower().replace("x", ",").split(","))
        if min(m, n, k) < 1:
            raise ValueError
    except ValueError:
        raise UsageError(f"shape {_short(text)} is not of the form M,N,K, for example 4096,4096,1024") from None
    if max(m, n, k) >= 1 << 31 or max(m * k, k * n, m * n) > MOST_SIZE**2:
        raise UsageError(f"shape {_short(text)} has a matrix of more than {MOST_SIZE}^2 elements; choose a smaller one")
    return m, n, k


def refuse_others(context: typer.Context, what: str, device: Device) -> None:
    """Refuse options that a measurement of its own kind does not have, so that none is left aside in silence.

    Args:
        context: of the call.
        what: the option that asks for this measurement, of ``_TAKEN``.
        device: that was asked for.

    Raises:
        UsageError: another was given, or the CPU.
    """
    if device is Device.CPU:
        raise UsageError(f"{what} measures on a GPU; leave it or --device cpu out")
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        given = source is not None and source.name == "COMMANDLINE"
        if given and parameter.name not in (*_ALWAYS, *_TAKEN[what]):
            raise UsageError(f"{what} has no {parameter.opts[0]}; leave it out")


def check_numbers(
    sizes: Sequence[int],
    levels: Sequence[int],
    pairs: int | None,
    seed: int,
    seeds: int,
    seconds: Mapping[str, float | None],
) -> None:
    """Refuse numbers that no path measures with, before anything is made or allocated.

    Raises:
        UsageError: one is out of range.
    """
    for name, number, least, most in (
        *(("size", one, 1, MOST_SIZE) for one in sizes),
        ("pairs", pairs, 1, _MOST_PAIRS),
        ("seed", seed, 0, MOST),
        ("seeds", seeds, 1, MOST_SEEDS),
    ):
        at_least(least, name, number, most)
    for value in levels:
        checked_levels(value)
    for name, limit in seconds.items():
        if limit is not None and not 0 < limit < float("inf"):
            raise UsageError(f"--{name} {limit} must be a positive number of seconds")


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")


def emitter_option(text: str) -> tuple[str, int]:
    """A further option of the emitter of fused kernels from ``NAME=NUMBER``.

    Raises:
        UsageError: it is not of that form.
    """
    name, _, value = text.partition("=")
    if not name.isidentifier() or not value.lstrip("-").isdigit():
        raise UsageError(f"emitter option {text!r} is not of the form NAME=NUMBER, for example overlap=1")
    if len(value) > _DIGITS:
        raise UsageError(f"emitter option {name}={value[:_DIGITS]}... is no number that an option has")
    return name, int(value)
