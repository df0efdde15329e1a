"""Damaged and hostile files of every public format: refused in one sentence, or read as what is exact."""

import bz2
import gzip
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import formats
from catalog.formats import Draft, Flaw, FormatError, UnknownFormatError, archive, read_all, read_draft
from catalog.known import classical, strassen
from catalog.scheme import Format, Ring
from catalog.verify import is_exact
from tests.catalog import foreign_files
from tests.catalog.foreign_files import RECTANGLE, WRITERS, written
from tests.fuzzing import examples

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
    (gzip.compress(b"nothing", mtime=0), "not a scheme file"),
    (gzip.compress(b"x" * 1000, mtime=0)[:-9], "cannot be unpacked"),
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
    monkeypatch.setattr(archive, "LARGEST", 100)
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
