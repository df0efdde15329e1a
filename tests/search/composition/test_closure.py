import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import catalog
from catalog.bounds import best_known, best_known_source, lower_bound
from catalog.known import strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog
from catalog.transform import extend, kron
from catalog.verify import NotExactError
from search.composition.closure import close
from search.composition.leaves import Leaf
from search.composition.materialise import into, materialise
from search.composition.recipes import (
    Classical,
    Concatenated,
    Fused,
    Kronecker,
    Permuted,
    Projected,
    Stored,
    Uneven,
    describe,
    leaf_ids,
    lineage,
    nodes,
)
from tests.catalog.catalog_examples import RINGS, exact_schemes
from tests.fuzzing import examples

# Ranks alone, of formats that follow from smaller ones: where concatenation beats every published ternary scheme.
CONCATENATED = {"2x12x15": 280, "2x13x15": 304, "2x13x16": 324, "2x14x16": 348, "2x15x16": 374}


def leaves_of(schemes: dict[str, Scheme], ring: Ring) -> list[Leaf]:
    return [Leaf.stored(identity, scheme, ring) for identity, scheme in schemes.items()]


def published(ring: Ring, ternary: bool, largest_volume: int) -> list[Leaf]:
    """Hypothetical leaves: the ranks of published schemes, without those that follow by composition."""
    formats = [Format(a, b, c) for a in range(2, 17) for b in range(a, 17) for c in range(b, 17)]
    known = {f: best_known_source(f, ring, ternary=ternary) for f in formats if f.volume <= largest_volume}
    return [Leaf(Stored(f, k.rank, str(f))) for f, k in known.items() if k is not None and k.sources != ("D",)]


def test_concatenation_beats_published_ternary_schemes_in_five_formats():
    table = close(published(Ring.Z, True, 16**3), ternary=True)
    assert {name: table.rank(Format.parse(name)) for name in CONCATENATED} == CONCATENATED
    assert all(table.rank(f) <= best_known(f, Ring.Z, ternary=True) for f in table.formats())
    recipe = table.recipe(Format(2, 12, 15))
    assert any(isinstance(node, Concatenated) for node in nodes(recipe)) and len(leaf_ids(recipe)) >= 2


@pytest.mark.parametrize(("ring", "ternary"), [(Ring.F2, False), (Ring.Z, True), (Ring.Z, False), (Ring.Q, False)])
def test_published_small_ranks_give_known_composite_ranks(ring, ternary):
    start = time.process_time()
    table = close(published(ring, ternary, 64), ternary=ternary)
    assert time.process_time() - start < 5
    gaps = [table.rank(f) - best_known(f, ring, ternary=ternary) for f in table.formats()]
    # Composition of what is published up to volume 64 reaches many composite formats; the table is closed under it.
    assert min(gaps) == 0 and gaps.count(0) >= 75
    for f in table.formats():
        assert table.recipe(f).rank == table.rank(f) >= lower_bound(f, ring)


def test_from_nothing_comes_the_standard_algorithm():
    table = close([], 5)
    assert all(table.rank(f) == f.volume for f in table.formats())
    assert table.recipe(Format(3, 2, 5)) == Classical(Format(3, 2, 5))


@pytest.mark.parametrize("size", [1, 17])
def test_sizes_beyond_the_table_are_refused(size):
    with pytest.raises(ValueError, match=f"size {size} of a closure must lie in 2..16"):
        close([], size)


@examples(15)
@given(st.lists(exact_schemes(), min_size=1, max_size=3), st.sampled_from(RINGS), st.booleans())
def test_every_recipe_makes_an_exact_scheme_of_at_most_its_rank(schemes, ring, ternary):
    ternary = ternary and ring is Ring.Z
    named = {}
    for number, scheme in enumerate(schemes):
        over = {Ring.Q: Ring.Q, Ring.Z: Ring.Z}.get(scheme.ring, scheme.ring)
        fits = over is ring or (over in (Ring.Z, Ring.Q) and ring.modulus and scheme.denominator % ring.modulus)
        if (fits or (over is Ring.Z and ring is Ring.Q)) and (scheme.is_ternary or not ternary):
            named[f"{number:064d}"] = scheme
    leaves = leaves_of(named, ring)
    table = close(leaves, 6, ternary)
    small = [f for f in table.formats() if f.volume <= 125]
    for f in small:
        recipe = table.recipe(f)
        assert recipe.rank == table.rank(f) and recipe.format == f
        scheme = materialise(recipe, ring, named.__getitem__)
        assert scheme.format == f and scheme.ring is ring and scheme.rank <= recipe.rank
        assert scheme.is_ternary or not ternary
        assert set(leaf_ids(recipe)) <= named.keys()
        assert str(f) in describe(recipe) or recipe.rank < f.volume
    turned = Format(5, 2, 3)
    assert materialise(table.recipe(turned), ring, named.__getitem__).format == turned


@examples(10)
@given(st.lists(exact_schemes([Ring.F2]), min_size=1, max_size=3), st.randoms())
def test_the_closure_is_a_fixed_point_and_its_ranks_ignore_the_order_of_leaves(schemes, random):
    named = {f"{number:064d}": scheme for number, scheme in enumerate(schemes)}
    leaves = leaves_of(named, Ring.F2)
    table = close(leaves, 8)
    again = close([*leaves, *(Leaf(table.recipe(f)) for f in table.formats())], 8)
    assert np.array_equal(table.ranks, again.ranks)
    random.shuffle(leaves)
    assert np.array_equal(table.ranks, close(leaves, 8).ranks)


