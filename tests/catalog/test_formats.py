import io
import json
import random
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog import formats
from catalog.canonical import digest
from catalog.files import TEMPORARY_PREFIX
from catalog.formats import FormatError, archive, npz_format
from catalog.known import strassen, winograd
from catalog.verify import NotExactError, require_exact
from tests.catalog.catalog_examples import SMALL, corrupted, exact_schemes, same
from tests.fuzzing import examples


@examples(SMALL)
@given(exact_schemes(), st.sampled_from(["json", "npz"]))
def test_round_trip_over_every_ring(tmp_path_factory, scheme, kind):
    path = tmp_path_factory.mktemp("formats") / "file.anything"
    assert formats.write(scheme, path, kind) == path
    assert same(formats.read(path), scheme)


def test_kind_is_told_by_suffix_and_by_content(tmp_path):
    formats.write(strassen(), tmp_path / "a.NPZ")
    assert zipfile.is_zipfile(tmp_path / "a.NPZ")
    formats.write(strassen(), tmp_path / "a.json")
    (tmp_path / "a.json").rename(tmp_path / "b.npz")
    assert same(formats.read(tmp_path / "b.npz"), strassen())
    for name in ("a", "a.txt"):
        with pytest.raises(FormatError, match="use json or npz"):
            formats.write(strassen(), tmp_path / name)


def test_json_explains_itself(tmp_path):
    document = json.loads(formats.write(winograd(), tmp_path / "w.json").read_text())
    assert document["id"] == digest(winograd())
    assert (document["format"], document["ring"], document["rank"]) == ("2x2x2", "Z", 7)
    assert document["denominators"] == [1, 1, 1] and "C not transposed" in document["convention"]
    assert np.array_equal(document["U"], winograd().U)


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_one_wrong_coefficient_parses_and_is_then_refused(tmp_path, kind):
    path = formats.write(corrupted(strassen(), 1, 2, 3), tmp_path / f"wrong.{kind}")
    with pytest.raises(NotExactError, match="the coefficient of"):
        require_exact(formats.read(path))


BAD_JSON = [
    ({"schema_version": 2}, "schema_version 2 and this version reads 1; upgrade"),
    ({"schema_version": "1"}, "schema_version '1' is not a positive integer"),
    ({"schema_version": True}, "schema_version True is not"),
    ({"format": "2x2"}, "not of the form MxKxN"),
    ({"format": 222}, "format must be text"),
    ({"format": "2x2x3"}, r"V of a 2x2x3 scheme must have shape \(6, 7\)"),
    ({"ring": "R"}, "is not a valid Ring"),
    ({"ring": ["Z"]}, "is not a valid Ring"),
    ({"rank": 8}, "U has a row of 7 entries and the rank is 8"),
    ({"rank": "7"}, "rank must be an integer"),
    ({"rank": 10**40}, "and the rank is"),
    ({"denominators": [1, 1]}, "three positive integers"),
    ({"denominators": [1, 1, 0.5]}, "list of integers"),
    ({"denominators": [2, 1, 1]}, "need ring Q"),
    ({"U": 1}, "U must be a list of lists"),
    ({"U": [[1] * 7, 2, 3, 4]}, "U must be a list of lists"),
    ({"U": []}, r"U of a 2x2x2 scheme must have shape \(4, 7\)"),
    ({"V": [[1.0] * 7] * 4}, "V holds 1.0, which is no integer"),
    ({"V": [[True] * 7] * 4}, "V holds True, which is no integer"),
    ({"V": [["1"] * 7] * 4}, "V holds '1', which is no integer"),
    ({"W": [[1 << 63] * 7] * 4}, "W holds 9223372036854775808, which is no integer of 64 bits"),
    ({"W": [[10**4000] * 7] * 4}, "W holds an integer of 13288 bits"),
]


@pytest.mark.parametrize(("change", "message"), BAD_JSON)
def test_bad_json_is_refused_in_one_sentence(tmp_path, change, message):
    path = formats.write(strassen(), tmp_path / "bad.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=message) as caught:
        formats.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value) and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        "7",
        '{"schema_version": 1}',
        "{" * 5000,
        '{"a":' + "[" * 100000,
        "\x00\x01",
        "PK\x03\x04",
    ],
)
def test_what_is_no_scheme_file_is_refused(tmp_path, text):
    path = tmp_path / "file"
    path.write_text(text)
    with pytest.raises(FormatError, match=str(path)) as caught:
        formats.read(path)
    assert "\n" not in str(caught.value)


