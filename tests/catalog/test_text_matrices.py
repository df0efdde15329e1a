"""Text formats of matrices, equations and programs: every feature of each grammar, and damaged ones refused."""

import pytest

from catalog.formats import (
    text_bini,
    text_brent,
    text_coefficients,
    text_flip_graph,
    text_maple,
    text_mathematica,
    text_straight_line,
)
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring
from tests.catalog.text_examples import loads, readings


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
