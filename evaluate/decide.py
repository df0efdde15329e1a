"""Decides how products are done: checks, short list, trials, and what each costs in memory."""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from evaluate.array_numpy import Numpy
from evaluate.buckets import small
from evaluate.candidate import Candidate, guarded, scaled, unscaled
from evaluate.device import DeviceMissingError
from evaluate.explanation import Explanation, Packed
from evaluate.kernel import KernelError
from evaluate.lists import Lists
from evaluate.machine import Machine, RowsOf, machine_of
from evaluate.opened import Opened, after_fork
from evaluate.problem import Problem, dtype_of, matrices, problem
from evaluate.ranges import plane_dtype_of, uneven
from evaluate.strides import letter_of, stored
from evaluate.thin.choice import Countdown, ThinChoices
from evaluate.thin.problem import ThinProblem, multiply, thin_problem
from evaluate.trials import Trials
from evaluate.whole import Whole, whole
from evaluate.wishes import AUTO, Options

_REFUSALS: tuple[type[Exception], ...] = (KernelError,)  # of planes, beside short memory


@dataclass(frozen=True)
class Decision:
    """How a product is done.

    Attributes:
        product: does it by a scheme; None for the library's own product, the vendor's GEMM.
        explanation: what a caller is told.
        lasting: whether it holds for later calls.
        tried: whether something was measured for it, so that earlier decisions may be out of date.
        wait: calls after which it is made anew; None for never.
    """

    product: Whole | None
    explanation: Explanation
    lasting: bool = True
    tried: bool = False
    wait: Countdown | None = None


