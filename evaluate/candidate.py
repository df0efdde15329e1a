"""One way to run a product by a scheme, and its forms with a guard or with scaling."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from evaluate.variants import FUSED_PATH


@dataclass(frozen=True)
class Candidate:
    """One way to run a product by a scheme.

    Attributes:
        reference: names the scheme: built in, or a format.
        levels: of recursion.
        orbit: for which operands the scheme is turned; "" if it is not.
        path: "fused", "cuda" or "c".
        operands: which planes are there.
        plane_dtype: of the planes.
        options: further ones of the emitter, by name.
        predicted: ratio by the cost model; None where it knows nothing.
        measured: ratio of the nearest measured row; None where none is near.
        error_factor: relative Frobenius error over that of the vendor's GEMM; None where it is not known.
    """

    reference: str
    levels: int = 1
    orbit: str = ""
    path: str = FUSED_PATH
    operands: str = "variable"
    plane_dtype: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    predicted: float | None = None
    measured: float | None = None
    error_factor: float | None = None

    @property
    def expected(self) -> float:
        """The ratio to expect: what was measured counts more than what is predicted; 0 if nothing is known."""
        return self.measured or self.predicted or 0.0

    @property
    def bare(self) -> Candidate:
        """What is run, without what is thought of it: equal for all shapes."""
        return replace(self, predicted=None, measured=None, error_factor=None)

    @property
    def label(self) -> str:
        """In words."""
        turned = f" turned for {self.orbit}" if self.orbit else ""
        levels = f", {self.levels} levels" if self.levels > 1 else ""
        options = "".join(f", {key}={value}" for key, value in self.options)
        planes = f"{self.plane_dtype} planes, {self.operands}"
        return f"{self.reference}{turned}{levels}, path {self.path}, {planes}{options}"


# At the vendor's speed on Hopper only, faster where its last tiles are shared.
PLAIN = Candidate("classical-1x1x1")


def plain(one: Candidate) -> bool:
    """Whether it is the plain kernel, of whatever options."""
    return (one.reference, one.path, one.operands) == (PLAIN.reference, PLAIN.path, PLAIN.operands)


def guarded(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The same with kernels that compute again what is not finite; those that have no such form are left out."""
    return [_having(one, "guard") for one in candidates if one.path == FUSED_PATH]


def scaled(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The same with rows and columns scaled, the plain kernel as it is; those without such a form are left out."""
    return [one if plain(one) else _having(one, "scale") for one in candidates if one.path == FUSED_PATH]


def unscaled(one: Candidate) -> Candidate:
    """The same without scaling."""
    return replace(one, options=tuple(option for option in one.options if option[0] != "scale"))


def _having(one: Candidate, option: str) -> Candidate:
    return replace(one, options=tuple(sorted({**dict(one.options), option: 1}.items())))
