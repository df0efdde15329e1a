"""Schemes that a search is told to start from: whether they fit, and what the walks make of them."""

from __future__ import annotations

from catalog.scheme import Format, Ring, Scheme
from catalog.transform import AXES, Axis, orient, reduce_mod
from catalog.verify import require_exact
from search.composition.projection import project_best


def require_fitting(scheme: Scheme, format: Format, ring: str) -> None:
    """Check that walks on a format can start from a scheme, without making that start.

    Args:
        scheme: the start.
        format: of the walks.
        ring: of the walks, "F2", "F3", or "ZT" for ternary coefficients over Z.

    Raises:
        ValueError: the scheme has no image over the ring, or sizes that lead to no start.
    """
    _over(scheme, ring)
    inside = all(part <= whole for part, whole in zip(scheme.format.sorted, format.sorted, strict=True))
    if not inside and _surplus(scheme.format, format) is None:
        raise ValueError(
            f"a {scheme.format} scheme does not fit into {format}; give one of at most these sizes, or of one slice "
            "more along one dimension"
        )


def as_start(scheme: Scheme, format: Format, ring: str) -> Scheme:
    """A given scheme in the ring of the walks; one that has a slice more than the format loses it.

    Raises:
        ValueError: the scheme has no image over the ring.
        NotExactError: the scheme violates a Brent equation.
    """
    scheme = _over(scheme, ring)
    axis = _surplus(scheme.format, format)
    if axis is not None:
        larger = format._replace(**{axis: getattr(format, axis) + 1})
        scheme = project_best(orient(scheme, larger), axis)
    return require_exact(scheme)


def _over(scheme: Scheme, ring: str) -> Scheme:
    if ring != "ZT":
        return scheme if scheme.ring is Ring(ring) else reduce_mod(scheme, Ring(ring))
    if not scheme.is_ternary:
        raise ValueError(f"{scheme} is not ternary over Z; it cannot start walks over ZT, give --walk F2 or another")
    return scheme


def _surplus(sizes: Format, format: Format) -> Axis | None:
    """The dimension of a format along which other sizes have one slice more, in any order of the roles."""
    for axis in AXES:
        if sizes.sorted == format._replace(**{axis: getattr(format, axis) + 1}).sorted:
            return axis
    return None
