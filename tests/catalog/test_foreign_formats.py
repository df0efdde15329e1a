"""Every public format, in files that the tests write: what is read is the scheme that was written."""

import bz2
import gzip
import io
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import formats
from catalog.canonical import digest
from catalog.formats import Draft, Flaw, FormatError, UnknownFormatError, read_all, read_draft
from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend
from catalog.verify import NotExactError, is_exact
from tests.catalog import foreign_files
from tests.catalog.catalog_examples import SMALL, corrupted, exact_schemes, unimodular
from tests.catalog.foreign_files import DYADIC, EXACT, WRITERS
from tests.fuzzing import examples

RECTANGLE = sandwich(concatenate(winograd(), strassen(), "n"), *(unimodular(s, s) for s in (2, 2, 4)))
KINDS = {
    "perminov": "Perminov JSON",
    "reduced": "Perminov JSON",
    "mmc": "MMC JSON",
    "mmc_sparse": "MMC JSON",
    "sms": "PLinOpt sms",
    "flip_cpd": "flip-cpd npy",
    "flip_cpd_text": "flip-cpd text",
    "gzip": "Perminov JSON",
    "bzip2": "PLinOpt sms",
    "alphatensor": "AlphaTensor npz",
    "named_arrays": "AlphaTensor npz",
    "alphaevolve": "AlphaEvolve cell",
    "notebook": "AlphaEvolve cell",
}
ROW_MAJOR = ("sms", "bzip2", "flip_cpd", "flip_cpd_text")


def written(folder, data, name="no-suffix-that-tells"):
    path = folder / name
    path.write_bytes(data)
    return path


def only(path):
    (item,) = read_all(path)
    return item


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("scheme", [RECTANGLE, strassen(), extend(winograd(), "m", 2)], ids=["2x2x4", "2x2x2", "4x2x2"])
def test_kind_and_convention(tmp_path, writer, scheme):
    path = written(tmp_path, WRITERS[writer](scheme))
    item = only(path)
    found, convention = read_draft(item)
    assert item.kind == KINDS[writer]
    assert digest(found) == digest(scheme)
    assert convention == ("C row-major" if writer in ROW_MAJOR else "C transposed")
    assert digest(formats.read(path)) == digest(scheme)


@pytest.mark.parametrize("writer", EXACT)
@examples(SMALL)
@given(exact_schemes())
def test_every_ring(tmp_path_factory, writer, scheme):
    found, _ = read_draft(only(written(tmp_path_factory.mktemp("foreign"), WRITERS[writer](scheme))))
    same = Scheme(scheme.format, scheme.ring, *found.factors, denominators=found.denominators)
    assert is_exact(found) and digest(same) == digest(scheme)


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("ring", Ring)
def test_rectangles_over_every_ring(tmp_path, writer, ring):
    scheme = concatenate(strassen(ring), winograd(ring), "k")
    if ring is Ring.Q:
        scheme = sandwich(scheme, *(2 * unimodular(s, 3) for s in scheme.format))
        scheme = sandwich(scheme, np.diag([2, 1]), np.diag([1, 4, 1, 1]), np.eye(2, dtype=int))
    found, _ = read_draft(only(written(tmp_path, WRITERS[writer](scheme))))
    assert digest(Scheme(scheme.format, ring, *found.factors, denominators=found.denominators)) == digest(scheme)
    assert found.ring in (ring, Ring.Z)


@pytest.mark.parametrize("writer", WRITERS)
def test_one_wrong_coefficient_is_refused(tmp_path, writer):
    wrong = corrupted(RECTANGLE, 1, 2, 3, by=-3)
    with pytest.raises(NotExactError, match="the coefficient of"):
        formats.read(written(tmp_path, WRITERS[writer](wrong)))


