"""The errors of a row of results: of the scheme, of the baseline, their ratios, and how they scatter over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from statistics import median
from typing import Any

from catalog.measures import growth, stability
from codegen.plan import Plan
from evaluate.accuracy import Errors, is_correct, tolerance

Row = dict[str, Any]

_MEASURES = {"fro": "fro", "max": "max", "componentwise": "componentwise", "ulp_p999": "ulp"}


def error_keys(plan: Plan, found: Sequence[tuple[Errors, Errors]], dtype: str, stored: str, inner: int) -> Row:
    """All keys about errors.

    The plain keys are those of the first seed; with more than one there are ``_median`` and ``_worst`` beside them.
    What is not a finite number is null, since JSON has no other word for it.

    Args:
        plan: the scheme and its levels.
        found: for each seed the errors of the scheme and of the baseline on the same operands.
        dtype: of A, B and C.
        stored: type of planes or products in memory.
        inner: K.
    """
    limit = tolerance(plan, dtype, stored, inner)
    mixed = stored != "fp16" or dtype == "fp16"
    ours, baseline = found[0]
    each = [_figures(*pair) for pair in found]
    row = {key: _number(value) for key, value in each[0].items()}
    if len(each) > 1:
        for key in each[0]:
            values = [figures[key] if isfinite(figures[key]) else inf for figures in each]
            row |= {f"{key}_median": _number(median(values)), f"{key}_worst": _number(max(values))}
    return {
        **row,
        "error_componentwise_per_ku": _number(ours.normalised),
        "baseline_error_componentwise_per_ku": _number(baseline.normalised),
        "error_mixed": _number(ours.mixed),
        "error_missing": max(pair[0].missing for pair in found),
        "error_spread": max(pair[0].spread for pair in found),
        "error_seeds": len(found),
        "error_rows": ours.rows,
        "error_limit": limit,
        "error_cancellation": ours.cancellation,
        "growth": growth(plan.scheme),
        "stability": stability(plan.scheme),
        "correct": all(is_correct(pair[0], limit, mixed) for pair in found),
    }


def ratio(ours: float, baseline: float) -> float:
    """How many times larger an error is than the baseline's; 1 where both are zero."""
    if baseline:
        return ours / baseline
    return 1.0 if ours == 0 else inf


def _figures(ours: Errors, baseline: Errors) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, attribute in _MEASURES.items():
        pair = getattr(ours, attribute), getattr(baseline, attribute)
        figures |= {f"error_{name}": pair[0], f"baseline_error_{name}": pair[1], f"error_{name}_ratio": ratio(*pair)}
    return figures


def _number(value: float) -> float | None:
    return value if isfinite(value) else None
