"""Where a scheme comes from: kept with every scheme of the catalog, never part of its identity."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from types import UnionType
from typing import Any

# What the fields hold that are not text, as JSON has them; earlier versions stored some seeds as text.
_KINDS: dict[str, type | UnionType] = {"seed": int | str | None, "options": dict, "parents": list | tuple}


def utc_now() -> str:
    """The present time in UTC as ISO 8601 text, to the microsecond, so that texts sort by age."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Provenance:
    """How, by whom and from what a scheme was made.

    Attributes:
        method: how it was found or built, e.g. ``flips`` or ``formula``.
        seed: random seed of the run, if there was one.
        options: settings of the run; any JSON value.
        version: version of the software that made it.
        commit: commit of that software.
        created_utc: when it was made, ISO 8601.
        parents: ids of the schemes it was made from.
        source: file, address or collection it was taken from.
        discoverer: who found it first.
        citation: publication to cite.
        licence: licence of the source's text, empty for schemes found here.

    Raises:
        ValueError: the options are no JSON, or the method is empty.
    """

    method: str
    seed: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    version: str = "unknown"
    commit: str = "unknown"
    created_utc: str = field(default_factory=utc_now)
    parents: tuple[str, ...] = ()
    source: str = ""
    discoverer: str = ""
    citation: str = ""
    licence: str = ""

    def __post_init__(self) -> None:
        if not self.method:
            raise ValueError("a provenance needs a method, for example 'flips'")
        try:
            options = json.loads(json.dumps(dict(self.options), allow_nan=False))
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"the options of a provenance must be JSON values ({error})") from None
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "parents", tuple(self.parents))

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, one key a field."""
        return asdict(self) | {"parents": list(self.parents)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Provenance:
        """The inverse of ``as_dict``; keys of later minor versions are ignored.

        Raises:
            ValueError: a value is not of its kind, which listings and pages would stumble on much later.
        """
        known = {key: values[key] for f in fields(cls) if (key := f.name) in values}
        for key, value in known.items():
            kind: type | UnionType = _KINDS.get(key, str)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise ValueError(f"{key} of a provenance is {type(value).__name__}")
        if not all(isinstance(parent, str) for parent in known.get("parents", ())):
            raise ValueError("a parent of a provenance is no text")
        return cls(**known)
