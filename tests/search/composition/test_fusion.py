import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, kron, orient
from catalog.verify import is_exact
from search.composition.disjoint import apart
from search.composition.fused_ranks import cheapest, line_costs
from search.composition.fusion import Buds, Group, fuse
from search.composition.uneven import cheapest as cheapest_uneven
from search.composition.uneven import needs, splits, uneven_product
from tests.catalog.catalog_examples import SMALL, exact_schemes
from tests.fuzzing import examples

inner_formats = st.builds(Format, *(st.integers(1, 2) for _ in "mkn"))


def inner_scheme(format: Format, ring: Ring):
    """Winograd's scheme in as many places as it fits, the standard algorithm elsewhere."""
    sizes = list(format)
    if min(sizes) < 2:
        return classical(format, ring)
    scheme = winograd(ring)
    for axis in "mkn":
        missing = getattr(format, axis) - getattr(scheme.format, axis)
        if missing:
            rest = Format(*scheme.format)._replace(**{axis: missing})
            scheme = concatenate(scheme, inner_scheme(rest, ring), axis)
    return scheme


def parts_for(groups, inner, ring):
    return {group.format(inner): inner_scheme(group.format(inner), ring) for group in groups}


@examples(2 * SMALL)
@given(exact_schemes(), inner_formats, st.integers(0, 999))
def test_any_grouping_of_terms_that_share_a_factor_is_exact(scheme, inner, seed):
    rng = np.random.default_rng(seed)
    buds = Buds(scheme, ternary=False)
    members: dict[tuple[int, int], list[int]] = {}
    for term in range(scheme.rank):
        mode = int(rng.integers(3))
        members.setdefault((mode, int(buds.labels[mode, term])), []).append(term)
    groups = [Group(mode, tuple(terms)) for (mode, _), terms in members.items()]
    parts = parts_for(groups, inner, scheme.ring)
    fused = fuse(scheme, inner, groups, parts)
    assert is_exact(fused)
    assert fused.format == tuple(a * b for a, b in zip(scheme.format, inner, strict=True))
    assert fused.rank == sum(parts[group.format(inner)].rank for group in groups)


@examples(SMALL)
@given(exact_schemes([Ring.Z]), inner_formats)
def test_ternary_groups_leave_the_coefficients_ternary(scheme, inner):
    if not scheme.is_ternary:
        return
    buds = Buds(scheme, ternary=True)
    for mode in range(3):
        members: dict[int, list[int]] = {}
        for term, label in enumerate(buds.labels[mode].tolist()):
            members.setdefault(label, []).append(term)
        groups = buds.grouped(range(scheme.rank), [mode] * scheme.rank)
        assert {group.terms for group in groups} == {tuple(terms) for terms in members.values()}
        fused = fuse(scheme, inner, groups, parts_for(groups, inner, Ring.Z))
        assert fused.is_ternary and is_exact(fused)


@pytest.mark.parametrize("mode", range(3))
def test_a_pair_is_untangled_by_a_change_of_basis(mode):
    """Two terms a(x)(b1+b2)(x)c1 + a(x)b2(x)(c2-c1) overlap; after the change of basis they do not."""
    outer = classical(Format(2, 2, 2))
    buds = Buds(outer, ternary=True)
    i, j = np.flatnonzero(buds.labels[mode] == buds.labels[mode, 0])[:2]
    factors = [factor.copy() for factor in outer.factors]
    first, second = (factors[m] for m in range(3) if m != mode)
    first[:, i] += first[:, j]
    second[:, j] -= second[:, i]
    factors[mode][:, j] *= -1
    first[:, j] *= -1
    flipped = Scheme(outer.format, Ring.Z, *factors)
    assert is_exact(flipped) and not apart(first[:, [i, j]])
    again = Buds(flipped, ternary=True)
    assert again.labels[mode, i] == again.labels[mode, j]
    groups = again.grouped(range(8), [mode] * 8)
    assert any(group.mix is not None and group.terms == (i, j) for group in groups)
    inner = Format(2, 2, 2)
    fused = fuse(flipped, inner, groups, parts_for(groups, inner, Ring.Z))
    assert fused.is_ternary and is_exact(fused)


def test_singles_are_the_kronecker_product():
    inner = winograd(Ring.F2)
    groups = [Group(0, (term,)) for term in range(7)]
    fused = fuse(strassen(Ring.F2), inner.format, groups, {inner.format: inner})
    whole = kron(strassen(Ring.F2), inner)
    assert all(np.array_equal(a, b) for a, b in zip(fused.factors, whole.factors, strict=True))