@pytest.mark.parametrize("writer", DYADIC)
def test_halves_and_eighths_are_never_rounded(tmp_path, writer):
    scheme = sandwich(strassen(Ring.Q), np.array([[2, 0], [1, 8]]), np.eye(2, dtype=int), np.array([[1, 0], [0, 2]]))
    assert scheme.denominator > 1
    found = formats.read(written(tmp_path, WRITERS[writer](scheme)))
    assert found.ring is Ring.Q and digest(found) == digest(scheme)


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=True, **arrays)
    return buffer.getvalue()


def test_many_keys_are_many_schemes_and_bad_ones_do_not_keep_good_ones_out(tmp_path):
    good = np.array(foreign_files.arrays_of(strassen()))
    wrong = good.copy()
    wrong[0, 0, 0] += 1
    pairs = np.empty(2, dtype=object)
    pairs[:] = [good[0], good[1]]
    data = npz(**{"2,2,2": good, "2,2,3": good, "b": wrong, "c": pairs, "d": good.astype(np.float32), "e": good[0]})
    items = {item.name: item for item in read_all(written(tmp_path, data))}
    assert read_draft(items["2,2,2"])[0].rank == 7 and read_draft(items["d"])[0].ring is Ring.Z
    with pytest.raises(ValueError, match="sizes 2, 2, 3"):
        read_draft(items["2,2,3"])
    with pytest.raises(NotExactError):
        read_draft(items["b"])
    assert isinstance(items["c"], Flaw) and "2 matrices" in items["c"].reason
    assert isinstance(items["e"], Flaw)
    with pytest.raises(FormatError, match="holds 6 schemes .*subcubic catalog import"):
        formats.read(tmp_path / "no-suffix-that-tells")


def test_a_stack_of_schemes_and_a_single_array_file(tmp_path):
    stack = np.array([np.array(foreign_files.arrays_of(scheme)) for scheme in (strassen(), winograd())])
    items = read_all(written(tmp_path, npz(found=stack)))
    assert [item.name for item in items] == ["found[0]", "found[1]"]
    assert digest(read_draft(items[1])[0]) == digest(winograd())
    buffer = io.BytesIO()
    np.save(buffer, stack[0].astype(np.int8))
    assert digest(formats.read(written(tmp_path, buffer.getvalue()))) == digest(strassen())


def test_complex_coefficients(tmp_path):
    arrays = np.array(foreign_files.arrays_of(strassen())).astype(np.complex64)
    assert formats.read(written(tmp_path, npz(**{"2,2,2": arrays}))).ring is Ring.Z
    arrays[0, 0, 0] += 0.5j
    for data in (npz(**{"2,2,2": arrays}), foreign_files.alphaevolve(strassen()).replace(b" 1,", b" 0.5-0.5j,", 1)):
        with pytest.raises(FormatError, match="complex, and the rings here are F2, F3, Z and Q"):
            formats.read(written(tmp_path, data))
    document = json.loads(foreign_files.mmc(strassen()))
    document["u"][0][0] = [0, "1/2"]
    with pytest.raises(FormatError, match="complex, and the rings here are"):
        formats.read(written(tmp_path, json.dumps(document).encode()))


def test_numpy_prints_complex_numbers_with_blanks(tmp_path):
    text = foreign_files.alphaevolve(strassen()).decode().replace(" 1", "1. +0.j ").replace("-1", "-1.-0.j ")
    assert "1. +0.j" in text
    assert digest(formats.read(written(tmp_path, text.encode()))) == digest(strassen())


@pytest.mark.parametrize("text", ["0.3333333", "0.1", "1e-9", "nan", "inf", "x", "__import__('os')", "1e99", "", "1/0"])
def test_decimals_that_are_approximate_and_what_is_no_number(tmp_path, text):
    data = foreign_files.alphaevolve(strassen()).replace(b" 1,", f" {text},".encode(), 1)
    with pytest.raises(FormatError, match="no-suffix-that-tells"):
        formats.read(written(tmp_path, data))
    document = json.loads(foreign_files.perminov(strassen()))
    document["u"][0][0] = text
    with pytest.raises(FormatError, match="no-suffix-that-tells"):
        formats.read(written(tmp_path, json.dumps(document).encode()))


