"""What a caller of the dispatch may restrict."""

from __future__ import annotations

from dataclasses import dataclass

AUTO = "auto"  # decided by a sample of the operands
TUNING_SHARE = 0.05  # of the time spent in thin products of a shape


@dataclass(frozen=True)
class Options:
    """What a caller may restrict, see ``evaluate.dispatch.Dispatcher.matmul``.

    Raises:
        ValueError: a value that an option cannot have.
    """

    max_workspace: int | None
    plane_dtype: str | None
    max_error_factor: float
    tune: bool = True
    guard: bool = False
    scale: bool | str = False
    tuning_share: float = TUNING_SHARE

    def __post_init__(self) -> None:
        if not isinstance(self.scale, bool) and self.scale != AUTO:
            raise ValueError(f"scale must be True, False or {AUTO!r}, not {self.scale!r}")
        for name, value in (("tune", self.tune), ("guard", self.guard)):
            if not isinstance(value, bool):
                raise ValueError(f"{name} must be True or False, not {value!r}")
        if self.plane_dtype is not None and not isinstance(self.plane_dtype, str):
            raise ValueError(f"plane_dtype must be the name of a type, {AUTO!r} or None, not {self.plane_dtype!r}")
        most, factor = self.max_workspace, self.max_error_factor
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 0):
            raise ValueError(f"max_workspace must be a number of bytes or None, not {most!r}")
        share = self.tuning_share
        if isinstance(share, bool) or not isinstance(share, int | float) or not share > 0:
            raise ValueError(f"tuning_share must be a positive number, not {share!r}")
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not factor >= 1:
            raise ValueError(f"max_error_factor must be a number of at least 1, not {factor!r}")
