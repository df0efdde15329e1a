"""Plans that together reach every branch of the emitters."""

from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend, kron
from codegen.plan import Plan, plan


def rational() -> Scheme:
    """A 2x2x2 scheme of rank 7 over Q with denominator 9 and coefficients beyond one."""
    return sandwich(winograd(Ring.Q), [[1, 2], [-1, 1]], [[3, 0], [0, 1]], [[1, 0], [0, 1]])


def rectangular() -> Scheme:
    """A 2x3x4 scheme of rank 22: two copies of Strassen's side by side, and standard slices."""
    return extend(concatenate(strassen(), strassen(), "n"), "k")


def plans() -> dict[str, Plan]:
    return {
        "strassen": plan(strassen()),
        "winograd": plan(winograd()),
        "winograd2": plan(winograd(), levels=2),
        "classical": plan(classical(Format(2, 3, 4))),
        "rectangular": plan(rectangular()),
        "rectangular2": plan(rectangular(), levels=2),
        "mixed": plan(kron(winograd(), classical(Format(1, 2, 1)))),
        "rational": plan(rational()),
        "rational2": plan(rational(), levels=2),
        "trivial": plan(classical(Format(1, 1, 1))),
    }
