"""The addition-reduced form of Perminov's JSON: rows are sums that share intermediate sums."""

from __future__ import annotations

from typing import Any

from catalog.formats.draft import Entry
from catalog.formats.factors import LARGEST
from catalog.formats.numbers import entry_of

_WIDEST = 1 << 62


def expanded(name: str, fresh: Any, rows: Any, width: int) -> list[list[Entry]]:
    """Rows over the original variables alone.

    Args:
        name: of the factor, for messages.
        fresh: definitions of the variables ``width``, ``width + 1``, ..., each by those before it; every sum is a
            list of ``{"index": i, "value": c}``.
        rows: the sums to expand.
        width: number of original variables.

    Returns:
        One dense row of ``width`` entries per sum.

    Raises:
        ValueError: a sum is malformed, names a variable that is not defined yet, or grows too large.
    """
    if not isinstance(fresh, list) or (len(fresh) + len(rows)) * width > LARGEST:
        raise ValueError(f"{name}_fresh must be a list of sums of sensible size")
    known: list[dict[int, Entry]] = [{i: 1} for i in range(width)]
    for terms in fresh:
        known.append(_sum(name, terms, known))
    dense = []
    for terms in rows:
        total = _sum(name, terms, known)
        dense.append([total.get(i, 0) for i in range(width)])
    return dense


def _sum(name: str, terms: Any, known: list[dict[int, Entry]]) -> dict[int, Entry]:
    if not isinstance(terms, list) or not all(isinstance(term, dict) for term in terms):
        raise ValueError(f"{name} must be lists of index and value")
    total: dict[int, Entry] = {}
    for term in terms:
        index, value = term.get("index"), entry_of(term.get("value"))
        if type(index) is not int or not 0 <= index < len(known):
            raise ValueError(f"{name} uses the variable {index!r:.20}, and {len(known)} are defined there")
        for variable, coefficient in known[index].items():
            total[variable] = total.get(variable, 0) + value * coefficient
    # Sums of sums double at every step, so they are bounded on the way.
    for coefficient in total.values():
        if abs(coefficient.numerator) >= _WIDEST or coefficient.denominator >= _WIDEST:
            raise ValueError(f"a coefficient of {name} has no 64 bits")
    return total
