"""Text formats of schemes for the tests: what is written, and how drafts are read back by trying both conventions."""

import numpy as np

from catalog.formats import (
    text_bini,
    text_brent,
    text_coefficients,
    text_flip_graph,
    text_maple,
    text_mathematica,
    text_products,
    text_straight_line,
)
from catalog.formats.draft import Draft
from catalog.scheme import Format, Ring, Scheme
from catalog.verify import is_exact

Z, Q, F2, F3 = Ring.Z, Ring.Q, Ring.F2, Ring.F3
# Each module with the rings that its format can say.
FORMATS = {
    text_bini: (F2, Z),
    text_brent: (F2, Z),
    text_coefficients: (Z, Q),
    text_flip_graph: (F2, F3, Z, Q),
    text_maple: (Z, Q),
    text_mathematica: (Z, Q),
    text_products: (F2, Z, Q),
    text_straight_line: (F2, Z, Q),
}


def name_of(module) -> str:
    return module.__name__.removeprefix("catalog.formats.text_")


def sizes_of(draft: Draft) -> Format:
    if draft.sizes:
        return Format(*draft.sizes)
    mk, kn, mn = (factor.shape[0] for factor in draft.factors)
    m, k, n = round((mk * mn / kn) ** 0.5), round((mk * kn / mn) ** 0.5), round((kn * mn / mk) ** 0.5)
    return Format(m, k, n)


def readings(draft: Draft, ring: Ring | None = None) -> dict[str, Scheme]:
    """The exact schemes among the two readings of C, by name."""
    fmt = sizes_of(draft)
    ring = ring or draft.ring or (Q if max(draft.denominators) > 1 else Z)
    order = [j * fmt.m + i for i in range(fmt.m) for j in range(fmt.n)]
    found = {}
    for name, w in (("row", draft.factors[2]), ("transposed", draft.factors[2][order])):
        scheme = Scheme(fmt, ring, *draft.factors[:2], w, denominators=draft.denominators)
        if is_exact(scheme):
            found[name] = scheme
    return found


def same_terms(scheme: Scheme, other: Scheme) -> bool:
    """Whether two schemes have the same rank-one tensors in the same order, whatever the scales of their factors."""
    if (scheme.format, scheme.rank) != (other.format, other.rank):
        return False
    modulus = scheme.ring.modulus
    for term in range(scheme.rank):
        first, second = (
            np.einsum("a,b,c->abc", *(factor[:, term].astype(object) for factor in s.factors)) * t.denominator
            for s, t in ((scheme, other), (other, scheme))
        )
        if np.any((first - second) % modulus if modulus else first != second):
            return False
    return True


def loads(module, text: str):
    assert module.accepts(text.encode())
    (draft,) = module.loads(text.encode())
    return draft
