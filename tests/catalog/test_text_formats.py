"""Text formats of other projects: round trips over every ring, and what they cannot hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.canonical import digest
from catalog.formats import (
    read,
    text_bini,
    text_brent,
    text_coefficients,
    text_flip_graph,
    text_maple,
    text_mathematica,
    text_products,
    text_straight_line,
)
from catalog.known import classical
from catalog.scheme import Format, Ring, Scheme
from tests.catalog.catalog_examples import SMALL, exact_schemes
from tests.catalog.text_examples import FORMATS, name_of, readings, same_terms
from tests.fuzzing import examples

MODULES = pytest.mark.parametrize("module", list(FORMATS), ids=name_of)
CONVENTION = {text_bini: "row", text_brent: "row", text_coefficients: "row", text_straight_line: "row"}


@MODULES
@examples(SMALL)
@given(data=st.data())
def test_what_is_written_reads_back_and_is_exact(module, data):
    scheme = data.draw(exact_schemes(FORMATS[module]))
    try:
        written = module.dumps(scheme)
    except ValueError:
        # The two formats of integers have no fractions.
        assert module in (text_bini, text_brent) and scheme.denominator > 1
        return
    assert module.accepts(written)
    (draft,) = module.loads(written)
    assert draft.ring in (None, scheme.ring)
    if draft.sizes:
        assert draft.sizes == scheme.format
    if scheme.ring is Ring.F2 and module not in (text_products, text_flip_graph):
        assert draft.ring is Ring.F2
    found = readings(draft, scheme.ring)
    assert same_terms(found[CONVENTION.get(module, "transposed")], scheme)


def test_a_first_row_that_looks_like_another_format_is_read(tmp_path):
    # "2 1 2 1" and the four numbers after it look like sizes, a rank and one matrix.
    u, v = [[2, 1, 2, 1], [4, 2, 2, 1], [-1, -1, -1, -1], [-2, -2, -1, -1]], [[-1, -1, 2, 2], [1, 1, -1, -1]]
    scheme = Scheme((2, 2, 1), Ring.Z, u, v, [[1, -1, 1, -1], [1, -2, 1, -2]])
    written = text_coefficients.dumps(scheme)
    assert text_flip_graph.accepts(written)
    path = tmp_path / "scheme.txt"
    path.write_bytes(written)
    assert digest(read(path)) == digest(scheme)


@MODULES
def test_rings_that_a_format_cannot_say_are_refused(module):
    for ring in Ring:
        if ring not in FORMATS[module]:
            with pytest.raises(ValueError, match=f"cannot hold a scheme over {ring}|denominators"):
                module.dumps(
                    Scheme((1, 1, 1), ring, [[2]], [[1]], [[1]], denominators=(2, 1, 1) if ring == "Q" else (1, 1, 1))
                )


@pytest.mark.parametrize("module", [text_products, text_straight_line, text_brent], ids=name_of)
def test_formats_of_one_digit_refuse_longer_sizes(module):
    with pytest.raises(ValueError, match="one digit for an index, too few for 1x10x1"):
        module.dumps(classical(Format(1, 10, 1), Ring.Z))


@pytest.mark.parametrize(
    "module", [text_bini, text_coefficients, text_flip_graph, text_maple, text_mathematica], ids=name_of
)
def test_long_sizes_round_trip_elsewhere(module):
    scheme = classical(Format(1, 11, 2), Ring.Z)
    (draft,) = module.loads(module.dumps(scheme))
    assert same_terms(readings(draft)[CONVENTION.get(module, "transposed")], scheme)


@pytest.mark.parametrize("module", [text_products, text_straight_line], ids=name_of)
def test_a_zero_sum_is_refused(module):
    zero = Scheme((1, 1, 1), Ring.Z, [[1, 1]], [[1, 0]], [[1, 1]])
    with pytest.raises(ValueError, match="zero"):
        module.dumps(zero)


@MODULES
def test_other_data_is_not_accepted(module):
    others = (
        b"",
        b"\n",
        b"{}",
        b"PK\x03\x04",
        b"\x93NUMPY",
        b"# only a comment",
        b"48 16 R\n1 1 -1\n0 0 0\n",
        b"\xff\xfe\x00a",
    )
    flip_cpd = b"m1 = (a1 - a4)(b1 + b4)\n\nc1 = m1 + m2\n"
    for other in (*others, flip_cpd):
        assert not module.accepts(other)
        with pytest.raises(ValueError):
            module.loads(other)