def test_pools_of_words_over_f2_and_f3(tmp_path):
    for ring in (Ring.F2, Ring.F3):
        pool = [
            sandwich(concatenate(strassen(ring), winograd(ring), "n"), *(unimodular(s, seed) for s in (2, 2, 4)))
            for seed in range(5)
        ]
        items = read_all(written(tmp_path, foreign_files.flip_cpd_words(pool)))
        assert [item.name for item in items] == [f"[{i}]" for i in range(5)]
        read = [read_draft(item)[0] for item in items]
        assert [digest(scheme) for scheme in read] == [digest(scheme) for scheme in pool]
        assert {scheme.ring for scheme in read} == {ring}


@pytest.mark.parametrize(
    "format", [Format(1, 2, 3), Format(3, 2, 1), Format(2, 3, 4), Format(3, 3, 3), Format(4, 4, 4)]
)
def test_sizes_of_a_row_of_fractions_are_found(tmp_path, format):
    found = formats.read(written(tmp_path, foreign_files.flip_cpd(classical(format))))
    assert found.format == format


def test_the_matrices_of_a_triple_in_one_file_come_in_any_place(tmp_path):
    left, right, post = foreign_files.sms_files(RECTANGLE)
    for order in ((left, right, post), (left, post, right), (post, left, right)):
        assert digest(formats.read(written(tmp_path, b"\n".join(order)))) == digest(RECTANGLE)


@pytest.mark.parametrize("names", ["s_L.sms s_R.sms s_P.sms", "l.txt r.txt p.txt", "xRL-L xRL-R xRL-P"])
def test_a_triple_in_three_files_is_read_by_any_of_them(tmp_path, names):
    paths = [
        written(tmp_path, data, name)
        for data, name in zip(foreign_files.sms_files(RECTANGLE), names.split(), strict=True)
    ]
    written(tmp_path, b"\n".join(foreign_files.sms_files(strassen())[:1]), "another.sms")
    for path in paths:
        assert digest(formats.read(path)) == digest(RECTANGLE)
    assert formats.together([*reversed(paths), tmp_path / "nowhere"]) == [tuple(paths), (tmp_path / "nowhere",)]


def test_a_triple_whose_names_tell_nothing(tmp_path):
    files = foreign_files.sms_files(RECTANGLE)
    paths = [written(tmp_path, data, name) for data, name in zip(files, ("1", "2", "3"), strict=True)]
    assert digest(formats.read(paths[2])) == digest(RECTANGLE)
    apart = [tmp_path / "x" / "1", tmp_path / "y" / "2", tmp_path / "z" / "3"]
    for path, data in zip(apart, files, strict=True):
        path.parent.mkdir()
        path.write_bytes(data)
    assert formats.together(apart) == [tuple(apart)]
    with pytest.raises(FormatError, match="holds 1 matrices of a PLinOpt triple; put the files of L, R and P"):
        formats.read(apart[0])


