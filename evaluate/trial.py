"""A trial: a candidate against the vendor's GEMM on the caller's own operands, its result checked first."""

from __future__ import annotations

from dataclasses import fields
from time import monotonic
from typing import Any

import numpy as np

from codegen.plan import Plan
from evaluate.accuracy import tolerance
from evaluate.array_numpy import Numpy
from evaluate.candidate import Candidate
from evaluate.opened import Opened
from evaluate.timing import compare
from evaluate.verdicts import Verdict

_PAIRS = 11
_HOPELESS = 0.97  # what is slower in each of the first pairs is not measured to the end
_LIMIT_S = 5.0  # of pairs beyond the fewest that support a verdict
_ROWS = 64  # of C that are compared
_MARGIN = 4.0  # of the tolerance, since both results are rounded


class WrongError(RuntimeError):
    """The result of a candidate is not that of the vendor's GEMM, or the operands do not show its usual time."""


def confirm(
    library: Numpy, opened: Opened, plan: Plan, candidate: Candidate, a: Any, b: Any, planes: Any, unaligned: str = ""
) -> Verdict:
    """Run both, compare their results, time them in interleaved pairs.

    Args:
        library: of the arrays.
        opened: the candidate's kernel.
        plan: of the candidate.
        candidate: what is tried.
        a: [M, K].
        b: [K, N].
        planes: of B, where they are made before.
        unaligned: of "abc", as of ``evaluate.problem.Problem``.

    Returns:
        A verdict without the time that the set-up took before.

    Raises:
        WrongError: the results differ by more than rounding, or the candidate has a guard and they are not finite, so
            that its repair would be timed.
        One of the library's ``out_of_memory``: there is too little for both.
        evaluate.kernel.KernelError: the kernel refuses.
    """
    began = monotonic()
    (m, k), n = a.shape, b.shape[1]
    # Where the length of its rows does not make a result unaligned, the caller's lies in memory with longer ones.
    apart = "c" in unaligned and n * a.dtype.itemsize % 16 == 0

    def new() -> Any:
        return library.empty((m, n + 1), a)[:, :n] if apart else library.empty((m, n), a)

    with library.current(a):
        run = opened.alike(a, b, new())

        # Both arms make their result anew, as a caller's products do.
        def ours(_: int = 0) -> Any:
            c = new()
            library.ready(a, b)
            run(a, b, c, planes)
            return library.finish(c, a)

        def plain(_: int = 0) -> Any:
            found = library.matmul(a, b, new() if apart else None)
            library.ready(found)
            return found

        finite = _check(library, ours(), plain(), tolerance(plan, library.dtype(a), candidate.plane_dtype, k))
        if not finite and dict(candidate.options).get("guard"):
            raise WrongError("its guard cannot be timed on a product that is not finite")
        found = compare(library.measure(a), ours, plain, pairs=_PAIRS, limit=_LIMIT_S, hopeless=_HOPELESS)
    kept = {field.name for field in fields(Verdict)}
    times = {name: value for name, value in vars(found).items() if name in kept}
    return Verdict((m, n, k), **times, setup_seconds=monotonic() - began)


def _check(library: Numpy, ours: Any, plain: Any, limit: float) -> bool:
    """Compare some rows; whether the vendor's are finite."""
    rows = np.unique(np.linspace(0, ours.shape[0] - 1, _ROWS).astype(np.int64))
    found, expected = library.sample(ours, rows), library.sample(plain, rows)
    finite = np.isfinite(expected)
    if not np.isfinite(found[finite]).all():
        raise WrongError("its result is not finite where that of the vendor is")
    scale = float(np.linalg.norm(expected[finite]))
    error = float(np.linalg.norm(found[finite] - expected[finite]))
    if error > _MARGIN * limit * scale:
        raise WrongError(f"its result differs from the vendor's by {error / scale:.2g}, more than rounding explains")
    return bool(finite.all())
