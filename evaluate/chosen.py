"""What came out of trials, and why no candidate did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluate.candidate import Candidate
from evaluate.opened import Opened
from evaluate.verdicts import Verdict


@dataclass(frozen=True)
class Chosen:
    """What came out.

    Attributes:
        why: in one clause.
        tried: whether something was measured.
        candidate: the fastest; None if the vendor's GEMM is. What is predicted for it is so at the shape itself where
            the trial was at another one, else at the largest sizes of the bucket.
        verdict: its.
        opened: its kernel.
    """

    why: str
    tried: bool
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    opened: Opened | None = None


def why_none(known: Sequence[tuple[Candidate, Verdict | None]], untried: str, most_bytes: int | None) -> str:
    """Why the vendor's GEMM runs, in one clause.

    Args:
        known: candidates, the most promising first, and their verdicts.
        untried: why those without a verdict have none.
        most_bytes: that a workspace may have; None for any.
    """
    measured = [(one, verdict) for one, verdict in known if verdict is not None]
    faster = [one for one, verdict in measured if verdict.finding == "faster"]
    if faster:
        limit = "" if most_bytes is None else ", or its workspace exceeds max_workspace"
        return f"{faster[0].label} was faster nearby, but is not expected to be here{limit}"
    timed = [verdict for _, verdict in measured if not verdict.reason]
    if timed:
        nearest = max(timed, key=lambda verdict: verdict.ratio)
        return f"the best of {len(timed)} trials had a ratio of {nearest.ratio:.3f}: {nearest.finding}"
    if measured:
        return f"no candidate could run: {measured[0][1].reason}"
    return f"{known[0][0].label} was not measured here: {untried}"