BAD_DOCUMENTS = [
    ({"n": [2, 2]}, "list of three sizes"),
    ({"n": [2, 2, 99]}, "must lie in 1..64"),
    ({"n": [2, 2, True]}, "list of three sizes"),
    ({"m": 8}, "states 8 terms and has 7"),
    ({"u": None}, "no coefficients u"),
    ({"u": None, "lineage": []}, "a stub that names how to make the scheme"),
    ({"commutative": True}, "commutative scheme"),
    ({"v": [[1, 2], [3]]}, "rows have 1 and 2 entries"),
    ({"v": [[1, 2, 3]] * 7}, "rows of 3 entries; the sizes ask for 4"),
    ({"v": 5}, "no coefficients v"),
    ({"v": [5]}, "must be a matrix"),
    ({"v": [[True] * 4] * 7}, "True stands where a number"),
    ({"v": [[None] * 4] * 7}, "None stands where a number"),
    ({"v": [[10**30] * 4] * 7}, "no 64 bits"),
    ({"v": [["1/" + "9" * 30] * 4] * 7}, "no 64 bits"),
    ({"v": [["1/0"] * 4] * 7}, "divides by zero"),
    ({"v": [[0.3] * 4] * 7}, "approximate"),
    ({"v": [[[1, 2, 3]] * 4] * 7}, "list stands where a number"),
    ({"u_fresh": [], "u": [[{"index": 4, "value": 1}]] * 7}, "uses the variable 4, and 4 are defined"),
    ({"u_fresh": [[{"index": 4, "value": 1}]], "u": [[]] * 7}, "uses the variable 4, and 4 are defined"),
    ({"u_fresh": 5, "u": [[]] * 7}, "u_fresh must be a list"),
    ({"u_fresh": [5], "u": [[]] * 7}, "lists of index and value"),
    ({"u_sparse": [1]}, "must be an object of rows"),
    ({"u_sparse": {"7": {"i": [], "c": []}}}, "rows are numbered 0..6"),
    ({"u_sparse": {"0": {"i": [4], "c": [1]}}}, "index 4; there are 4 entries"),
    ({"u_sparse": {"0": {"i": [1], "c": []}}}, "1 indices and 0 coefficients"),
    ({"u_sparse": {"0": 3}}, "lists i and c"),
    ({"m": 10**12, "u_sparse": {}}, "must be an object of rows, and m"),
]


@pytest.mark.parametrize(("change", "message"), BAD_DOCUMENTS)
def test_bad_documents_are_refused_in_one_sentence(tmp_path, change, message):
    document = foreign_files.document(strassen()) | change
    path = written(tmp_path, json.dumps(document).encode())
    with pytest.raises(FormatError, match=message) as caught:
        formats.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_sums_that_double_at_every_step_are_bounded(tmp_path):
    fresh = [[{"index": 0, "value": 1}] * 2] + [[{"index": 3 + i, "value": 1}] * 2 for i in range(1, 500)]
    document = foreign_files.document(strassen()) | {"u_fresh": fresh, "u": [[]] * 7}
    with pytest.raises(FormatError, match="no 64 bits"):
        formats.read(written(tmp_path, json.dumps(document).encode()))


BAD_TEXTS = [
    (b"4 4 R\n1 1 1\n", "cut off"),
    (b"4 4 R\n5 1 1\n0 0 0\n", "names the entry 5, 1 of a 4x4 matrix"),
    (b"4 4 R\n1 1 x\n0 0 0\n", "'x' is no integer"),
    (b"4 4 R\n1 1\n0 0 0\n", "not of the form i j value"),
    (b"4 4 R\n0 0 0\nnonsense\n", "line 3 is no heading"),
    (b"999999999 999999999 R\n0 0 0\n", "no heading of a matrix"),
    (b"2 4 R\n0 0 0\n3 4 R\n0 0 0\n4 5 R\n0 0 0\n", "2x4, 3x4, 4x5 are no triple"),
    (b"m1 = (a1)(b1)\nc1 = m1 m2\n", "line 2"),
    (b"m1 = (a1)(b1)\nc1 = 2\n", "is no term in m"),
    (b"m1 = (a1)(b1)\nm1 = (a1)(b1)\nc1 = m1\n", "stands twice"),
    (b"m1 = (a1)(b1)\nm3 = (a1)(b1)\nc1 = m1\n", "not numbered from 1 without gaps"),
    (b"m1 = (a1)(b1)\n", "its c are not numbered"),
    (b"m1 = (a1)(b1)\nc1 = \n", "a sum is empty"),
    (b"m1 = (a1)(b1)\nc0 = m1\n", "no number from 1"),
    (b"m1 = (a1)(b999999)\nc1 = m1\n", "not those of a matrix product"),
    (b"x = (np.array([[1]]), np.array([[1]]))", "does not have three arrays"),
    (b"x = (np.array([[1]]), np.array([[1]]), np.array([[1]]), np.array([[1]]))", "more than three"),
    (b"x = (np.array([[1], 2]), np.array([[1]]), np.array([[1]]))", "stands where a row"),
    (b"x = (np.array([[1], [2, 3]]), np.array([[1]]), np.array([[1]]))", "rows have 1 and 2"),
    (b'{"cells": 5, "x": ".array("}', "it has no cells"),
    (b'{"cells": [{"source": ".array("}]}', "assigns no tuple"),
    (b"\x93NUMPY\x01\x00", "header is damaged"),
    (gzip.compress(b"nothing"), "not a scheme file"),
    (gzip.compress(b"x" * 1000)[:-9], "cannot be unpacked"),
    (bz2.compress(b"x" * 1000)[:-9], "cannot be unpacked"),
]


