"""Verdicts of trials: what they support, and where they are kept so that no process tries what another measured."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Any

from catalog.files import cache_folder, write_durably
from evaluate.candidate import Candidate
from evaluate.cases import Shape
from evaluate.timing import MIN_PAIRS, verdict
from evaluate.timing import Verdict as Finding

# Of the way to measure, part of every name: raised with it, so that old verdicts are not found any more.
_VERSION = 4
_SUFFIXES = (".py", ".cuh", ".h", ".c")
_SEAL = "sha256"  # in a file, of its verdict


@dataclass(frozen=True)
class Verdict:
    """What a trial of a candidate against the vendor's GEMM found.

    Attributes:
        shape: M, N, K of the trial.
        seconds: of the candidate, median.
        baseline_seconds: of the vendor's GEMM.
        ratio: baseline_seconds / seconds.
        ratio_low: lower end of its 95 % interval.
        ratio_high: upper end.
        pairs: of interleaved windows.
        setup_seconds: spent on compiling and on the trial.
        reason: why there are no times; "" if there are.
        way: of a thin product, number of the tile and blocks that share the depth.
    """

    shape: Shape
    seconds: float = 0.0
    baseline_seconds: float = 0.0
    ratio: float = 0.0
    ratio_low: float | None = None
    ratio_high: float | None = None
    pairs: int = 0
    setup_seconds: float = 0.0
    reason: str = ""
    way: tuple[int, ...] = ()

    @property
    def finding(self) -> Finding:
        """What the interval supports; a trial that was given up early was so for being slower."""
        if 0 < self.pairs < MIN_PAIRS and self.ratio_high is not None and self.ratio_high < 1:
            return "slower"
        return verdict({"ratio_low": self.ratio_low, "ratio_high": self.ratio_high, "pairs": self.pairs})

    @property
    def repaid_after(self) -> int | None:
        """Calls after which compiling and trying are repaid; None if never."""
        saved = self.baseline_seconds - self.seconds
        return ceil(self.setup_seconds / saved) if self.finding == "faster" and saved > 0 else None


def carried(found: Verdict, there: float | None, here: float | None) -> float:
    """The ratio to expect at a shape of the same bucket as that of a trial.

    Args:
        found: of the trial.
        there: ratio that the cost model predicts at the trial's shape.
        here: the same at the shape in question. The edge of a tile may lie between both.
    """
    return found.ratio * (here / there if there and here else 1.0)


def best(tried: Sequence[tuple[Candidate, Verdict]]) -> tuple[Candidate, Verdict] | None:
    """Of what was tried the fastest that is faster than the vendor beyond noise; None if nothing is."""
    faster = [one for one in tried if one[1].finding == "faster"]
    return max(faster, key=lambda one: one[1].ratio, default=None)


class Verdicts:
    """What was measured, by the facts that decide it.

    Args:
        folder: where they are kept; by default that of the cache. One small file each, written whole or not at all, so
            that processes need not wait for each other.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._own = folder
        self._known: dict[str, Verdict] = {}

    @property
    def folder(self) -> Path:
        """Where they are kept; asked for only when a product may be worth a trial."""
        return self._own or cache_folder() / "dispatch"

    def get(self, facts: Mapping[str, Any]) -> Verdict | None:
        """The verdict for these facts; None if there is none, or if its file is damaged."""
        name = _name(facts)
        if name not in self._known:
            with suppress(OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
                kept = json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))
                self._known[name] = _read(kept, facts)
        return self._known.get(name)

    def put(self, facts: Mapping[str, Any], found: Verdict) -> None:
        """Keep a verdict; where the folder cannot be written, in memory only."""
        name = _name(facts)
        self._known[name] = found
        document = {"facts": facts, "verdict": asdict(found), _SEAL: _hash(asdict(found))}
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_durably(self.folder / f"{name}.json", (json.dumps(document, indent=1) + "\n").encode())


def _read(kept: Mapping[str, Any], facts: Mapping[str, Any]) -> Verdict:
    """A verdict from the document of its file.

    Raises:
        ValueError: it is of other facts, was changed after it was written, or has a value that no trial gives.
        KeyError: a key is missing.
        TypeError: a field of another type, or of another name.
    """
    if _text(kept["facts"]) != _text(facts) or kept[_SEAL] != _hash(kept["verdict"]):
        raise ValueError("not what was written for these facts")
    lists = {name: tuple(kept["verdict"][name]) for name in ("shape", "way")}
    return _checked(Verdict(**{**kept["verdict"], **lists}))


def _checked(found: Verdict) -> Verdict:
    """A verdict as it was read.

    Raises:
        TypeError: a field of another type.
        ValueError: a number that no trial gives.
    """
    ends = [end for end in (found.ratio_low, found.ratio_high) if end is not None]
    numbers = [found.seconds, found.baseline_seconds, found.ratio, found.setup_seconds, *ends]
    counts = [*found.shape, *found.way, found.pairs]
    # A bool is an int for isinstance.
    if any(type(one) is not int for one in counts) or any(type(one) not in (int, float) for one in numbers):
        raise TypeError("a field of another type")
    if type(found.reason) is not str:
        raise TypeError("a reason that is no text")
    if len(found.shape) != 3 or min(found.shape) < 1 or found.pairs < 0:
        raise ValueError("a size or a count out of range")
    if not all(isfinite(one) and one >= 0 for one in [*numbers, *counts]):
        raise ValueError("a time or a ratio out of range")
    return found


@functools.cache
def generator_hash() -> str:
    """A digest of all that decides the text of a kernel beside its scheme: the emitters and the device code."""
    import codegen

    root = Path(codegen.__path__[0])
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        if path.suffix in _SUFFIXES and "__pycache__" not in path.parts:
            digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _name(facts: Mapping[str, Any]) -> str:
    return _hash({"version": _VERSION, **facts})[:32]


def _hash(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_text(document).encode()).hexdigest()


def _text(document: Mapping[str, Any]) -> str:
    """Equal for what is equal once it went through a file."""
    return json.dumps(document, sort_keys=True)
