import numpy as np
import pytest

from catalog.additions import sides
from catalog.canonical import digest
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from catalog.verify import NotExactError
from codegen.plan import plan
from tests.codegen.schemes import plans, rational

PLANS = plans()


@pytest.mark.parametrize("name", PLANS)
def test_programs_equal_the_factor_matrices(name):
    made = PLANS[name]
    rng = np.random.default_rng(0)
    for side, program in zip(sides(made.scheme), (made.planes_a, made.planes_b, made.outputs_c), strict=True):
        inputs = rng.integers(-1000, 1000, size=(program.inputs, 3))
        np.testing.assert_array_equal(np.array(program.run(list(inputs))), side @ inputs)


def test_levels_share_sums_within_each_level():
    two = plan(winograd(), levels=2)
    # 4 * 4 + 7 * 4 additions for a side of A or B, 7 * 7 + 4 * 7 for C.
    assert [p.additions for p in (two.planes_a, two.planes_b, two.outputs_c)] == [44, 44, 77]
    assert two.rank == 49 and two.format == Format(4, 4, 4)


def test_names_are_identifiers_and_tell_schemes_apart():
    names = [p.name for p in PLANS.values()]
    assert len(set(names)) == len(names) and all(name.isidentifier() for name in names)
    assert plan(strassen()).name == f"subcubic_2x2x2_r7_l1_{digest(strassen())[:8]}"


def test_divisor_comes_from_the_denominators():
    assert plan(rational()).divisor == 9
    assert plan(rational(), levels=2).divisor == 81


@pytest.mark.parametrize("ring", [Ring.F2, Ring.F3])
def test_finite_rings_are_refused(ring):
    with pytest.raises(ValueError, match="lift it to Z first"):
        plan(strassen(ring))


@pytest.mark.parametrize(("levels", "message"), [(0, "at least 1, not 0"), (5, "use fewer levels")])
def test_absurd_levels_are_refused(levels, message):
    with pytest.raises(ValueError, match=message):
        plan(winograd(), levels=levels)
    with pytest.raises(ValueError, match="sizes must lie in"):
        plan(classical(Format(1, 9, 1)), levels=3)


def test_a_scheme_that_is_not_exact_is_refused():
    right = strassen()
    wrong = np.array(right.U)
    wrong[0, 0] += 1
    with pytest.raises(NotExactError):
        plan(Scheme(right.format, right.ring, wrong, right.V, right.W))
