"""Damaged text: a reader returns drafts or raises ValueError, and takes time linear in the size of the file."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.formats import text_coefficients, text_products, text_straight_line
from catalog.formats.draft import Draft
from catalog.known import classical, strassen, winograd
from catalog.scheme import Format, Ring, Scheme
from tests.catalog.text_examples import FORMATS, name_of
from tests.fuzzing import examples

MODULES = pytest.mark.parametrize("module", list(FORMATS), ids=name_of)
MIXED = Scheme((1, 2, 1), Ring.Q, [[3, 0], [0, 1]], [[1, 0], [0, -5]], [[2, -2]], denominators=(2, 1, 5))
SCHEMES = {
    Ring.Z: (strassen(Ring.Z), classical(Format(1, 2, 3))),
    Ring.F2: (winograd(Ring.F2),),
    Ring.Q: (MIXED,),
    Ring.F3: (strassen(Ring.F3),),
}
PIECES = [
    "a11",
    "b1_2",
    "c[1,2]",
    "1j",
    "-",
    "+",
    "*",
    "/",
    "/0",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ";",
    ":=",
    ":",
    "\n",
    "#",
]
PIECES += [
    "0",
    "-7",
    "1/3",
    "0.5",
    "1e9",
    "1e-99",
    "9" * 30,
    "x",
    "x2i",
    "P1",
    "Bini 1 1 1 1",
    "111111: 1*1*1 = 1",
    " ",
    "\0",
]
PIECES += [
    "# Substitution information\n",
    "Tensor:=TriadSet([Triad([",
    "Matrix(1,1,[[1]])",
    "(*",
    "*)",
    "\\\n",
    "# mod 2\n",
    "é",
]


@st.composite
def damaged(draw, module) -> bytes:
    """A file of the format with some pieces replaced, doubled, moved or cut off."""
    written = [module.dumps(s) for ring, group in SCHEMES.items() if ring in FORMATS[module] for s in group]
    if module is text_coefficients:
        written.append(b"1 0\n0 2\n1 1\n#\n1 1\n#\n1 0 3\n#sub\n1 1\n#\n#\n0 1\n")
    if module is text_straight_line:
        written.append(b"s := a11 + a12; t := b11; p1 := s*t; p2 := a12*b21; r := p1 - p2; c11 := r;")
    data = draw(st.sampled_from(written))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        stop = min(len(data), start + draw(st.integers(0, 12)))
        piece = draw(
            st.one_of(st.sampled_from(PIECES).map(str.encode), st.binary(max_size=3), st.just(data[stop : stop + 9]))
        )
        data = data[:start] + piece + data[stop:]
    return data


@MODULES
@examples(200)
@given(data=st.data())
def test_damaged_files_are_read_or_refused(module, data):
    check(module, data.draw(damaged(module)))


@MODULES
@examples(100)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30))
def test_files_of_any_pieces_are_read_or_refused(module, pieces):
    check(module, "".join(pieces).encode())


def check(module, data: bytes) -> None:
    module.accepts(data)
    try:
        drafts = module.loads(data)
    except ValueError as error:
        said = str(error)
        assert said and "\n" not in said and len(said) < 300 and "Traceback" not in said
        return
    for draft in drafts:
        assert isinstance(draft, Draft) and min(draft.denominators) >= 1
        assert len({factor.shape[1] for factor in draft.factors}) == 1
        if draft.sizes:
            m, k, n = draft.sizes
            assert [factor.shape[0] for factor in draft.factors] == [m * k, k * n, m * n]


@pytest.mark.parametrize(
    "data",
    [
        b"(" * (1 << 18),
        b"(*" * (1 << 17),
        b"{{{{(*" * (1 << 18),
        b"{{{{1,(* *)" * (1 << 17),
        b"Tensor:=" * (1 << 18),
        b"Tensor:=TriadSet([Triad([Matrix(" + b"1," * (1 << 17),
        b"Tensor:=TriadSet([Triad([Matrix([[" + b"1," * (1 << 17),
        b"# mod # mod" * (1 << 17),
        b"1 " * (1 << 18),
        b"1\n" * (1 << 18),
        b"\n#" * (1 << 18),
        b"1 1 1 1000000\n" + b"1 " * (1 << 18),
        b"9" * (1 << 18),
        b"9*" * (1 << 17) + b"a11*b11*c11",
        b"-" * (1 << 18),
        b"a11+" * (1 << 18) + b"a11",
        b"a[" * (1 << 17),
        b"a" * (1 << 18),
        b"x := a11;" * (1 << 17),
        b"111111:" * (1 << 17),
        b"111111: 1*1*1+" + b"1*1*1+" * (1 << 17) + b"1*1*1 = 1",
        b"Bini 1 1 1 9\n" + b"1;" * (1 << 17),
        b"".join(b"1/%d " % (10**30 + i) for i in range(1 << 15)) + b"\n#\n1\n#\n1",
    ],
    ids=lambda data: data[:12].decode(),
)
def test_hostile_files_take_linear_time(data):
    # A quadratic reader would need hours for these megabytes; most take well under a second.
    for module in FORMATS:
        start = time.process_time()
        check(module, data)
        assert time.process_time() - start < 20, name_of(module)


def test_megabytes_of_terms_are_read():
    text = text_products.dumps(strassen(Ring.Z)) * 3000
    (draft,) = text_products.loads(text)
    assert draft.factors[0].shape == (4, 21_000)


def test_matrices_beyond_any_use_are_refused():
    line = b"a[64,64]*b[64,64]*c[64,64]\n"
    with pytest.raises(ValueError, match="4096 x 10000 is too large"):
        text_products.loads(line * 10_000)
