"""Arrays, JSON and sparse matrices of other projects: what is written is exact when read by the published layout."""

import io
import json
import os
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from catalog.formats.draft import Draft
from catalog.formats.factors import factor_of
from catalog.formats.foreign_writers import (
    alphatensor_npz,
    flip_cpd_npy,
    flip_cpd_text,
    perminov_json,
    plinopt_sms,
)
from catalog.known import classical, strassen
from catalog.scheme import Format, Ring, Scheme
from tests.catalog.catalog_examples import SMALL, exact_schemes
from tests.catalog.text_examples import readings, same_terms
from tests.fuzzing import examples

F2, F3, Z, Q = Ring.F2, Ring.F3, Ring.Z, Ring.Q
DATA = os.environ.get("SUBCUBIC_TEST_DATA")
real = pytest.mark.skipif(not DATA, reason="the public files are found through $SUBCUBIC_TEST_DATA")
EMPTY = Scheme((1, 1, 1), Z, [[0, 1]], [[1, 1]], [[1, 1]])


def exact(rows) -> tuple[np.ndarray, int]:
    return factor_of([[Fraction(entry) for entry in row] for row in rows])


def drafted(factors, sizes=None) -> Draft:
    return Draft("", tuple(f for f, _ in factors), tuple(d for _, d in factors), sizes)


def read_sms(data: bytes) -> tuple[np.ndarray, int]:
    rows = [line.split() for line in data.decode().splitlines() if line and not line.startswith("#")]
    matrix = [[Fraction(0)] * int(rows[0][1]) for _ in range(int(rows[0][0]))]
    assert rows[0][2] == "R" and rows[-1] == ["0", "0", "0"]
    for i, j, value in rows[1:-1]:
        matrix[int(i) - 1][int(j) - 1] = Fraction(value)
    return factor_of(matrix)


def read_pairs(array: np.ndarray, d: int) -> Draft:
    blocks = array.reshape(3, -1, d, 2)
    return drafted([exact([[Fraction(*pair) for pair in row] for row in block.tolist()]) for block in blocks])


def transposed(draft: Draft) -> Draft:
    return Draft("", tuple(f.T for f in draft.factors), draft.denominators, draft.sizes)


@examples(SMALL)
@given(scheme=exact_schemes((F2, Z, Q)))
def test_alphatensor_archives(scheme):
    try:
        data = alphatensor_npz(scheme)
    except ValueError as error:
        assert scheme.denominator > 1 and "float64" in str(error)
        return
    square = len({factor.shape for factor in scheme.factors}) == 1
    with np.load(io.BytesIO(data), allow_pickle=not square) as archive:
        (name,) = archive
        draft = drafted([exact(mat.tolist()) for mat in archive[name]], tuple(map(int, name.split(","))))
    assert same_terms(readings(draft, scheme.ring)["transposed"], scheme)


def test_alphatensor_fractions_are_exact_or_refused():
    half = Scheme((1, 1, 1), Q, [[1]], [[4]], [[1]], denominators=(2, 1, 2))
    with np.load(io.BytesIO(alphatensor_npz(half))) as archive:
        assert archive["1,1,1"].ravel().tolist() == [0.5, 4.0, 0.5]
    third = Scheme((1, 1, 1), Q, [[1]], [[3]], [[1]], denominators=(3, 1, 1))
    with pytest.raises(ValueError, match=r"not exact with denominators \(3, 1, 1\)"):
        alphatensor_npz(third)


@examples(SMALL)
@given(scheme=exact_schemes((F2, Z, Q)))
def test_perminov_documents(scheme):
    document = json.loads(perminov_json(scheme))
    assert document["n"] == list(scheme.format) and document["m"] == scheme.rank
    assert document["z2"] is (scheme.ring is F2)
    draft = transposed(drafted([exact(document[name]) for name in "uvw"], tuple(document["n"])))
    assert same_terms(readings(draft, scheme.ring)["transposed"], scheme)


