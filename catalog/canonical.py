"""Canonical bytes and digest of a scheme: what makes two stored schemes the same one.

Terms are unordered and each may be rescaled by units whose product is one; both freedoms are removed here. The
larger symmetry group (role permutations, sandwiching) is not: equivalent schemes keep different digests.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from math import gcd, lcm

from catalog.scheme import Scheme

Weight = int | Fraction


def canonical_bytes(scheme: Scheme) -> bytes:
    """ASCII bytes that are equal exactly for schemes that differ by term order, signs and scales of factors.

    In every term u and v become primitive with a positive first non-zero entry (residue 1 over F3), and w takes the
    rest. Terms are sorted; a common denominator of all w is kept beside them.
    """
    terms = [_normalised(scheme, term) for term in zip(*(f.T.tolist() for f in scheme.factors), strict=True)]
    weights = [weight for _, _, weight in terms]
    common = lcm(1, *(w.denominator for weight in weights for w in weight))
    rows = sorted([u, v, [w.numerator * (common // w.denominator) for w in weight]] for u, v, weight in terms)
    return json.dumps([list(scheme.format), scheme.ring.value, common, rows], separators=(",", ":")).encode()


def digest(scheme: Scheme) -> str:
    """SHA-256 of the canonical bytes, 64 hexadecimal digits: the identity of a scheme in the catalog."""
    return hashlib.sha256(canonical_bytes(scheme)).hexdigest()


def _normalised(scheme: Scheme, term: tuple[list[int], ...]) -> tuple[list[int], list[int], list[Weight]]:
    u, v, w = term
    modulus = scheme.ring.modulus
    # Integers wherever they do: arithmetic with fractions takes thirty times as long.
    scale: Weight = 1 if scheme.denominator == 1 else Fraction(1, scheme.denominator)
    cleaned = []
    for factor in (u, v):
        unit = gcd(*factor) or 1
        if modulus:
            unit = 1
        if next((e for e in factor if e), 1) < 0:
            unit = -unit
        scale *= unit
        cleaned.append([e // unit for e in factor] if unit != 1 else factor)
    weight = [e * scale if e else 0 for e in w]
    if modulus == 3:
        weight = [(e + 1) % 3 - 1 for e in weight]
    return cleaned[0], cleaned[1], weight
