"""Chooses among candidates by what was measured here before, and by trials of what was not."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import inf
from sys import maxsize
from time import monotonic
from typing import Any

from codegen.build import BuildError, MissingCompilerError
from codegen.plan import Plan
from evaluate.array_numpy import Numpy
from evaluate.buckets import bucket
from evaluate.candidate import Candidate
from evaluate.chosen import Chosen, why_none
from evaluate.device import DeviceMissingError
from evaluate.kernel import KernelError
from evaluate.machine import Machine
from evaluate.opened import Kernels, Opened, has_layouts
from evaluate.problem import Problem
from evaluate.trial import WrongError, confirm
from evaluate.verdicts import Verdict, Verdicts, best, carried, generator_hash

MOST_TRIALS = 128  # of one process, so that shapes which never repeat do not tune for ever
_MOST_LARGE = 4096  # workspaces that were too large
# What keeps a candidate from running here and is no mistake of the caller's: the vendor's GEMM runs instead.
_REFUSALS: tuple[type[Exception], ...] = (
    *(MissingCompilerError, BuildError, DeviceMissingError, KernelError, WrongError, ValueError, OSError),
)


class Trials:
    """Plans, kernels and verdicts of candidates.

    Args:
        plan_of: finds the plan of a scheme: reference, levels, orbit.
        kernels: opens them.
        verdicts: keeps what was measured.
    """

    def __init__(self, plan_of: Callable[[str, int, str], Plan], kernels: Kernels, verdicts: Verdicts) -> None:
        self._plan_of, self._kernels, self._verdicts = plan_of, kernels, verdicts
        self._plans: dict[tuple[str, int, str], Plan | None] = {}
        self._refused: dict[tuple[Any, ...], Verdict] = {}  # for reasons that another process need not have
        self._found: dict[tuple[Any, ...], Verdict] = {}  # those of ``verdicts`` by what is cheaper to hash than facts
        self._large: set[tuple[Any, ...]] = set()  # whose workspace exceeded what a caller allowed
        self._there: dict[tuple[Any, ...], float | None] = {}  # what the cost model predicts for them
        self._count = 0

    def plan(self, candidate: Candidate) -> Plan | None:
        """That of a candidate; None where its scheme is not at hand."""
        key = (candidate.reference, candidate.levels, candidate.orbit)
        if key not in self._plans:
            try:
                self._plans[key] = self._plan_of(*key)
            except (LookupError, ValueError, OSError):
                self._plans[key] = None
        return self._plans[key]

    def opened(self, library: Numpy, like: Any, machine: Machine, candidate: Candidate, layout: str) -> Opened | str:
        """A candidate's kernel, or why there is none."""
        plan = self.plan(candidate)
        if plan is None:
            return "its scheme is not at hand"
        try:
            return self._kernels.open(library, like, plan, candidate.bare, layout, machine.info)
        except _REFUSALS + library.out_of_memory as error:
            return _text(error)

    def chosen(
        self,
        library: Numpy,
        machine: Machine,
        made: Problem,
        layout: str,
        candidates: Sequence[Candidate],
        a: Any,
        b: Any,
        planes: Any,
        *,
        tune: bool,
        most_bytes: int | None,
    ) -> Chosen:
        """The fastest candidate that beats the vendor's GEMM at a shape.

        Args:
            library: of the arrays.
            machine: where they are.
            made: the product.
            layout: in which kernels are wanted.
            candidates: at least one, the most promising first.
            a: [M, K] of one product.
            b: [K, N].
            planes: of B, where it was packed.
            tune: whether what is not known may be measured.
            most_bytes: that a workspace may have; None for any.
        """
        place = _place(machine, made, layout)
        known, tried = self._known(place, machine, made, layout, candidates), False
        limits = {one: (place, made.shape, one.label, most_bytes) for one in candidates}
        open_ones = [one for one, verdict in known if verdict is None and limits[one] not in self._large]
        if open_ones and tune and self._count + len(open_ones) <= MOST_TRIALS:
            self._build(machine, made.dtype, layout, open_ones)
            for one in open_ones:
                verdict = self._try(library, machine, made, layout, one, a, b, planes, limits[one])
                tried = tried or (verdict is not None and not verdict.reason)
                known = [(each, verdict if each is one else old) for each, old in known]
        fitting = [(one, verdict) for one, verdict in known if verdict is not None]
        while (found := best(fitting)) is not None:
            fitting.remove(found)
            candidate = self._carried(machine, made, *found)
            if candidate is None:
                continue
            opened = self.opened(library, a, machine, candidate, layout)
            if isinstance(opened, Opened) and _needed(opened, made) <= (maxsize if most_bytes is None else most_bytes):
                where = "at this shape" if found[1].shape == made.shape else f"at {'x'.join(map(str, found[1].shape))}"
                return Chosen(f"it beat {library.name}'s product {where}", tried, candidate, found[1], opened)
        if all(limit in self._large for limit in limits.values()):
            return Chosen(f"the workspace of {candidates[0].label} exceeds max_workspace", tried)
        untried = f"{MOST_TRIALS} trials are the most of a process" if tune else "tune is off"
        return Chosen(why_none(known, untried, most_bytes), tried)

    def _carried(self, machine: Machine, made: Problem, one: Candidate, verdict: Verdict) -> Candidate | None:
        """A candidate with what is predicted at the shape itself; None if its verdict does not hold there."""
        plan = self.plan(one)
        if plan is None or verdict.shape == made.shape:
            return one if plan is not None else None
        key = (machine.name, made.dtype, one, verdict.shape)
        if key not in self._there:
            self._there[key] = machine.predicted(plan, one, verdict.shape, made.dtype)
        here = machine.predicted(plan, one, made.shape, made.dtype)
        holds = carried(verdict, self._there[key], here) > 1
        return replace(one, predicted=here or one.predicted) if holds else None

    def _facts(self, machine: Machine, made: Problem, layout: str, one: Candidate) -> dict[str, Any]:
        plan = self.plan(one)
        return {
            "bucket": bucket(made.shape),
            "dtype": made.dtype,
            "layouts": [made.layout, layout],
            "unaligned": made.unaligned,
            "candidate": one.label,
            "scheme": plan.name if plan else "",
            "device": machine.name,
            "baseline": machine.baseline,
            "kernels": generator_hash(),
        }

    def _known(
        self, place: tuple[Any, ...], machine: Machine, made: Problem, layout: str, candidates: Sequence[Candidate]
    ) -> list[tuple[Candidate, Verdict | None]]:
        found = []
        for one in candidates:
            verdict = self._found.get((place, one))
            if verdict is None:
                verdict = self._verdicts.get(self._facts(machine, made, layout, one))
                if verdict is not None:
                    self._found[place, one] = verdict
            found.append((one, verdict or self._refused.get((place, one.label))))
        return found

    def _build(self, machine: Machine, dtype: str, layout: str, candidates: Sequence[Candidate]) -> None:
        """Compile for a GPU side by side; what cannot be built says so when it is opened."""
        info = machine.info
        if info is None or len(candidates) < 2:
            return

        def build(one: Candidate) -> None:
            plan = self.plan(one)
            if plan is not None:
                self._kernels.build(plan, one.bare, dtype, layout if has_layouts(one, info) else "nn", info)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for future in [pool.submit(build, one) for one in candidates]:
                future.exception()

    def _try(
        self,
        library: Numpy,
        machine: Machine,
        made: Problem,
        layout: str,
        one: Candidate,
        a: Any,
        b: Any,
        planes: Any,
        limit: tuple[Any, ...],
    ) -> Verdict | None:
        """The verdict of a trial; None without one, since the workspace would exceed the last of ``limit``."""
        began = monotonic()
        opened, plan = self.opened(library, a, machine, one, layout), self.plan(one)
        verdict = Verdict(made.shape, reason=opened if isinstance(opened, str) else "")
        most_bytes = limit[-1]
        if isinstance(opened, Opened) and plan is not None:
            if most_bytes is not None and most_bytes < _needed(opened, made) < inf:
                if len(self._large) >= _MOST_LARGE:
                    self._large.clear()
                self._large.add(limit)
                return None
            opening = monotonic() - began
            try:
                found = confirm(library, opened, plan, one, a, b, planes, made.unaligned)
                verdict = replace(found, setup_seconds=found.setup_seconds + opening)
            except _REFUSALS + library.out_of_memory as error:
                verdict = replace(verdict, reason=_text(error))
        self._count += 1
        if verdict.reason:
            self._refused[limit[0], one.label] = verdict
        else:
            self._verdicts.put(self._facts(machine, made, layout, one), verdict)
        return verdict


def _place(machine: Machine, made: Problem, layout: str) -> tuple[Any, ...]:
    """All that a verdict depends on beside its candidate."""
    sizes = bucket(made.shape)
    return machine.name, machine.baseline, made.dtype, made.layout, layout, made.unaligned, sizes


def _needed(opened: Opened, made: Problem) -> float:
    """Bytes of the workspace; infinitely many where the kernel cannot take the shape."""
    try:
        return opened.workspace(*made.shape)
    except KernelError:
        return inf


def _text(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
