"""Source text from a plan: one module per target, chosen by name."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any, NamedTuple

from codegen import (
    emit_bibtex,
    emit_c,
    emit_cuda,
    emit_latex,
    emit_markdown,
    emit_python,
    emit_slp,
    emit_torch,
    emit_triton,
)
from codegen.epilogue import Epilogue
from codegen.epilogue_text import declared
from codegen.heading import block_comment
from codegen.plan import Plan

_EMITTERS: dict[str, Callable[..., str]] = {
    "numpy": emit_python.emit_numpy,
    "jax": emit_python.emit_jax,
    "c": emit_c.emit_c,
    "cuda": emit_cuda.emit_cuda,
    "triton": emit_triton.emit_triton,
    "torch": emit_torch.emit_torch,
    "slp": emit_slp.emit_slp,
    "latex": emit_latex.emit_latex,
    "markdown": emit_markdown.emit_markdown,
    "bibtex": emit_bibtex.emit_bibtex,
}
TARGETS = tuple(_EMITTERS)
# Targets that state a scheme and multiply nothing; they take schemes over F2 and F3, too.
TEXTS = ("slp", "latex", "markdown", "bibtex")
# Targets whose kernels can have an epilogue.
FINISHING = ("cuda",)


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
    if plan.base.ring.modulus and target not in TEXTS:
        raise ValueError(
            f"target {target} multiplies real matrices and the scheme holds over {plan.base.ring} only; "
            f"lift it to Z first, or choose one of {', '.join(TEXTS)}"
        )
    if "epilogue" in options and target not in FINISHING:
        raise ValueError(
            f"target {target} has no epilogue; apply {options['epilogue'] or 'it'} to the result, or choose "
            f"{' or '.join(FINISHING)}"
        )
    return _EMITTERS[target](plan, version=version, **options)


def emit_header(plan: Plan, target: str = "cuda", *, version: str = "unknown", **options: Any) -> str:
    """The C header that declares the entry points of ``emit(plan, target, **options)``.

    Raises:
        ValueError: a target other than c and cuda.
    """
    if target == "cuda":
        return emit_cuda.header(plan, version=version, **options)
    if target == "c":
        return emit_c.header(plan, version)
    raise ValueError(f"target {target!r} has no C header; choose c or cuda")


class Fused(NamedTuple):
    """An emitter of fused kernels, whose C interface is that of ``kernels/fused.h``.

    Attributes:
        module: where it is; it has a function of the module's own name, and ``prefix``.
        options: keyword arguments of both.
    """

    module: str
    options: tuple[str, ...]

    def emit(self, plan: Plan, *, version: str = "unknown", **options: Any) -> str:
        """One self-contained .cu.

        Raises:
            ValueError: an option that this emitter does not take, or a value that the option cannot have.
        """
        function = getattr(self._emitter(options), self.module.rpartition(".")[2])
        return function(plan, version=version, **options)

    def prefix(self, plan: Plan, **options: Any) -> str:
        """What the names of the entry points begin with."""
        return self._emitter(options).prefix(plan, **options)

    def header(self, plan: Plan, *, version: str = "unknown", **options: Any) -> str:
        """The C header of the entry points."""
        text = files("codegen.kernels").joinpath("fused.h").read_text(encoding="utf-8")
        text = declared(text, Epilogue.parse(options.get("epilogue", "")))
        return block_comment(plan, version) + text.replace("SCHEME", self.prefix(plan, **options))

    def _emitter(self, options: dict[str, Any]) -> Any:
        for name in options:
            if name not in self.options:
                raise ValueError(f"the kernels of {self.module} have no {name}; they have {', '.join(self.options)}")
        return importlib.import_module(self.module)


HOPPER = Fused(
    "codegen.emit_hopper",
    ("dtype", "plane_dtype", "c_dtype", "layout", "overlap", "constant_b", "scale", "guard", "epilogue")
    + ("pace", "share", "pending_bits"),
)
AMPERE = Fused("codegen.emit_ampere", ("dtype", "plane_dtype", "c_dtype", "scale", "guard", "epilogue"))


def fused_emitter(arch: str) -> Fused:
    """The emitter of fused kernels for a real architecture: "sm_90a" has Hopper's, all others from sm_80 on Ampere's.

    Raises:
        ValueError: there is none.
    """
    number = re.fullmatch(r"sm_(\d{2,3})[af]?", arch)
    if number is None:
        raise ValueError(f"architecture {arch!r} is not of the form sm_90 or sm_90a")
    if int(number[1]) < 80:
        raise ValueError(
            f"there are no fused kernels for {arch}, only for sm_80 and later; the library-backed path runs"
        )
    return HOPPER if arch == "sm_90a" else AMPERE


def fused_arch(device: str) -> str:
    """The architecture to emit fused kernels for where a device is of architecture ``device``, as in "sm_90".

    Raises:
        ValueError: there are none for it.
    """
    arch = "sm_90a" if device == "sm_90" else device
    fused_emitter(arch)
    return arch
