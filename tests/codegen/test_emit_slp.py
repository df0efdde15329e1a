import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.additions import additions_cse
from catalog.known import winograd
from codegen.emit import emit
from codegen.plan import plan
from tests.codegen.finite import finite, hostile
from tests.codegen.schemes import plans
from tests.codegen.slp_reader import Reader
from tests.fuzzing import examples

PLANS = plans() | finite()
TEXTS = {name: emit(made, "slp") for name, made in PLANS.items()}


def product(name, seed, text=None):
    """C as the text says, A @ B, and the reader."""
    rng = np.random.default_rng(seed)
    m, k, n = PLANS[name].format
    modulus = PLANS[name].base.ring.modulus
    a, b = rng.integers(-99, 100, (m, k)), rng.integers(-99, 100, (k, n))
    inputs = {
        f"{letter}{i + 1}_{j + 1}": int(x[i, j]) for letter, x in (("a", a), ("b", b)) for i, j in np.ndindex(x.shape)
    }
    reader = Reader(inputs, modulus)
    values = reader.run(text or TEXTS[name])
    c = [[values[f"c{i}_{j}"] for j in range(1, n + 1)] for i in range(1, m + 1)]
    exact = (a @ b) % modulus if modulus else a @ b
    return c, exact.tolist(), reader


@pytest.mark.parametrize("name", PLANS)
def test_the_program_computes_the_product_exactly(name):
    c, exact, reader = product(name, 0)
    assert c == exact
    assert reader.products == PLANS[name].rank and reader.additions == PLANS[name].additions


@examples(20)
@given(st.sampled_from(["strassen", "rectangular", "rational", "winograd over F2"]), st.integers(0, 2**32 - 1))
def test_it_does_so_for_any_entries(name, seed):
    c, exact, _ = product(name, seed)
    assert c == exact


def test_a_changed_sign_is_noticed():
    spoiled = TEXTS["winograd"].replace("s1 = a1_1 - a2_1", "s1 = a1_1 + a2_1")
    assert spoiled != TEXTS["winograd"]
    c, exact, _ = product("winograd", 0, spoiled)
    assert c != exact


def test_additions_are_those_of_the_catalog():
    assert PLANS["winograd"].additions == additions_cse(winograd()) == 15
    assert "# adds     24 naive, 15 after common-subexpression elimination\n" in TEXTS["winograd"]


def test_the_ring_is_said_where_it_matters():
    assert (
        "# All arithmetic is modulo 2.\n" in TEXTS["winograd over F2"]
        and "over F2, levels 1" in TEXTS["winograd over F2"]
    )
    assert "modulo" not in TEXTS["winograd"]


def test_code_for_real_matrices_refuses_finite_rings():
    made = plan(winograd("F2"), any_ring=True)
    for target in ("numpy", "jax", "c", "cuda", "triton", "torch"):
        with pytest.raises(ValueError, match=f"target {target} multiplies real matrices and the scheme holds over F2"):
            emit(made, target)
    with pytest.raises(ValueError, match="gives wrong numbers on real matrices"):
        plan(winograd("F2"))


def test_a_provenance_stays_in_its_comment():
    made = hostile()
    PLANS["hostile"] = made
    try:
        c, exact, _ = product("hostile", 0, emit(made, "slp"))
    finally:
        del PLANS["hostile"]
    assert c == exact
