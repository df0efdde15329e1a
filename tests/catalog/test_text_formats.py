"""Text formats of other projects: round trips over every ring, every feature of a grammar, and real files."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from tests.catalog.catalog_examples import SMALL, exact_schemes
from tests.catalog.text_examples import FORMATS, name_of, readings, same_terms
from tests.fuzzing import examples

MODULES = pytest.mark.parametrize("module", list(FORMATS), ids=name_of)
CONVENTION = {text_bini: "row", text_brent: "row", text_coefficients: "row", text_straight_line: "row"}
DATA = os.environ.get("SUBCUBIC_TEST_DATA")
real = pytest.mark.skipif(not DATA, reason="the public files are found through $SUBCUBIC_TEST_DATA")


def public(name: str) -> bytes:
    return (Path(DATA or "") / "schemes" / name).read_bytes()


def loads(module, text: str):
    assert module.accepts(text.encode())
    (draft,) = module.loads(text.encode())
    return draft


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
    assert [m for m in FORMATS if m.accepts(written)] == [module]
    (draft,) = module.loads(written)
    assert draft.ring in (None, scheme.ring)
    if draft.sizes:
        assert draft.sizes == scheme.format
    if scheme.ring is Ring.F2 and module not in (text_products, text_flip_graph):
        assert draft.ring is Ring.F2
    found = readings(draft, scheme.ring)
    assert same_terms(found[CONVENTION.get(module, "transposed")], scheme)


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


PRODUCTS = {
    "parentheses": "(a11)*(b11)*(c11)\n(a11)*(b12)*(c21)\n(a12)*(b21)*(c11)\n(a12)*(b22)*(c21)",
    "bare names": "a11*b11*c11\na11*b12*c21\na12*b21*c11\na12*b22*c21\n",
    "spaces for signs": "a11 b11 (c11)\n(a11) b12 c21\r\n (a12) (b21) (c11) \n\na12 b22 c21",
    "nothing for signs": "a11b11c11\na11(b12)c21\n(a12)(b21)c11\na12b22(c21)",
    "inner scalars": "-9*(-a11)*(2*b11)*(c11)/18\n(3*(2*a11))*b12*c21/6\na12 2 b21 c11/2\n(2(2 a12))(b22)(c21/4)",
    "decimals": "(0.5*a11)*(2.0*b11)*c11\n(.25*a11)*(b12)*(4.*c21)\n1e1a12*b21*1e-1*c11\na12*(1.5*b22)*(2/3*c21)",
    "long indices": "a[1,1]*b[1, 1]*c[1,1]\na_1_1*b_1_2*c_2_1\na1,2*b2,1*c1,1\nA0102*B0202*C0201",
    "comments": "# one product a line\na11*b11*c11 # first\na11*b12*c21,\na12*b21*c11;\na12*b22*c21",
    "minus a product": "-(-a11 (b11) (c11))\n-(a11(b12)(-c21))\n-a12*-b21*c11\n+a12*b22*--c21",
}


@pytest.mark.parametrize("text", PRODUCTS.values(), ids=PRODUCTS.keys())
def test_every_way_to_write_products(text):
    (plain,) = text_products.loads(PRODUCTS["parentheses"].encode())
    scheme = readings(loads(text_products, text))["transposed"]
    assert scheme.format == (1, 2, 2) and same_terms(scheme, readings(plain)["transposed"])


def test_sums_keep_each_coefficient():
    draft = loads(text_products, "(2*a11 - 3 a11/4 + 0.5*a21)*(b11)*(c11 - 2 c12)/7\na21*b11*c12")
    assert draft.sizes == (2, 1, 1) and draft.ring is None
    tensor = np.einsum("ar,br,cr->rac", *draft.factors) * 28
    whole = int(np.prod(draft.denominators))
    np.testing.assert_array_equal(tensor[0], np.outer([5, 2], [1, -2]) * whole)
    np.testing.assert_array_equal(tensor[1], np.outer([0, 28], [0, 1]) * whole)


def test_a_comment_says_mod_2():
    assert loads(text_products, "# tensor (mod 2!) format\na11*b11*c11").ring is Ring.F2
    assert loads(text_products, "# tensor format\na11*b11*c11").ring is None
    # Lifted schemes mention where they come from.
    assert loads(text_products, "# lifted from mod 2\n-a11*b11*c11").ring is None
    assert loads(text_products, "# lifted from mod 2\na11*b11*c11/3").ring is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("(a11)*(b11)", "line 2: a product without c"),
        ("a11*a12*b11", "line 2: two factors in a"),
        ("(a11 + b11)*c11", "line 2: a sum of a and b"),
        ("a11*b11*c11 + a12*b21*c11", "line 2: a sum of products"),
        ("a11*b11*(c11", "line 2: a '\\(' without"),
        ("a11*b11*c11)", r"line 2: unexpected '\)'"),
        ("a11*b11*c11*", "line 2: the expression ends too early"),
        ("a11*b11/0*c11", "line 2: a division by zero"),
        ("a11*b11/c11", "line 2: a division by more than a number"),
        ("(1j*a11)*b11*c11", "line 2: '1j' is a complex number"),
        ("((0.5+0.5j)*a11)*b11*c11", "line 2: '0.5j' is a complex number"),
        ("a112*b11*c11", "line 2: the indices of 'a112' can be divided in more than one way"),
        ("a01*b11*c11", r"line 2: 'a01' has an index outside 1\.\.64"),
        ("a[1,65]*b11*c11", "line 2: .* has an index outside"),
        ("a1*b11*c11", "line 2: the indices of 'a1' can"),
        ("d11*b11*c11", "line 2: 'd11' is no entry of a, b or c"),
        ("x*a11*b11*c11", "line 2: 'x' has no two indices"),
        ("a11*b11*c11 & 1", "line 2: unexpected '&'"),
        ("(" * 30 + "a11" + ")" * 30 + "b11c11", "line 2: it is nested more than 24 deep"),
        ("-" * 100_000 + "a11*b11*c11", "line 2: it is nested more than 24 deep"),
        ("9" * 50 + "*a11*b11*c11", "line 2: the number .* is too long"),
        ("1e999999999*a11*b11*c11", "line 2: the number .* is too long"),
        ("*".join(["1e30"] * 9) + "*a11*b11*c11", "line 2: a coefficient has more than 256 bits"),
        ("1e19*a11*b11*c11", "no 64 bits"),
        ("a12*b11*c11", "A 1x2, B 1x1 and C 1x1 belong to no matrix product"),
    ],
)
def test_damaged_products_are_refused_by_line(line, said):
    with pytest.raises(ValueError, match=said):
        text_products.loads(f"a11*b11*c11\n{line}".encode())


def test_flip_graph_text_of_several_schemes_and_of_fractions():
    first, second = text_flip_graph.dumps(strassen(Ring.Z)), text_flip_graph.dumps(classical(Format(1, 2, 3), Ring.Z))
    drafts = text_flip_graph.loads(b"2\n" + first + b"\n" + second)
    assert [d.name for d in drafts] == ["1 of 2", "2 of 2"] and [d.sizes for d in drafts] == [(2, 2, 2), (1, 2, 3)]
    assert all(readings(draft) for draft in drafts)
    draft = loads(text_flip_graph, "# pairs\n1 1 2 2\n1 2 -2 4\n2 1 0 1\n0 1 -2 1\n1 1 0 7\n0 1 1 1")
    assert draft.denominators == (2, 1, 1) and draft.factors[0].tolist() == [[1, -1]]
    assert readings(draft)["transposed"].ring is Ring.Q


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 1 1 1\n1\n1", "scheme 1 ends after 0 numbers of a matrix where its header 1 1 1 1 asks for 1 x 1"),
        ("1 1 1 1\n1\n1\n1 1", "1 numbers are left"),
        ("1 1 1 1\n1\nx\n1", "line 3: 'x' is no number"),
        ("1 65 1 1\n1\n1\n1", "k=65"),
        ("3\n1 1 1 1\n1\n1\n1", "n of scheme 2 is missing"),
        ("1 1 1 1\n1 0\n1 1\n1 1", "numbers are left"),
    ],
)
def test_damaged_flip_graph_text_is_refused(text, said):
    with pytest.raises(ValueError, match=said):
        text_flip_graph.loads(text.encode())


def test_mathematica_lists_with_comments_and_broken_lines():
    draft = loads(
        text_mathematica,
        "(* one {\n *) s = {{{{1/2}}, {{2,\n 0}}, {{1}, {0}}},\n{{{- 3 / 4}},{{0,-4/3}},{{0},{1.0}}}};\n",
    )
    assert readings(draft)["transposed"].format == (1, 1, 2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{{{1}}, {{1}}, {{1}}},\n {{{1, 2}}, {{1}}, {{1}}}}", "line 2: 2 entries of a row where there are 1"),
        ("{{{{1}}, {{1}}}}", "line 1: 2 matrices of a term where there are 3"),
        ("{{{{1}}, {{1}}, {{1}}, {{1}}}}", "line 1: a term of more than three"),
        ("{{{{1 2}}}}", "line 1: '1 2' is no number"),
        ("{{{{1}{2}}}}", "line 1: a comma is missing"),
        ("{{{{1- 2}}}}", "line 1: '1-2' is no number"),
        ("{{{{1,}}}}", "line 1: '' is no number"),
        ("{{{{{1}}}}}", "line 1: .* more than 4 nested braces"),
        ("{{{1}}}", "line 1: a row of numbers 3 braces deep"),
        ("{{{{1}},,}}", "line 1: unexpected ','"),
        ("{" * 1_000_000, "more than 4 nested braces"),
        ("{{{{1}}, {{1}}, {{1}}}", "ends within a list"),
        ("{{{{1}}, {{x}}, {{1}}}}", "line 1: 'x' is no number"),
        ("{{{{1}}, {{1}}, {{1}}}}}", "after the last brace"),
        ("{{{{1, 2}}, {{1}}, {{1}}}}", "belong to no matrix product"),
    ],
)
def test_damaged_lists_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        text_mathematica.loads(text.encode())


def test_maple_triads_with_spaces_and_broken_lines():
    draft = loads(
        text_maple,
        "A := Matrix( 1,1,[[A_1_1]]) : # names\nTensor:= TriadSet( [\n Triad([ Matrix(1,1, [[1/2]]), "
        "Matrix(1,2,[[2,\\\n0]]),Matrix([[1],[0]]) ] ),\n"
        "Triad([Matrix(1,1,[[1]]),Matrix(1,2,[[0, - 1]]),Matrix(2,1,[[0],[-1.0]])])]):\ncheck(1);",
    )
    assert readings(draft)["transposed"].format == (1, 1, 2)


@pytest.mark.parametrize(
    ("triads", "said"),
    [
        ("Tensor:", "line 2: the Tensor is 'Tensor', a placeholder"),
        ("TriadSet([Triad([Matrix(1,1,[[l]])", "line 2: the entry 'l' is a parameter"),
        ("TriadSet([Triad([Matrix(1,1,[[1/l]])", "line 2: the entry 'l' is a parameter"),
        ("TriadSet([Triad([Matrix(1,1,[[1 2]])", "line 2: '1 2' is no number"),
        ("TriadSet([Triad([Matrix(1,1,1)", "line 2: .* must stand"),
        ("TriadSet([Triad([Matrix(1,65,[[" + "0," * 64 + "0]])", "line 2: a row of 65 entries"),
        ("TriadSet([Triad([Matrix(1,2,[[1]])", "line 2: a matrix of 1 x 1 entries says that it has 1 x 2"),
        ("TriadSet([Triad([Matrix(2,1,[[1],[1,2]])", "line 2: a row of 2 entries after rows of 1"),
        ("TriadSet([Triad([Matrix(1,1,[[1]]),Matrix(1,1,[[1]])])", r"line 2: '\]' where ',' must stand"),
        ("TriadSet([Triad([Matrix(1,1,[[1]]),", "line 2: the end where 'Matrix' must stand"),
    ],
)
def test_damaged_triads_are_refused(triads, said):
    text = f"A:=Matrix(1,1,[[A_1_1]]):\nTensor:={triads}"
    assert text_maple.accepts(text.encode())
    with pytest.raises(ValueError, match=said):
        text_maple.loads(text.encode())


def test_coefficients_with_intermediate_variables():
    draft = loads(
        text_coefficients,
        "# eliminated\n1 0 0 0 0\n0 1 0 0 0\n0 0 0 1 0\n0 0 0 0 0\n0 0 1 0 2\n#\n1 0 0 0 1\n0 1 1 1 0\n"
        "#\n1 0 0 0 0 0\n0 0 0 0 0 1\n0 0 0 0 0 0\n0 0 0 0 0 0\n"
        "# Substitution information\n1 -1/2 0 1\n#\n#\n0 1 0 3 0\n",
    )
    u, v, w = (f // d if d == 1 else f / d for f, d in zip(draft.factors, draft.denominators, strict=True))
    assert u[:, 2].tolist() == [1, -0.5, 0, 1] and u[:, 4].tolist() == [2, -1, 0, 2]
    assert v.shape == (2, 5) and w[1].tolist() == [0, 1, 0, 3, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 x\n#\n1 1\n#\n1 xi", "line 1: the coefficient 'x' is a parameter, so the scheme is approximate"),
        ("1 1\n#\n1 -x2i\n#\n1 1", "line 3: .* approximate .* and not exact"),
        ("1 1\n#\n1 1", "it has 2 blocks"),
        ("1 1\n1\n#\n1 1\n#\n1 1", "line 2: a row of 1 coefficients after rows of 2"),
        ("1 1\n#\n1\n#\n1 1", "U, V and W have 2, 1, 2 columns"),
        ("1 ?\n#\n1 1\n#\n1 1", r"line 1: '\?' is no number"),
        ("1\n#\n1\n#\n1\n# substitution\n1 1", "do not fit U"),
    ],
)
def test_damaged_or_approximate_coefficients_are_refused(text, said):
    with pytest.raises(ValueError, match=said):
        text_coefficients.loads(text.encode())


def test_bini_columns_in_another_order():
    draft = loads(
        text_bini, "# mod 2\nBini 1 1 2 2\n\nproduct Alpha Beta Gamma\n 2 ; 1 ; 0 1 ; 0 1\n 1 ; 1 ; 1 0 ; 1 0\n#"
    )
    assert draft.ring is Ring.F2 and readings(draft)["row"].rank == 2


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("1 ; 1 ; 1", "line 2: a row must be"),
        ("1 ; 1 ; 1 ; 1 1", "line 2: 2 numbers of Beta and not 1"),
        ("2 ; 1 ; 1 ; 1", "line 2: the product '2'"),
        ("1 ; 1 ; 1 ; 1\n1 ; 1 ; 1 ; 1", "line 3: the product '1' is given twice"),
        ("Bini 1 1 1 1", "line 2: a second line"),
        ("product Alpha Beta", "line 2: the columns"),
        ("", "it has 0 products"),
    ],
)
def test_damaged_bini_matrices_are_refused(row, said):
    with pytest.raises(ValueError, match=said):
        text_bini.loads(f"Bini 1 1 1 1\n{row}".encode())


def test_brent_equations_must_agree():
    text = text_brent.dumps(winograd(Ring.Z)).decode()
    heading = "            2  4  5\n   ------\n"
    assert readings(loads(text_brent, heading + text.replace("= 1", "= 1 1x") + "\nCorrect equations: 64\n"))
    lines = text.splitlines()
    with pytest.raises(ValueError, match=r"line 2: the coefficients of A\(1, 1\) are not"):
        text_brent.loads("\n".join([lines[0], lines[1].replace(" 1*", " 2*", 1)]).encode())
    with pytest.raises(ValueError, match="only 1 of the 2 entries of C"):
        text_brent.loads(b"111112: 1* 1* 1 = 0")


def test_straight_line_programs_with_common_sums():
    draft = loads(
        text_straight_line,
        "# Yacas (mod 2!)\nS1 := a11 + a12;\nT_1 := b11 + b21;\n"
        "P01 := S1 * b11; P02 := (a12)\n *T_1;\nR1 := P01 + 0*P02;\n"
        "c11 := R1 + P02;\nSimplify(c11 - (a11*b11 + a12*b21));\n",
    )
    assert draft.ring is Ring.F2 and draft.sizes == (1, 2, 1) and readings(draft)["row"].rank == 2


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("P1 := a11*b11;", "line 3: 'p1' is defined twice"),
        ("c12 := P3;", "line 3: 'P3' is used before it is defined"),
        ("c12 := P1*P1;", "line 3: two factors in p"),
        ("c12 := a11;", "line 3: 'c12' is no entry of c that is a sum of products"),
        ("c11 := P1;", "line 3: 'c11' is defined twice"),
        ("c13 := P1;", "A 1x1, B 1x1 and C 1x3 belong to no"),
        ("P2 := 3;", "line 3: 'p2' is neither a product"),
        ("2 := P1;", "line 3: .* is no definition"),
    ],
)
def test_damaged_programs_are_refused(statement, said):
    with pytest.raises(ValueError, match=said):
        text_straight_line.loads(f"P1 := a11*b11;\nc11 := P1;\n{statement}".encode())


def test_common_sums_of_common_sums_are_bounded():
    entries = " + ".join(f"a[{i},{j}]" for i in range(1, 65) for j in range(1, 65))
    text = f"s0 := {entries};" + "".join(f"s{i} := s{i - 1};" for i in range(1, 3000))
    with pytest.raises(ValueError, match="all sums together have more than"):
        text_straight_line.loads(text.encode())


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


@real
def test_public_files_read_to_exact_schemes():
    (draft,) = text_mathematica.loads(public("mathematica/Laderman-333-23-98.m"))
    (scheme,) = readings(draft).values()
    assert (scheme.format, scheme.rank) == ((3, 3, 3), 23) and "transposed" in readings(draft)
    for name, size, rank, ring in (
        ("grey322-11-50", (3, 2, 2), 11, Ring.Z),
        ("smirnov336-40-960", (3, 3, 6), 40, Ring.Q),
    ):
        data = public(f"benson_ballard/{name}")
        assert [m for m in FORMATS if m.accepts(data)] == [text_coefficients]
        (draft,) = text_coefficients.loads(data)
        scheme = readings(draft)["row"]
        assert (scheme.format, scheme.rank, scheme.ring) == (size, rank, ring)


@real
def test_the_public_approximate_file_is_refused_by_name():
    data = public("benson_ballard/bini322-10-52-approx")
    assert [m for m in FORMATS if m.accepts(data)] == [text_coefficients]
    with pytest.raises(ValueError, match="line 3: the coefficient 'x' is a parameter, so the scheme is approximate"):
        text_coefficients.loads(data)
