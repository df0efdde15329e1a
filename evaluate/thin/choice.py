"""Decides whether a thin product is done by the thin kernel: where it beat the vendor, found in bounded time.

Looking for a tile takes seconds, and a thin product microseconds. So the vendor's GEMM runs until what a search takes
is a small share of what the calls of this shape have taken; shapes that are met rarely, or change at every step, never
get there.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import Any

from codegen.build import BuildError, MissingCompilerError
from codegen.plan import Plan
from evaluate.array_numpy import Numpy
from evaluate.cublas import CublasError
from evaluate.device import DeviceInfo, DeviceMissingError
from evaluate.kernel import KernelError
from evaluate.machine import Machine
from evaluate.thin.kernel import ThinKernel, Way, build_thin, open_thin
from evaluate.thin.problem import ThinProblem
from evaluate.thin.tuning import BUDGET_S, tuned
from evaluate.trial import WrongError
from evaluate.verdicts import Verdict, Verdicts, generator_hash

_TUNING_S = BUDGET_S + 2.0  # what looking for a tile takes
_BUILD_S = 15.0  # compiling before the first one of a type
_MOST_WAITING = 4096
_LAUNCH_S, _BYTES_S = 3e-6, 2e12  # of a product, so that its time is rather taken for too short
_REFUSALS: tuple[type[Exception], ...] = (
    *(MissingCompilerError, BuildError, DeviceMissingError, KernelError, WrongError, CublasError),
    *(MemoryError, ValueError, OSError),
)


@dataclass
class Countdown:
    """Calls until a product is decided anew.

    Attributes:
        left: so many.
        calls: how many it began with.
    """

    left: int
    calls: int = field(init=False)

    def __post_init__(self) -> None:
        self.calls = self.left


@dataclass(frozen=True)
class ThinChoice:
    """What came out.

    Attributes:
        why: in one clause.
        verdict: of the search for a tile; None without one.
        kernel: to run it with; None for the vendor's GEMM.
        wait: until the next look; None if the choice lasts.
        tried: whether something was measured.
    """

    why: str
    verdict: Verdict | None = None
    kernel: ThinKernel | None = None
    wait: Countdown | None = None
    tried: bool = False

    @property
    def way(self) -> Way:
        """Tile and split."""
        assert self.verdict is not None
        return Way(*self.verdict.way)


class ThinChoices:
    """Kernels, verdicts and countdowns of thin products. One thread at a time may ask.

    Args:
        plan: makes that of the scheme of one product.
        verdicts: keeps what was measured.
    """

    def __init__(self, plan: Callable[[], Plan], verdicts: Verdicts) -> None:
        self._plan, self._verdicts = plan, verdicts
        self._kernels: dict[tuple[str, int | None, str, str], ThinKernel] = {}
        self._refused: dict[tuple[str, ThinProblem], str] = {}
        self._waiting: dict[tuple[str, ThinProblem], Countdown] = {}
        self._stack = ExitStack()
        atexit.register(self._stack.close)  # while the driver is still there

    def at_once(self, machine: Machine, problem: ThinProblem, tune: bool, share: float) -> ThinChoice | None:
        """What can be said without a kernel and without measuring; threads need not wait for each other.

        Args:
            machine: as of ``choose``, like all that follow.
            problem: likewise.
            tune: likewise.
            share: likewise.

        Returns:
            The vendor's GEMM and why, or None where ``choose`` has to be asked.
        """
        assert machine.info is not None
        key = (machine.name, problem)
        if key in self._refused:
            return ThinChoice(self._refused[key])
        verdict = self._verdicts.get(_facts(machine.info, problem))
        if verdict is None:
            return self._wait(key, problem, tune, share)
        return None if verdict.finding == "faster" else _beaten(verdict)

    def choose(
        self, library: Numpy, like: Any, machine: Machine, problem: ThinProblem, tune: bool, share: float
    ) -> ThinChoice:
        """How to do a product.

        Args:
            library: of the caller's arrays.
            like: one of them.
            machine: where they are, a GPU.
            problem: the product.
            tune: whether a tile may be looked for now.
            share: of the time spent in products of this shape, that looking for a tile may take.
        """
        assert machine.info is not None
        known = self.at_once(machine, problem, tune, share)
        if known is not None:
            return known
        key, facts = (machine.name, problem), _facts(machine.info, problem)
        verdict, tried = self._verdicts.get(facts), False
        try:
            if verdict is None:
                with library.current(like):
                    kernel = self._kernel(library, like, machine.info, problem)
                    verdict = tuned(kernel, problem.what, problem.dtype, problem.layout, machine.info)
                self._verdicts.put(facts, verdict)
                self._waiting.pop(key, None)
                tried = True
            if verdict.finding != "faster":
                return replace(_beaten(verdict), tried=tried)
            with library.current(like):
                kernel = self._kernel(library, like, machine.info, problem)
        except _REFUSALS as error:
            why = f"the thin kernel cannot run: {' '.join(str(error).split())}"
            # Whatever the reason, looking again at every call would cost more than it could save.
            self._refused[key] = why
            return ThinChoice(why, tried=tried)
        return ThinChoice("it beat the vendor's libraries at this shape", verdict, kernel, tried=tried)

    def _wait(self, key: tuple[str, ThinProblem], problem: ThinProblem, tune: bool, share: float) -> ThinChoice | None:
        """The vendor's GEMM for now; None once a tile may be looked for."""
        if not tune:
            return ThinChoice("no tile was looked for at this shape: tune is off")
        cost = _TUNING_S + (0.0 if self._compiled(problem) else _BUILD_S)
        each = _LAUNCH_S + problem.bytes / _BYTES_S
        calls = 0 if share == inf else ceil(cost / (share * each))
        if key not in self._waiting and len(self._waiting) >= _MOST_WAITING:  # shapes that change at every call
            self._waiting.clear()
        wait = self._waiting.setdefault(key, Countdown(calls))
        if wait.left <= 0 or calls <= 0:
            return None
        why = (
            f"looking for a tile takes about {cost:.0f} s, and that is {share:.0%} of what {wait.calls} calls of this "
            "shape take; subcubic tune does it at once"
        )
        return ThinChoice(why, wait=wait)

    def _compiled(self, problem: ThinProblem) -> bool:
        return any(key[2:] == (problem.dtype, problem.layout) for key in self._kernels)

    def _kernel(self, library: Numpy, like: Any, info: DeviceInfo, problem: ThinProblem) -> ThinKernel:
        key = (library.name, library.device(like), problem.dtype, problem.layout)
        if key not in self._kernels:
            built = build_thin(self._plan(), info.arch, problem.dtype, problem.layout)
            self._kernels[key] = self._stack.enter_context(open_thin(built.path, built.name))
        return self._kernels[key]