class Decider:
    """Makes decisions; threads may share it, and one at a time compiles and measures.

    Args:
        trials: knows plans, kernels and verdicts.
        rows_of: finds measured rows.
        thin: knows those of thin products.
    """

    def __init__(self, trials: Trials, rows_of: RowsOf, thin: ThinChoices) -> None:
        self._trials, self._rows_of, self._thin = trials, rows_of, thin
        self._machines: dict[tuple[str, int | None], Machine] = {}
        self._lists = Lists(trials.plan)
        self._lock = Lock()
        after_fork(self._unlock)

    def _unlock(self) -> None:
        """In a child of a fork nobody holds the lock, whoever did in the parent."""
        self._lock = Lock()

    def decide(
        self, library: Numpy, a: Any, b: Any, packed: Packed | None, out: Any | None, options: Options
    ) -> Decision:
        """How to do a product.

        Args:
            library: of the arrays.
            a: [.., M, K].
            b: [.., K, N].
            packed: that has ``b``; None if it is not packed.
            out: where the result shall be.
            options: of the caller.

        Raises:
            As ``evaluate.problem.problem``.
        """
        made = problem(library, a, b, out, None if options.plane_dtype == AUTO else options.plane_dtype)
        plain = Explanation(vendor(library), "", "", made.shape, made.dtype, made.layout, error_factor=1.0)
        few = thin_problem(library, made, a, b)
        if few is None and small(made.shape):
            return Decision(None, replace(plain, why="the product is too small for any scheme"))
        if few is None and options.max_workspace == 0:
            return Decision(None, replace(plain, why="max_workspace is 0"))
        if made.looped and not library.writable:
            return Decision(None, replace(plain, why=f"stacks of matrices are left to {library.name}"))
        if library.capturing(a):
            # Neither compiling nor measuring can be captured; the next call outside decides.
            why = "a graph is captured: call it once before with the same shapes"
            return Decision(None, replace(plain, why=why), lasting=False)
        if few is not None:
            return self._thinned(library, few, plain, a, b, packed is not None, options)
        if options.plane_dtype == AUTO:
            with library.current(a):
                options = replace(options, plane_dtype=plane_dtype_of(library, matrices(a, b)))
            ours = packed.candidate.plane_dtype if packed and packed.candidate else made.dtype
            if ours not in (made.dtype, options.plane_dtype):
                return Decision(None, replace(plain, why=f"planes of {ours}, for which b was packed, may overflow"))
        with self._lock:  # a product that is decided by now does not wait for another one's trial
            return self._searched(library, made, plain, a, b, packed, options)

    def _thinned(
        self,
        library: Numpy,
        few: ThinProblem,
        plain: Explanation,
        a: Any,
        b: Any,
        constant: bool,
        options: Options,
    ) -> Decision:
        try:
            machine = self._machine(library, a)
        except DeviceMissingError as error:
            return Decision(None, replace(plain, why=f"kernels cannot reach the device: {error}"))
        plain = replace(plain, device=machine.name)
        if machine.info is None:
            return Decision(None, replace(plain, why=f"there are no kernels for arrays of {library.name} here"))
        wishes = options.tune, options.tuning_share
        found = self._thin.at_once(machine, few, *wishes)
        if found is None:
            with self._lock:
                found = self._thin.choose(library, a, machine, few, *wishes)
        plain = replace(plain, why=found.why)
        if found.kernel is None or found.verdict is None:
            return Decision(None, plain, tried=found.tried, wait=found.wait)
        explanation = replace(
            plain,
            choice=f"thin kernel, tile {found.way.tile}, split {found.way.split}",
            measured_ratio=found.verdict.ratio,
            ratio_low=found.verdict.ratio_low,
            ratio_high=found.verdict.ratio_high,
            repaid_after=found.verdict.repaid_after,
        )
        way = found.way._replace(early=2 if constant else 1)
        run = multiply(library, found.kernel, few, way, a, b)
        return Decision(lambda a, b, out, _planes: run(a, b, out), explanation, tried=found.tried)

    def _searched(
        self,
        library: Numpy,
        made: Problem,
        plain: Explanation,
        a: Any,
        b: Any,
        packed: Packed | None,
        options: Options,
    ) -> Decision:
        try:
            machine = self._machine(library, a)
        except DeviceMissingError as error:  # JAX without CuPy, which hands its memory to kernels
            return Decision(None, replace(plain, why=f"kernels cannot reach the device: {error}"))
        plain = replace(plain, device=machine.name)
        if not machine.kernels:
            return Decision(None, replace(plain, why=f"there are no kernels for arrays of {library.name} here"))
        only = packed.candidate if packed else None
        scales = self._scales(library, a, b, options)
        if only:
            if scales and "scale" not in dict(only.options):
                return Decision(None, replace(plain, why="b was packed without scale"))
            scales = "scale" in dict(only.options)
        only = only and unscaled(only)  # rows are those without
        kept, why = self._lists.of(machine, made, options, "b_constant" if only else "variable", only)
        if scales and kept:
            kept, why = scaled(kept), "no kernel for these types scales its operands"
        if options.guard and kept:
            kept, why = guarded(kept), "no kernel for these types has a guard"
        if not kept:
            return Decision(None, replace(plain, why=why))
        found = self._trials.chosen(
            *(library, machine, made, packed.layout if packed and only else made.layout, kept),
            *(*matrices(a, b), packed.planes if packed else None),
            tune=options.tune,
            most_bytes=options.max_workspace,
        )
        if found.opened is None or found.candidate is None or found.verdict is None:
            plain = replace(plain, why=found.why, predicted_ratio=kept[0].predicted)
            return Decision(None, plain, not made.shifted, found.tried)
        verdict, pairs = found.verdict, zip("ab", made.layout, found.opened.layout, strict=True)
        explanation = replace(
            plain,
            choice=found.candidate.label,
            why=found.why,
            predicted_ratio=found.candidate.predicted,
            measured_ratio=verdict.ratio,
            ratio_low=verdict.ratio_low,
            ratio_high=verdict.ratio_high,
            error_factor=found.candidate.error_factor,
            workspace_bytes=found.opened.workspace(*made.shape),
            copied=tuple(name for name, lies, wanted in pairs if lies != wanted),
            repaid_after=verdict.repaid_after,
        )
        return Decision(whole(library, found.opened), explanation, not made.shifted, found.tried)

    def pack(self, library: Numpy, b: Any, rows: int, options: Options) -> Packed:
        """The planes of a constant B [K, N] for products with ``rows`` rows; without planes where none should pay.

        Raises:
            ValueError: no matrix, or a type that has no products.
        """
        if len(b.shape) != 2 or rows < 1:
            raise ValueError(f"a matrix [K, N] and rows of at least 1 are needed, not {list(b.shape)} and {rows}")
        if options.plane_dtype == AUTO:
            with library.current(b):
                options = replace(options, plane_dtype=plane_dtype_of(library, [b]))
        dtype, layout = dtype_of(library, b, options.plane_dtype), "n" + letter_of(library, b)
        k, n = b.shape
        made = Problem((rows, n, k), dtype, layout, False, (rows, n))
        nothing = Packed(b, None, None, dtype, layout)
        if library.capturing(b):
            return nothing
        library.settle(b)  # thin products read it while the kernel before them ends, which must not be what writes it
        if options.max_workspace == 0 or small(made.shape):
            return nothing
        with self._lock:
            return self._packed(library, b, made, options, nothing)

    def _packed(self, library: Numpy, b: Any, made: Problem, options: Options, nothing: Packed) -> Packed:
        try:
            machine = self._machine(library, b)
        except DeviceMissingError:
            return nothing
        if not machine.kernels:
            return nothing
        kept = self._lists.of(machine, made, options, "b_constant")[0]
        for candidate in scaled(kept) if self._scales(library, b[:1], b, options) else kept:
            if candidate.operands != "b_constant" or candidate.expected <= 1:  # planes are made before any trial
                continue
            opened = self._trials.opened(library, b, machine, candidate, made.layout)
            if isinstance(opened, str):
                continue
            with library.current(b):
                try:
                    matrix = stored(library, b, opened.layout[1])[0]
                    planes = opened.pack(matrix)
                except _REFUSALS + library.out_of_memory:
                    continue
            if planes is not None and (options.max_workspace is None or planes.nbytes <= options.max_workspace):
                return Packed(matrix, planes, candidate.bare, made.dtype, opened.layout)
        return nothing

    def rivals(self, library: Numpy, a: Any, b: Any, most: int) -> list[tuple[Candidate, Opened]]:
        """The most promising kernels for a product, whether or not they should pay: what a choice is judged by.

        Args:
            library: of the arrays.
            a: [M, K].
            b: [K, N].
            most: how many.
        """
        with self._lock:
            return self._rivals(library, a, b, most)

    def _rivals(self, library: Numpy, a: Any, b: Any, most: int) -> list[tuple[Candidate, Opened]]:
        made, machine = problem(library, a, b, None, None), self._machine(library, a)
        found: list[tuple[Candidate, Opened]] = []
        for one in self._lists.ranked(machine, made):
            if len(found) < most:
                opened = self._trials.opened(library, a, machine, one, made.layout)
                found += [(one, opened)] if isinstance(opened, Opened) else []
        return found

    def _scales(self, library: Numpy, a: Any, b: Any, options: Options) -> bool:
        if options.scale != AUTO:
            return bool(options.scale)
        with library.current(a):
            return uneven(library, *matrices(a, b))

    def _machine(self, library: Numpy, like: Any) -> Machine:
        key = (library.name, library.device(like))
        if key not in self._machines:
            self._machines[key] = machine_of(library, like, self._rows_of)
        return self._machines[key]


def vendor(library: Numpy) -> str:
    """The vendor's GEMM in words."""
    return {"jax": "jax.numpy.matmul"}.get(library.name, f"{library.name}.matmul")
