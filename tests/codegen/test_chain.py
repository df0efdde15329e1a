"""Chains compute their coefficients, are as short as can be, and keep pending blocks apart."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Scheme
from catalog.transform import kron
from codegen.chain import Chain, assemble, chain, kron_seed, replay
from codegen.chain_costs import costs
from codegen.chain_exact import MAX_RANK, Solver
from codegen.chain_pending import arrange
from codegen.chain_search import greedy, improve
from codegen.plan import plan
from codegen.schedule import schedule
from tests.fuzzing import examples


@st.composite
def problems(draw, ranks=(1, 9), blocks=(1, 5), limit=2):
    """Coefficients, products of a fixed sign, products of the first phase."""
    rank = draw(st.integers(*ranks))
    rows = draw(st.integers(*blocks))
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    W = rng.integers(-limit, limit + 1, size=(rows, rank))
    if draw(st.booleans()):
        W *= rng.integers(0, 2, size=W.shape)
    some = st.frozensets(st.integers(0, rank - 1))
    return W, draw(some), draw(some)


def check(found: Chain, W, fixed, first) -> None:
    np.testing.assert_array_equal(replay(found, len(W)), W)
    assert sorted(step.product for step in found.steps) == list(range(W.shape[1]))
    assert all(step.sign == 1 for step in found.steps if step.product in fixed)
    assert found.boundary == len(first)
    assert {step.product for step in found.steps[: found.boundary]} == first
    assert found.steps[0].clear
    assert found.boundary == len(found.steps) or found.steps[found.boundary].clear
    holder: dict[int, int] = {}
    begun: set[int] = set()
    most = 0
    for step in found.steps:
        for p in step.publications:
            assert p.coefficient != 0 and p.first == (p.block not in begun)
            begun.add(p.block)
            if p.first and p.last:
                assert p.slot == -1
            elif p.first:
                assert p.slot not in holder, "two pending blocks share a slot"
                holder[p.slot] = p.block
            else:
                assert holder[p.slot] == p.block
                if p.last:
                    del holder[p.slot]
        most = max(most, len(holder))
    assert not holder and most == found.slots
    assert begun == set(np.flatnonzero(W.any(axis=1)).tolist())


@given(problems())
@examples(60)
def test_few_products(problem):
    check(chain(*problem), *problem)


@given(problems(ranks=(MAX_RANK + 1, 40), blocks=(1, 9), limit=1))
@examples(4)
def test_many_products(problem):
    W, fixed, first = problem
    found = chain(W, fixed, first)
    check(found, *problem)
    assert found.publications <= costs(*problem).total(greedy(costs(*problem)))


def every(W, fixed, first):
    """All chains there are, by brute force: (publications, slots) of each."""
    rank = W.shape[1]
    for order in permutations(range(rank)):
        if set(order[: len(first)]) != first:
            continue
        for signs in product(*[(1,) if p in fixed else (1, -1) for p in order]):
            for clears in product((True, False), repeat=rank - 1):
                made = assemble(W, order, signs, [True, *clears], len(first))
                yield made.publications, made.slots


@given(problems(ranks=(1, 4)))
@examples(12)
def test_few_products_have_the_best_chain_there_is(problem):
    found = chain(*problem)
    assert (found.publications, found.slots) == min(every(*problem))


@given(problems(ranks=(6, 11)))
@examples(8)
def test_the_local_search_comes_near_the_best_chain(problem):
    found = costs(*problem)
    best = Solver(found).publications
    starts = [greedy(found)]
    assert best <= found.total(improve(found, starts)[-1]) <= min(best + 1, found.total(starts[0]))


@given(problems(ranks=(5, 20), blocks=(2, 9), limit=1))
@examples(8)
def test_runs_change_places_only_where_that_lowers_what_is_pending(problem):
    W, _, first = problem
    found = costs(*problem)
    runs = greedy(found)
    (pending, _), arranged = arrange(found, runs)
    assert found.total(arranged) == found.total(runs)
    early = [found.early[run[0]] for run in arranged]
    assert early == sorted(early, reverse=True)
    nodes, clears = [x for run in arranged for x in run], [not k for run in arranged for k in range(len(run))]
    made = assemble(W, [x // 2 for x in nodes], [1 - x % 2 * 2 for x in nodes], clears, len(first))
    assert made.slots == pending


def coefficients(scheme: Scheme) -> tuple[np.ndarray, frozenset[int]]:
    """W and the products of two plain blocks, which stand with positive signs in the schemes of this file."""
    plain = (np.abs(scheme.U).sum(axis=0) == 1) & (np.abs(scheme.V).sum(axis=0) == 1)
    return scheme.W, frozenset(np.flatnonzero(plain).tolist())


@pytest.mark.parametrize(
    ("scheme", "publications", "slots"), [(strassen(), 10, 2), (winograd(), 7, 2), (classical(Format(2, 3, 2)), 4, 0)]
)
def test_known_schemes(scheme, publications, slots):
    found = chain(*coefficients(scheme))
    assert (found.publications, found.slots) == (publications, slots)


def test_two_levels_of_winograds_form():
    W, fixed = coefficients(kron(winograd(), winograd()))
    base = chain(*coefficients(winograd())).seed
    seed = kron_seed(base, base)
    found = chain(W, fixed, seeds=[seed])
    check(found, W, fixed, frozenset())
    # No chain has fewer than 75: even if runs could be closed to cycles, links could not save more.
    assert found.publications == 75 < assemble(W, *seed).publications
    assert found == chain(W, fixed, seeds=[seed])


def test_products_without_planes_come_first():
    W, plain = coefficients(winograd())
    found = chain(W, plain, plain)
    check(found, W, plain, plain)
    assert found.boundary == 2 and found.publications == 9


def test_wrong_products_and_seeds_are_refused():
    with pytest.raises(ValueError, match="first names product 7; the columns of W are products 0 to 6"):
        chain(winograd().W, first=frozenset([7]))
    with pytest.raises(ValueError, match="fixed names product -1"):
        chain(winograd().W, fixed=frozenset([-1]))
    with pytest.raises(ValueError, match="each of the products 0 to 6 once"):
        chain(winograd().W, seeds=[([0, 1], [1, 1])])


def test_a_schedule_shares_planes_rather_than_signs():
    # Two copies of Winograd's form use each plane of A twice; a second sign of one would be a ninth plane.
    made = schedule(plan(kron(winograd(), classical(Format(1, 1, 2)))))
    assert len(made.planes_a) == 4 and len(made.planes_b) == 8
    assert made.publications <= 16
