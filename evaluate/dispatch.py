"""``matmul`` and ``pack``: the vendor's GEMM, or a scheme where it has beaten that on this device.

A decision depends on types, shapes, strides and options only. It is made once and then found by one look-up. Making it
asks ``evaluate.decision`` for candidates, and ``evaluate.verdicts`` for what was measured; what was not is built and
tried on the caller's operands, once for all shapes of a bucket.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

from codegen.plan import Plan
from evaluate.array_numpy import Numpy
from evaluate.arrays import library_of
from evaluate.decide import Decider, Decision, vendor
from evaluate.decision import MAX_ERROR_FACTOR
from evaluate.device import DeviceMissingError
from evaluate.explanation import Packed
from evaluate.kernel import KernelError
from evaluate.machine import RowsOf
from evaluate.opened import Kernels, Opened
from evaluate.problem import same_library
from evaluate.thin.choice import Countdown, ThinChoices
from evaluate.trials import Trials
from evaluate.verdicts import Verdicts
from evaluate.wishes import TUNING_SHARE, Options

# The plan of a named scheme: reference, levels, orbit. Raises LookupError or ValueError where there is none at hand.
PlanOf = Callable[[str, int, str], Plan]
_MOST_DECISIONS = 4096
TRIVIAL = "classical-1x1x1"  # the scheme of thin products
_ROWS = 8192  # M for which an operand is packed if nothing is said
_FREE = (None, None, MAX_ERROR_FACTOR, True, False, False, TUNING_SHARE)  # what callers restrict who do not say
# What a launch raises before anything is queued, beside short memory.
_REFUSALS = (KernelError, DeviceMissingError)


class Dispatcher:
    """Decides and runs products; threads may share it.

    Args:
        plan_of: finds the plan of a scheme.
        rows_of: finds measured rows.
        verdicts: where trials are kept.
    """

    def __init__(self, plan_of: PlanOf, rows_of: RowsOf, verdicts: Verdicts | None = None) -> None:
        verdicts = verdicts or Verdicts()
        thin = ThinChoices(lambda: plan_of(TRIVIAL, 1, ""), verdicts)
        self._decider = Decider(Trials(plan_of, Kernels(), verdicts), rows_of, thin)
        self._decisions: dict[tuple[Any, ...], Decision] = {}

    def matmul(
        self,
        a: Any,
        b: Any,
        out: Any | None = None,
        *,
        explain: bool = False,
        max_workspace: int | None = None,
        plane_dtype: str | None = None,
        max_error_factor: float = MAX_ERROR_FACTOR,
        tune: bool = True,
        guard: bool = False,
        scale: bool | str = False,
        tuning_share: float = TUNING_SHARE,
    ) -> Any:
        """The product of two arrays, by a scheme where that was measured to be faster than the vendor's GEMM.

        The first product of a new shape of promising size may compile and measure, which takes seconds to a minute.
        On a GPU it is queued on the caller's current stream, and on nothing else. No gradient is recorded. A scheme is
        accurate by norms and not entry by entry. Without ``guard`` what is infinite, or beyond the range of fp16 in a
        sum of entries, spoils more of the result than in the vendor's product. What a product needs besides while a
        graph of CuPy is captured is kept until the process ends, since the graph may be replayed as long.

        Args:
            a: [.., M, K] of NumPy, CuPy, PyTorch or JAX; fp16, bf16, fp32 or fp64.
            b: [.., K, N] of the same library and type, or what ``pack`` made of it.
            out: [.., M, N] to put the result into; a new array by default, and always for JAX.
            explain: whether to return an ``Explanation`` too.
            max_workspace: bytes that a scheme may need besides; None for what the device has.
            plane_dtype: "fp16" has planes of bf16 matrices rounded eight times finer; what exceeds 65504 in a plane
                becomes infinite. "auto" takes it where a sample of the operands says that none does. That is drawn once
                for a shape, of a stack from its first matrices; with ``guard`` others are right too.
            max_error_factor: the largest error that a scheme may have, over the vendor's.
            tune: whether what was never measured here may be compiled and measured now; else it is left to the vendor.
            guard: whether infinities and NaNs must come out where they do in the vendor's product: a kernel that finds
                any in its result computes them again. Types for which no kernel can do that are left to the vendor.
            scale: whether rows of A and columns of B are brought to one size by powers of two while they are added, so
                that small ones keep their accuracy beside large ones. "auto" does so where a sample of the operands is
                uneven. A sample is drawn once for a shape; operands of other ranges want another word here.
            tuning_share: of products of up to 16 rows: what looking for the best tile of their kernel may take of the
                time that calls of the shape have taken; infinity for at once.

        Returns:
            [.., M, N] of the type of ``a`` on its device; with ``explain`` a pair of it and the ``Explanation``.

        Raises:
            TypeError: arrays of other libraries, or of two.
            ValueError: shapes, types or devices that do not fit, a gradient that is wanted, a JAX tracer.
        """
        library = library_of(type(a))
        right, planes, packed = b, None, None
        if type(b) is Packed:
            right, planes, packed = b.matrix, b.planes, (b.candidate, b.layout)
        if type(right) is not type(a):
            same_library(library, a, right)
        if out is not None:
            if type(out) is not type(a):
                same_library(library, a, out)
            if library.read_only(out):
                raise ValueError("out is read-only; give an array that may be written, or none")
        if library.differentiable:
            _check(library, a, right)
        restricted = (max_workspace, plane_dtype, max_error_factor, tune, guard, scale, tuning_share)
        if not (
            max_workspace is plane_dtype is None
            and max_error_factor is MAX_ERROR_FACTOR
            and tune is True
            and guard is scale is False
            and tuning_share is TUNING_SHARE
        ):
            Options(*restricted)  # refuses what is none, before it is looked up as what it equals
        key = _key(library, a, right, packed, out, restricted)
        decision = self._decisions.get(key)
        if decision is None:
            holder = b if packed else None
            decision = self._decide(key, library, a, right, holder, out, Options(*restricted))
        if decision.product is None:
            found = library.matmul(a, right, out)
            if decision.wait is not None:
                self._count(key, decision.wait)
        else:
            why = ""
            try:
                found = decision.product(a, right, out, planes)
            except library.out_of_memory:  # memory is short now, whatever it was before
                why = "memory is short for its workspace"
            except _REFUSALS as error:
                why = f"the kernel refused: {' '.join(str(error).split())}"
            if why:  # after the exception and the memory of its frames have gone
                found = library.matmul(a, right, out)
                decision = Decision(None, replace(decision.explanation, choice=vendor(library), why=why))
        return (found, decision.explanation) if explain else found

    def pack(
        self,
        b: Any,
        *,
        rows: int = _ROWS,
        max_workspace: int | None = None,
        plane_dtype: str | None = None,
        max_error_factor: float = MAX_ERROR_FACTOR,
        scale: bool | str = False,
    ) -> Packed:
        """Make the planes of a constant right operand, such as weights, once for all products with it.

        On a GPU it waits until what writes ``b`` has ended, since products of few rows do not wait for that again.

        Args:
            b: [K, N]; it must not change as long as the result is used.
            rows: M that most products will have.
            max_workspace: bytes that the planes may take; None for what the device has.
            plane_dtype: as of ``matmul``.
            max_error_factor: as of ``matmul``.
            scale: as of ``matmul``, to which planes that were made with it always go scaled.

        Returns:
            What ``matmul`` takes as ``b``. Where no scheme should pay it holds the matrix and no planes.

        Raises:
            As ``matmul``.
        """
        library = library_of(type(b))
        _check(library, b)
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise ValueError(f"rows must be a positive integer, not {rows!r}")
        return self._decider.pack(library, b, rows, Options(max_workspace, plane_dtype, max_error_factor, scale=scale))

    def known(self, a: Any, b: Any, out: Any | None = None) -> Decision | None:
        """What was decided for a product without options, found as ``matmul`` does; None if nothing was yet."""
        return self._decisions.get(_key(library_of(type(a)), a, b, None, out, _FREE))

    def idle(self, a: Any, b: Any, out: Any | None = None) -> Callable[[], Any]:
        """Returns a call of ``matmul`` that finds what was decided for a product without options and does not run it.

        Raises:
            LookupError: nothing was decided yet.
        """
        decision = self.known(a, b, out)
        if decision is None:
            raise LookupError("nothing was decided for these operands yet; multiply them first")
        other = copy(self)
        key = _key(library_of(type(a)), a, b, None, out, _FREE)
        other._decisions = {**self._decisions, key: replace(decision, product=lambda *_: None)}
        return lambda: other.matmul(a, b, out)

    def rivals(self, a: Any, b: Any, most: int) -> list[tuple[str, Opened]]:
        """The most promising schemes for a product and their open kernels, whether or not they should pay.

        Args:
            a: [M, K].
            b: [K, N].
            most: how many.

        Raises:
            As ``matmul``.
        """
        found = self._decider.rivals(library_of(type(a)), a, b, most)
        return [(candidate.label, opened) for candidate, opened in found]

    def _count(self, key: tuple[Any, ...], wait: Countdown) -> None:
        """A call less; after the last one the product is decided anew."""
        wait.left -= 1
        if wait.left <= 0:
            self._decisions.pop(key, None)

    def _decide(self, key: tuple[Any, ...], *arguments: Any) -> Decision:
        decisions = self._decisions
        decision = self._decider.decide(*arguments)
        old = decisions is not self._decisions
        # What was measured may change what was decided without it, by tune=False or at another shape of the bucket.
        # New decisions are stored elsewhere then, so that a thread which began before leaves none among them.
        if decision.tried or len(decisions) >= _MOST_DECISIONS:
            self._decisions = decisions = {}
        if decision.lasting and not old:
            decisions[key] = decision
        return decision


def _key(library: Numpy, a: Any, b: Any, packed: Any, out: Any | None, restricted: tuple[Any, ...]) -> tuple[Any, ...]:
    """All that a decision depends on."""
    return (type(a), packed, restricted, library.signatures(a, b, out))


def _check(library: Numpy, *arrays: Any) -> None:
    """Refuse what wants a gradient.

    Raises:
        ValueError: one does.
    """
    for x in arrays:
        reason = library.why_not(x)
        if reason:
            raise ValueError(reason)
