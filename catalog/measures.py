"""Figures derived from a scheme: exponent, error measures, combination planes. None of them is ever stored as truth."""

from __future__ import annotations

import math
from math import gcd

import numpy as np

from catalog.scheme import Factor, Scheme


def exponent(scheme: Scheme) -> float:
    """3 log r / log(mkn), the exponent of the recursion built on this scheme alone; 3 for 1x1x1, where it is empty."""
    if scheme.format.volume == 1:
        return 3.0
    return 3.0 * math.log(scheme.rank) / math.log(scheme.format.volume)


def growth(scheme: Scheme) -> float:
    """Frobenius growth factor sum_r |u_r| |v_r| |w_r| with Euclidean norms, denominators included.

    Dumas, Pernet, Sedoglavic 2024 (arXiv 2402.05630): 14.83 for Strassen's scheme, 17.85 for Winograd's form. Over F2
    and F3 it is that of the residues {0, 1} and {-1, 0, 1} taken as integers, which says how dense a scheme is.
    """
    norms = [np.sqrt((factor.astype(np.float64) ** 2).sum(axis=0)) for factor in scheme.factors]
    return float((norms[0] * norms[1] * norms[2]).sum() / scheme.denominator)


def stability(scheme: Scheme) -> float:
    """Stability factor of one level: max over the entries of C of sum_r |w| (sum |u|) (sum |v|).

    It is the constant of the max-norm error bound (Bini, Lotti 1980; Ballard, Benson, Druinsky, Lipshitz, Schwartz
    2016, arXiv 1507.00687): 12 for Strassen's scheme, 18 for Winograd's form, k for the standard algorithm.
    """
    u, v, w = (np.abs(factor.astype(np.float64)) for factor in scheme.factors)
    return float((w @ (u.sum(axis=0) * v.sum(axis=0))).max() / scheme.denominator)


def planes(scheme: Scheme) -> tuple[int, int]:
    """Planes of A and of B: different linear combinations of at least two blocks that a kernel has to form.

    Combinations that differ by a scalar count once, since the scalar can move into W.
    """
    return _combinations(scheme.U, scheme.ring.modulus), _combinations(scheme.V, scheme.ring.modulus)


def _combinations(factor: Factor, modulus: int) -> int:
    found = set()
    for column in factor.T.tolist():
        if len(column) - column.count(0) > 1:
            head = next(entry for entry in column if entry)
            # Over F3 the only scalars are 1 and -1, which are their own inverses; over F2 the head is 1.
            scale = 1 if modulus else gcd(*column)
            if head < 0:
                scale = -scale
            found.add(tuple(column) if scale == 1 else tuple(e // scale for e in column))
    return len(found)
