"""Products of sums as text: every way to write them, and damaged ones refused by line."""

import numpy as np
import pytest

from catalog.formats import (
    text_products,
)
from catalog.scheme import Ring
from tests.catalog.text_examples import loads, readings, same_terms

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
        ("a1*b11*c11", "line 2: 'a1' has one index"),
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