def _beaten(verdict: Verdict) -> ThinChoice:
    why = f"the best tile of the thin kernel had a ratio of {verdict.ratio:.3f}: {verdict.finding}"
    return ThinChoice(why, verdict)


def look_now(
    plan: Plan, verdicts: Verdicts, info: DeviceInfo, problem: ThinProblem, budget_s: float = BUDGET_S
) -> Verdict:
    """Look for the tile of a product and keep the verdict, whatever was known before.

    Args:
        plan: of the scheme of one product.
        verdicts: where it is kept.
        info: the device, which is the current one.
        problem: the product.
        budget_s: for trying tiles.

    Raises:
        As ``evaluate.thin.tuning.tuned`` and ``evaluate.thin.kernel.build_thin``.
    """
    built = build_thin(plan, info.arch, problem.dtype, problem.layout)
    with open_thin(built.path, built.name) as kernel:
        found = tuned(kernel, problem.what, problem.dtype, problem.layout, info, budget_s)
    verdicts.put(_facts(info, problem), found)
    return found


def _facts(info: DeviceInfo, problem: ThinProblem) -> dict[str, Any]:
    """All that a verdict depends on."""
    return {
        "kind": "thin",
        "groups": problem.what.groups,
        "shape": list(problem.what.shape),
        "dtype": problem.dtype,
        "layout": problem.layout,
        "device": info.name,
        "driver": info.driver,
        "cuda": info.cuda,
        "kernels": generator_hash(),
    }