@examples(10)
@given(st.lists(exact_schemes([Ring.Z]), min_size=1, max_size=2), exact_schemes([Ring.Z]))
def test_a_further_leaf_never_raises_a_rank(schemes, further):
    leaves = leaves_of({f"{number:064d}": scheme for number, scheme in enumerate(schemes)}, Ring.Z)
    fewer = close(leaves, 8).ranks
    more = close([*leaves, Leaf.stored("f" * 64, further, Ring.Z)], 8).ranks
    assert (more <= fewer).all() and (more[1] == fewer[1]).all()


def test_all_kinds_of_steps_occur_and_are_described():
    schemes = {
        "a" * 64: winograd(),
        "b" * 64: extend(kron(strassen(), strassen()), "m"),
        "c" * 64: extend(winograd(), "n"),
    }
    table = close(leaves_of(schemes, Ring.Z), 12)
    kinds = {type(node) for f in table.formats() for node in nodes(table.recipe(f))}
    assert {Stored, Classical, Permuted, Concatenated, Kronecker, Projected, Uneven} <= kinds
    recipe = table.recipe(Format(8, 8, 8))
    assert recipe.rank == 343 and "a" * 64 in leaf_ids(recipe)
    assert describe(recipe, 1).startswith("2x2x2:7 ") and lineage(recipe)[0].startswith("8x8x8:343 = ")


def test_a_large_leaf_is_projected():
    schemes = {"a" * 64: kron(strassen(), strassen())}
    table = close(leaves_of(schemes, Ring.Z), 4, ternary=True)
    recipe = table.recipe(Format(3, 4, 4))
    assert any(isinstance(node, Projected) and node.killed for node in nodes(recipe))
    made = materialise(recipe, Ring.Z, schemes.__getitem__)
    assert made.rank == recipe.rank < 49 and made.is_ternary
    # A leaf beyond the table gives its projections too.
    assert close(leaves_of(schemes, Ring.Z), 3, ternary=True).rank(Format(3, 3, 3)) <= 27


def test_fused_products_win_where_terms_share_factors():
    """Strassen's scheme makes pairs of terms 1x2x2 cheaper than two terms: 3x6x6 comes out below 23 * 4 and more."""
    shipped = Catalog(Path(catalog.__path__[0]) / "starter").entries()
    schemes = [e.scheme for e in shipped if e.scheme.format == (3, 3, 3) and e.scheme.ring is Ring.F2]
    # Those whose projections lose many terms reach 3x6x6 otherwise; the first that does not is taken.
    trials = ({"a" * 64: strassen(Ring.F2), "b" * 64: scheme} for scheme in schemes)
    tables = ((named, close(leaves_of(named, Ring.F2), 6)) for named in trials)
    made_of = ((named, table.recipe(Format(3, 6, 6))) for named, table in tables)
    named, recipe = next((named, recipe) for named, recipe in made_of if isinstance(recipe, Fused))
    assert recipe.inner in {(1, 2, 2), (2, 1, 2), (2, 2, 1)}
    outer = materialise(recipe.outer, Ring.F2, named.__getitem__)
    assert sorted(term for group in recipe.groups for term in group.terms) == list(range(outer.rank))
    fused = [group for group in recipe.groups if len(group.terms) > 1]
    assert fused
    for mode, terms in ((group.mode, list(group.terms)) for group in fused):
        columns = outer.factors[mode][:, terms]
        assert (columns == columns[:, :1]).all()
    # Every pair takes a 2x2x2 product of 7, where two terms take 4 each.
    assert {len(group.terms) for group in fused} == {2} and recipe.rank == 4 * 23 - len(fused)
    made = materialise(recipe, Ring.F2, named.__getitem__)
    assert made.format == (3, 6, 6) and made.rank == recipe.rank


def test_a_wrong_leaf_is_caught_when_the_scheme_is_made():
    wrong = winograd()
    wrong = Scheme(wrong.format, wrong.ring, wrong.U, wrong.V, 2 * wrong.W)
    recipe = Kronecker(Stored(Format(2, 2, 2), 7, "a" * 64), Classical(Format(1, 1, 2)))
    with pytest.raises(NotExactError):
        materialise(recipe, Ring.Z, lambda _: wrong)


def test_rings_map_as_far_as_they_do():
    assert into(strassen(), Ring.Q).ring is Ring.Q and into(strassen(), Ring.F3).ring is Ring.F3
    assert into(strassen(Ring.F2), Ring.F2).rank == 7
    with pytest.raises(ValueError, match="cannot reduce"):
        into(strassen(Ring.F2), Ring.Z)


def test_the_fourth_power_of_strassen_is_made_and_proved_in_seconds():
    schemes = {"a" * 64: strassen()}
    recipe = close(leaves_of(schemes, Ring.Z), 16, ternary=True).recipe(Format(16, 16, 16))
    start = time.thread_time()
    scheme = materialise(recipe, Ring.Z, schemes.__getitem__)
    assert scheme.rank == 2401 and scheme.is_ternary and time.thread_time() - start < 30