def test_wrong_groups_are_refused():
    inner = Format(1, 1, 1)
    with pytest.raises(ValueError, match="no partition of the 7 terms"):
        fuse(strassen(), inner, [Group(0, (0,))], {inner: classical(inner)})
    groups = [Group(0, (0, 1)), *(Group(0, (term,)) for term in range(2, 7))]
    with pytest.raises(ValueError, match="share no factor of A"):
        fuse(strassen(), inner, groups, parts_for(groups, inner, Ring.Z))


@pytest.mark.parametrize("seed", range(8))
def test_the_partition_costs_as_little_as_any(seed):
    rng = np.random.default_rng(seed)
    scheme = classical(Format(2, 2, 2), Ring.F2)
    buds = Buds(scheme, ternary=False)
    costs = []
    single = int(rng.integers(5, 20))
    for _ in range(3):
        second = int(rng.integers(single, 2 * single + 1))
        costs.append(np.array([0, single, second]))
    rank, groups = buds.partition(costs)
    assert rank == sum(costs[g.mode][len(g.terms)] for g in groups)
    assert sorted(itertools.chain(*(g.terms for g in groups))) == list(range(8))
    least = min(_cost(buds, modes, costs) for modes in itertools.product(range(3), repeat=8))
    assert rank <= 1.05 * least, (rank, least)
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("search.composition.fusion._EXHAUSTIVE", 3**8)
        assert buds.partition(costs)[0] == least


def _cost(buds, modes, costs):
    counts: dict[tuple[int, int], int] = {}
    for term, mode in enumerate(modes):
        key = mode, int(buds.labels[mode, term])
        counts[key] = counts.get(key, 0) + 1
    return sum(int(costs[mode][count]) for (mode, _), count in counts.items())


def table(size):
    grid = np.arange(size + 1, dtype=np.int64)
    return grid[:, None, None] * grid[:, None] * grid


def test_long_lines_are_cut_where_the_sizes_end():
    ranks = table(4)
    for order in set(itertools.permutations((2, 2, 2))):
        ranks[order] = 7
    best, first = line_costs(ranks)
    # 2x2x1 four times side by side: twice 2x2x2.
    assert best[2, 1, 2, 2] == 7 and best[4, 1, 2, 2] == 14 and first[4, 1, 2, 2] == 2
    # Three terms of size 2 need six in all, which the table of sizes up to 4 holds only in pieces.
    assert best[3, 2, 2, 2] == 21 and first[3, 2, 2, 2] in (1, 2)
    ranks[2, 2, 4] = ranks[2, 4, 2] = ranks[4, 2, 2] = 13
    best, first = line_costs(ranks)
    assert best[3, 2, 2, 2] == 20 and first[2, 2, 2, 2] == 2


def test_a_fused_product_is_found_and_kept_ternary():
    """The standard algorithm fused: 2x2x4 at 13, an impossible rank, makes the fused 4x4x8 cheaper than any product."""
    ranks = table(8)
    scheme = classical(Format(2, 2, 2))
    for order in set(itertools.permutations((2, 2, 4))):
        ranks[order] = 13
    found = {inner: (rank, groups) for inner, rank, groups in cheapest(
        scheme.format, Buds(scheme, ternary=True), ranks, line_costs(ranks))}  # fmt: skip
    rank, groups = found[Format(2, 2, 2)]
    assert rank == 4 * 13 and all(len(group.terms) == 2 for group in groups)


@examples(2 * SMALL)
@given(exact_schemes(), st.data())
def test_products_over_uneven_blocks_are_exact(scheme, data):
    sizes = tuple(tuple(data.draw(st.integers(1, 3)) for _ in range(extent)) for extent in scheme.format)
    needed = needs(scheme, sizes)
    parts = {need: inner_scheme(need, scheme.ring) for need in needed}
    whole = uneven_product(scheme, sizes, needed, parts)
    assert is_exact(whole)
    assert whole.format == tuple(sum(blocks) for blocks in sizes)
    assert whole.rank == sum(parts[need].rank for need in needed)
    assert whole.is_ternary or not scheme.is_ternary


def test_uneven_ranks_are_those_of_the_schemes_made():
    outer = orient(concatenate(strassen(), classical(Format(2, 2, 1)), "n"), Format(3, 2, 2))
    ranks = table(7)
    for order in set(itertools.permutations((2, 2, 2))):
        ranks[order] = 7
    for format, sizes, rank in cheapest_uneven([splits(outer, d, 7) for d in range(3)], ranks):
        needed = needs(outer, sizes)
        assert rank == sum(int(ranks[need]) for need in needed) < ranks[format]
        assert format == tuple(map(sum, sizes))
