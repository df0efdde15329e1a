"""Source text from a plan: one module per target, chosen by name."""

from __future__ import annotations

from typing import Any

from codegen.plan import Plan

TARGETS = ("numpy", "jax", "c", "cuda")


def emit(plan: Plan, target: str, **options: Any) -> str:
    """Self-contained source text for one target.

    Args:
        plan: what to compute.
        target: one of ``TARGETS``.
        **options: those of the target, for example ``dtype="bf16"`` for cuda.

    Raises:
        ValueError: an unknown target or option value, or a plan the target cannot take.
    """
    if target == "numpy":
        from codegen.emit_numpy import emit_numpy as emitter
    elif target == "jax":
        from codegen.emit_jax import emit_jax as emitter
    elif target == "c":
        from codegen.emit_c import emit_c as emitter
    elif target == "cuda":
        from codegen.emit_cuda import emit_cuda as emitter
    else:
        raise ValueError(f"unknown target {target!r}; choose one of {', '.join(TARGETS)}")
    return emitter(plan, **options)


def emit_header(plan: Plan, target: str = "cuda", **options: Any) -> str:
    """The C header that declares the entry points of ``emit(plan, target)``.

    Raises:
        ValueError: a target other than c and cuda.
    """
    if target == "cuda":
        from codegen.emit_cuda import header as emitter
    elif target == "c":
        from codegen.emit_c import header as emitter
    else:
        raise ValueError(f"target {target!r} has no C header; choose c or cuda")
    return emitter(plan, **options)