@pytest.mark.parametrize(("data", "message"), BAD_TEXTS)
def test_bad_texts_are_refused_in_one_sentence(tmp_path, data, message):
    path = written(tmp_path, data)
    with pytest.raises(FormatError, match=message) as caught:
        formats.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"hello", b"# Schemes\n\nsee there", bytes(range(256)), b"<html></html>"])
def test_other_files_are_told_apart_from_damaged_ones(tmp_path, data):
    with pytest.raises(UnknownFormatError, match="is not a scheme file"):
        read_all(written(tmp_path, data))


def npy(dtype, shape, payload):
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + payload


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (npy("<i8", "(1000000000000,)", b"\0" * 8), "promises 1000000000000 numbers and 8 bytes follow"),
        (npy("<i8", "(3, 99999999999999999999, 7)", b""), "promises"),
        (npy("<U8", "(1,)", b"\0" * 32), "not numbers"),
        (npy("<f16", "(1,)", b"\0" * 16), "not numbers"),
        (npy("<i8", "(-1,)", b""), "promises"),
        (npy("<i8", "(5,)", b"\0" * 40), "5 numbers is no list of fractions"),
        (npy("<i8", "(6,)", b"\0" * 48), "denominator"),
        (npy("<u8", "(6,)", b"\0" * 48), "no scheme over F2 or F3"),
        (npy("<i4", "(6,)", b"\0" * 24), "6 matrices"),
    ],
)
def test_arrays_that_promise_too_much_or_hold_something_else(tmp_path, data, message):
    with pytest.raises(FormatError, match=message):
        formats.read(written(tmp_path, data))


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress])
def test_packed_files_are_unpacked_up_to_a_limit(tmp_path, monkeypatch, pack):
    monkeypatch.setattr(formats, "MAX_BYTES", 100_000)
    path = written(tmp_path, pack(b" " * 10_000_000))
    with pytest.raises(FormatError, match="would unpack to more than 100000 bytes"):
        formats.read(path)


def test_an_archive_that_claims_terabytes_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(formats.alphatensor, "_LARGEST", 100)
    with pytest.raises(FormatError, match="would unpack to"):
        formats.read(written(tmp_path, foreign_files.alphatensor(strassen())))


@examples(200)
@given(st.sampled_from(sorted(WRITERS)), st.integers(0, 2**32), st.sampled_from(["cut", "hit", "both"]))
def test_damaged_files_give_clean_refusals_or_exact_schemes(tmp_path_factory, writer, seed, how):
    rng = random.Random(seed)
    data = bytearray(WRITERS[writer](rng.choice([RECTANGLE, strassen(Ring.F2), classical(Format(1, 2, 3))])))
    if how != "cut":
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] = rng.choice([rng.randrange(256), *b"0123456789-/,.[]{}()\n"])
    if how != "hit":
        del data[rng.randrange(len(data)) :]
    path = written(tmp_path_factory.mktemp("damaged"), bytes(data))
    try:
        items = read_all(path)
    except FormatError as error:
        assert str(path) in str(error) and "\n" not in str(error)
        return
    for item in items:
        if isinstance(item, Draft):
            try:
                scheme, convention = read_draft(item)
            except ValueError as error:
                assert "\n" not in str(error) and len(str(error)) < 1000
            else:
                assert is_exact(scheme) and convention
        elif isinstance(item, Flaw):
            assert item.reason and "\n" not in item.reason
