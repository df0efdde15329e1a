"""Source text from a plan: one module per target, chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codegen import emit_c, emit_cuda, emit_python, emit_triton
from codegen.plan import Plan

_EMITTERS: dict[str, Callable[..., str]] = {
    "numpy": emit_python.emit_numpy,
    "jax": emit_python.emit_jax,
    "c": emit_c.emit_c,
    "cuda": emit_cuda.emit_cuda,
    "triton": emit_triton.emit_triton,
}
TARGETS = tuple(_EMITTERS)


def emit(plan: Plan, target: str, *, version: str = "unknown", **options: Any) -> str:
    """Self-contained source text for one target.

    Args:
        plan: what to compute.
        target: one of ``TARGETS``.
        version: of the emitting program, to be named in the first lines.
        **options: those of the target, for example ``dtype="bf16"`` for cuda.

    Raises:
        ValueError: an unknown target or option value, or a plan the target cannot take.
    """
    if target not in _EMITTERS:
        raise ValueError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)}")
    return _EMITTERS[target](plan, version=version, **options)


def emit_header(plan: Plan, target: str = "cuda", *, version: str = "unknown", **options: Any) -> str:
    """The C header that declares the entry points of ``emit(plan, target, **options)``; c names the ``version``.

    Raises:
        ValueError: a target other than c and cuda.
    """
    if target == "cuda":
        return emit_cuda.header(plan, **options)
    if target == "c":
        return emit_c.header(plan, version)
    raise ValueError(f"target {target!r} has no C header; choose c or cuda")
