"""Every public format, in files that the tests write: what is read is the scheme that was written."""

import io
import json

import numpy as np
import pytest
from hypothesis import given

from catalog import formats
from catalog.canonical import digest
from catalog.formats import Flaw, FormatError, read_all, read_draft
from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring, Scheme
from catalog.transform import concatenate, extend
from catalog.verify import NotExactError, is_exact
from tests.catalog import foreign_files
from tests.catalog.catalog_examples import SMALL, corrupted, exact_schemes, unimodular
from tests.catalog.foreign_files import DYADIC, EXACT, RECTANGLE, WRITERS, only, written
from tests.fuzzing import examples

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