def test_a_number_too_long_for_python_is_refused(tmp_path):
    path = formats.write(strassen(), tmp_path / "long.json")
    path.write_text(path.read_text().replace('"rank": 7', f'"rank": {"7" * 5000}'))
    with pytest.raises(FormatError, match="not a valid scheme file"):
        formats.read(path)


@pytest.mark.parametrize("kind", ["json", "npz"])
def test_truncated_files_are_refused(tmp_path, kind):
    path = formats.write(strassen(), tmp_path / f"cut.{kind}")
    data = path.read_bytes()
    for size in range(0, len(data) - 2, 29):
        path.write_bytes(data[:size])
        with pytest.raises(FormatError, match=str(path)):
            formats.read(path)


def test_random_damage_never_escapes_as_another_error(tmp_path):
    rng = random.Random(5)
    for kind in ("json", "npz"):
        path = formats.write(strassen(), tmp_path / f"hit.{kind}")
        data = path.read_bytes()
        for _ in range(150):
            changed = bytearray(data)
            for _ in range(rng.randint(1, 3)):
                changed[rng.randrange(len(data))] = rng.randrange(256)
            path.write_bytes(changed)
            try:
                formats.read(path)
            except FormatError as error:
                assert str(path) in str(error) and "\n" not in str(error)


def arrays_of(scheme):
    with np.load(io.BytesIO(npz_format.dumps(scheme)), allow_pickle=False) as loaded:
        return dict(loaded)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": np.int64(9)}, "schema_version 9 and this version reads 1; upgrade"),
        ({"schema_version": np.zeros(2, int)}, "schema_version must hold 1 integer"),
        ({"format": np.array([2, 2])}, "format must hold 3 integers"),
        ({"format": np.array([2, 2, 99])}, "sizes must lie in 1..64"),
        ({"ring": np.array(3)}, "ring must be one text"),
        ({"ring": np.array("R")}, "is not a valid Ring"),
        ({"denominators": np.array([1, 1, -1])}, "three positive integers"),
        ({"U": np.ones((4, 7))}, "U must hold integers, not float64"),
        ({"U": np.ones(7, dtype=int)}, "U must be a matrix"),
        ({"V": np.ones((4, 6), dtype=int)}, r"V of a 2x2x2 scheme must have shape \(4, 7\)"),
        ({"W": np.full((4, 7), 1 << 63, dtype=np.uint64)}, "fit in 64 bits"),
        ({"W": np.full((4, 7), None)}, "is not a valid scheme file"),
    ],
)
def test_bad_npz_is_refused_in_one_sentence(tmp_path, change, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **(arrays_of(strassen()) | change))
    with pytest.raises(FormatError, match=message) as caught:
        formats.read(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_npz_never_unpickles(tmp_path):
    class Trap:
        def __reduce__(self):
            return (print, ("unpickled",))

    path = tmp_path / "trap.npz"
    np.savez(path, **(arrays_of(strassen()) | {"U": np.array([Trap()], dtype=object)}), allow_pickle=True)
    with pytest.raises(FormatError, match="not a valid scheme file"):
        formats.read(path)


def test_a_decompression_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 1000)
    path = formats.write(strassen(), tmp_path / "bomb.npz")
    with pytest.raises(FormatError, match="would unpack to"):
        formats.read(path)


def test_unreadable_and_unwritable_places(tmp_path):
    with pytest.raises(FormatError, match="cannot read .*no such file"):
        formats.read(tmp_path / "nowhere.json")
    with pytest.raises(FormatError, match="cannot read .*is a directory"):
        formats.read(tmp_path)
    with pytest.raises(FormatError, match="cannot write .*no such file"):
        formats.write(strassen(), tmp_path / "no" / "a.json")
    (tmp_path / "there.json").mkdir()
    with pytest.raises(FormatError, match="cannot write .*directory"):
        formats.write(strassen(), tmp_path / "there.json")
    assert not list(tmp_path.rglob(f"{TEMPORARY_PREFIX}*"))
