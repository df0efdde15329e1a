"""Damaged results are one sentence that names the file, the row and the value."""

import json
import re
from pathlib import Path

import pytest

from evaluate.report import load
from tests.evaluate.map_rows import row

DOCUMENT = {"created_utc": "2026-01-01T00:00:00+00:00", "device": "NVIDIA H200"}
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
ODD = [
    *((name, None) for name in ("M", "dtype", "rank", "levels", "path", "operands", "plane_dtype", "ratio", "regime")),
    *(("M", "x"), ("M", -1), ("M", True), ("dtype", 5), ("dtype", "fp7"), ("levels", "x"), ("ratio", "x")),
    *(("ratio", float("nan")), ("ratio_low", []), ("ratio_high", 10**400), ("operands", []), ("operands", "none")),
    *(("path", {}), ("format", "x"), ("format", 5), ("options", []), ("options", {"a": []}), ("pairs", None)),
    *(("error_fro", "x"), ("correct", "yes"), ("regime", 5), ("layout", None), ("reference", [])),
]


def kept(folder, **changes):
    path = folder / "x.json"
    path.write_text(json.dumps({**DOCUMENT, "rows": [row(8192, 1.1)], **changes}))
    return path


def test_what_is_shipped_and_what_is_whole_is_read(tmp_path):
    assert load(RESULTS)
    kept(tmp_path)
    assert len(load(tmp_path)) == 1
    untimed = {name: None for name in ("ratio", "ratio_low", "ratio_high", "regime", "seconds")}
    kept(tmp_path, rows=[row(8192, 1.1) | untimed, {"kind": "rate", "engine": "numba"}])
    assert len(load(tmp_path)[0]["rows"]) == 2


@pytest.mark.parametrize(("name", "value"), ODD)
def test_a_field_that_readers_cannot_use_is_named(tmp_path, name, value):
    path = kept(tmp_path, rows=[row(8192, 1.2), row(8192, 1.1) | {name: value}])
    said = re.escape(f"{path} is not a results document (row 2 has {name} ")
    with pytest.raises(ValueError, match=said + r".{0,80}\); remove it or write it again$"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rows": 5}, "its rows 5 are no list"),
        ({"rows": [5]}, "row 1 is no object"),
        ({"rows": [{}]}, "row 1 has path None"),
        ({"device": 5}, "its device 5 is no text"),
        ({"created_utc": None}, "its created_utc None is no text"),
    ],
)
def test_a_document_of_another_kind_is_named(tmp_path, changes, said):
    path = kept(tmp_path, **changes)
    with pytest.raises(ValueError, match=f"{path.name}.*{said}"):
        load(tmp_path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"[]", b"", b"\xff\x00", b"3"])
def test_what_is_no_document_is_named(tmp_path, content):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.json .*remove it or write it again"):
        load(tmp_path)
