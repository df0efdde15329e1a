"""Which stored schemes are the same as another one in other bases, as far as that can be decided in a moment."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.canonical import digest
from catalog.errors import CatalogError
from catalog.scheme import Ring, Scheme
from catalog.store import Catalog

LARGEST = 27  # m*k*n up to which it is decided while importing: 3x3x3 takes a tenth of a second a pair
_TESTED = 96  # the largest m*k*n of which invariants are compared


class Equivalents:
    """Finds equivalent schemes in a catalog; invariants of stored ones are kept, since each takes as long as a proof.

    Args:
        catalog: where to look.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._known: dict[str, tuple[Scheme, str]] = {}
        self._met: dict[str, tuple[Scheme, str]] = {}

    def first(self, scheme: Scheme) -> str | None:
        """The id of an equivalent scheme that is stored or was asked about before.

        None if there is none, or if the scheme is too large to decide.
        """
        from catalog.invariants import MAX_RANK, invariant

        if scheme.format.volume > LARGEST or scheme.rank > MAX_RANK:
            return None
        try:
            own = invariant(scheme)
        except ValueError:  # exact as any other, with a denominator that its invariants cannot take
            return None
        found = next((identity for identity, same in self._alike(scheme) if same), None)
        self._met.setdefault(digest(scheme), (scheme, own))
        return found

    def alike(self, scheme: Scheme) -> list[tuple[str, bool | None]]:
        """Stored schemes with the same invariants, and whether they are equivalent: None where that stays open.

        Raises:
            ValueError: the scheme is too large for its invariants.
        """
        if scheme.format.volume > _TESTED:
            raise ValueError(
                f"{scheme.format} is too large: invariants are compared up to m*k*n = {_TESTED}; "
                "name the second scheme as well"
            )
        return list(self._alike(scheme))

    def _alike(self, scheme: Scheme) -> Iterator[tuple[str, bool | None]]:
        from catalog.equivalence import UndecidedError, equivalent
        from catalog.invariants import invariant

        wanted = invariant(scheme)
        sizes = (scheme.format.sorted, scheme.rank, scheme.ring.modulus)
        rows = (row for row in self._catalog.rows(scheme.format) if (row.rank, row.ring.modulus) == sizes[1:])
        for identity in dict.fromkeys([*self._met, *(row.id for row in rows)]):
            try:
                other, theirs = self._stored(identity)
            except (CatalogError, ValueError):  # damaged, or without invariants: that is no news of the one asked about
                yield identity, None
                continue
            if theirs != wanted or (other.format.sorted, other.rank, other.ring.modulus) != sizes:
                continue
            same: bool | None = None
            try:
                same = equivalent(scheme, other) is not None
            except UndecidedError:
                pass
            yield identity, same

    def _stored(self, identity: str) -> tuple[Scheme, str]:
        from catalog.invariants import invariant

        if identity in self._met:
            return self._met[identity]
        if identity not in self._known:
            scheme = self._catalog.get(identity).scheme
            self._known[identity] = scheme, invariant(scheme)
        return self._known[identity]


def group_named(ring: Ring) -> str:
    """The group under which schemes over a ring are compared, in words."""
    field = "Q" if ring in (Ring.Z, Ring.Q) else ring.value
    return f"changes of basis over {field} and permutations of the roles"
