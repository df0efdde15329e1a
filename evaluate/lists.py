"""Short lists of products that were met, one for each bucket of shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from codegen.plan import Plan
from evaluate import decision
from evaluate.buckets import bucket
from evaluate.candidate import Candidate
from evaluate.decision import MAX_ERROR_FACTOR, Question, shortlist
from evaluate.error_factor import error_factor
from evaluate.machine import Machine
from evaluate.problem import Problem
from evaluate.wishes import Options

_MOST = 4096


class Lists:
    """What ``evaluate.decision`` says of products on machines, asked once for each bucket.

    Args:
        plan: that of a candidate; None where its scheme is not at hand.
    """

    def __init__(self, plan: Callable[[Candidate], Plan | None]) -> None:
        self._plan = plan
        self._known: dict[tuple[Any, ...], tuple[list[Candidate], str]] = {}

    def of(
        self, machine: Machine, made: Problem, options: Options, operands: str, only: Candidate | None = None
    ) -> tuple[list[Candidate], str]:
        """Candidates for a product, and why there are no others, as of ``evaluate.decision.shortlist``.

        Args:
            machine: where it is done.
            made: the product.
            options: of the caller.
            operands: "variable", or "b_constant" where the planes of B are made before.
            only: the one for which B was packed; None for all.
        """
        # Of a bucket there is one list, or shapes that keep changing would be looked at anew, and tried, at every call.
        made = replace(made, shape=bucket(made.shape))
        limits = (options.plane_dtype, options.max_error_factor)
        key = (machine.name, machine.kernels, made.shape, made.dtype, *limits, operands, only)
        if key not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            question = _question(machine, made, options, operands, only)
            found = shortlist(question, machine.rows, self._predictor(machine, made), self._factors(made), only)
            self._known[key] = found
        return self._known[key]

    def ranked(self, machine: Machine, made: Problem) -> Iterator[Candidate]:
        """All that may be run for a product of variable operands, the most promising first, whether or not it pays."""
        question = _question(machine, made, Options(None, None, MAX_ERROR_FACTOR), "variable", None)
        factor = self._factors(made)
        for one in decision.ranked(question, machine.rows, self._predictor(machine, made)):
            if (factor(one) or 0) <= MAX_ERROR_FACTOR:
                yield one

    def _predictor(self, machine: Machine, made: Problem) -> Callable[[Candidate], float | None]:
        def predicted(candidate: Candidate) -> float | None:
            plan = self._plan(candidate)
            return None if plan is None else machine.predicted(plan, candidate, made.shape, made.dtype)

        return predicted

    def _factors(self, made: Problem) -> Callable[[Candidate], float | None]:
        def factor(candidate: Candidate) -> float | None:
            plan = self._plan(candidate)
            return None if plan is None else error_factor(plan, made.dtype, candidate.plane_dtype)

        return factor


def _question(machine: Machine, made: Problem, options: Options, operands: str, only: Candidate | None) -> Question:
    return Question(
        *(made.shape, made.dtype, machine.paths(made.dtype), operands),
        plane_dtype=only.plane_dtype if only else options.plane_dtype,
        overlap=machine.overlap,
        max_error_factor=options.max_error_factor,
    )