@examples(SMALL)
@given(scheme=exact_schemes((Z, Q)))
def test_flip_cpd_arrays(scheme):
    if len(set(scheme.format)) > 1:
        with pytest.raises(ValueError, match="square formats only"):
            flip_cpd_npy(scheme)
        return
    array = np.load(io.BytesIO(flip_cpd_npy(scheme)))
    d = scheme.m**2
    assert array.shape == (1, 6 * d * scheme.rank) and array.dtype == np.int64
    pairs = array.reshape(-1, 2)
    assert np.all(pairs[:, 1] > 0) and np.all(np.gcd(*pairs.T) == 1)
    assert same_terms(readings(transposed(read_pairs(array, d)), scheme.ring)["row"], scheme)


@examples(SMALL)
@given(scheme=exact_schemes((Z, Q)))
def test_plinopt_triples(scheme):
    left, right, post = map(read_sms, plinopt_sms(scheme))
    draft = drafted([(left[0].T, left[1]), (right[0].T, right[1]), post], tuple(scheme.format))
    assert same_terms(readings(draft, scheme.ring)["row"], scheme)


def test_flip_cpd_text():
    scheme = Scheme((1, 1, 2), Q, [[1, -3]], [[2, 0], [-1, 4]], [[1, -1], [0, 5]], denominators=(2, 1, 3))
    assert flip_cpd_text(scheme).decode() == (
        "m1 = (1/2a1)(2b1 - b2)\nm2 = (-3/2a1)(4b2)\n\nc1 = 1/3m1 - 1/3m2\nc2 = 5/3m2\n"
    )
    with pytest.raises(ValueError, match="zero"):
        flip_cpd_text(EMPTY)


@pytest.mark.parametrize("write", [alphatensor_npz, perminov_json, flip_cpd_npy, flip_cpd_text, plinopt_sms])
def test_rings_that_a_format_cannot_say_are_refused(write):
    with pytest.raises(ValueError, match="cannot hold a scheme over F3"):
        write(strassen(F3))


@real
def test_public_files_have_the_layout_that_is_written():
    folder = Path(DATA or "") / "schemes"
    array = np.load(folder / "flip_cpd/gg-222-rank7-rec-0-0-0-z.npy")
    scheme = readings(transposed(read_pairs(array, 4)))["row"]
    assert np.array_equal(np.load(io.BytesIO(flip_cpd_npy(scheme))), array)
    assert flip_cpd_text(scheme) == (folder / "flip_cpd/gg-222-rank7-rec-0-0-0-z.txt").read_bytes()
    left, right, post = (read_sms((folder / f"plinopt/4x4x4_48_rational_{x}.sms").read_bytes()) for x in "LRP")
    scheme = readings(drafted([(left[0].T, left[1]), (right[0].T, right[1]), post]))["row"]
    for data, name in zip(plinopt_sms(scheme), "LRP", strict=True):
        published = (folder / f"plinopt/4x4x4_48_rational_{name}.sms").read_text().split()
        assert data.decode().split(" R\n", 1)[1].split() == published[published.index("R") + 1 :]
    document = json.loads((folder / "perminov/2x4x9_m58_Q.json").read_bytes())
    draft = transposed(drafted([exact(document[name]) for name in "uvw"], tuple(document["n"])))
    again = json.loads(perminov_json(readings(draft)["transposed"]))
    assert {key: document[key] for key in again} == again


@real
def test_alphatensor_files_have_the_layout_that_is_written():
    path = Path(DATA or "") / "schemes/alphatensor/factorizations_f2.npz"
    with np.load(path, allow_pickle=True) as archive:
        for name in ("2,2,2", "2,3,4"):
            stored = archive[name]
            draft = drafted([exact(mat.tolist()) for mat in stored], tuple(map(int, name.split(","))))
            data = alphatensor_npz(readings(draft, F2)["transposed"])
            with np.load(io.BytesIO(data), allow_pickle=True) as again:
                assert again[name].dtype == stored.dtype and again[name].shape == stored.shape
                assert all(np.array_equal(x, y) for x, y in zip(again[name], stored, strict=True))


def test_schemes_of_rectangles_need_objects():
    data = alphatensor_npz(classical(Format(1, 2, 3), Z))
    with np.load(io.BytesIO(data), allow_pickle=True) as archive:
        assert [mat.shape for mat in archive["1,2,3"]] == [(2, 6), (6, 6), (3, 6)]
