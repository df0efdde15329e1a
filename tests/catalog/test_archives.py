"""Archives and arrays that promise something else than they hold: refused before they take memory or time."""

import io
import json
import struct
import tracemalloc
import zipfile

import pytest

from catalog import formats
from catalog.formats import Flaw, FormatError, json_format, read_all
from catalog.known import strassen
from tests.catalog.foreign_files import written
from tests.catalog.test_foreign_refusals import npy

BOMB = 64 << 20


def lying(method, name, stated=100):
    """A small archive of one large member, which says that it has 100 bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, bytes(BOMB))
    data = bytearray(buffer.getvalue())
    for start, at in ((data.find(b"PK\1\2"), 24), (0, 22)):
        data[start + at : start + at + 4] = struct.pack("<I", stated)
    return bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("name", ["2,2,2.npy", "schema_version.npy"])
def test_an_archive_that_lies_about_its_size_takes_no_memory(tmp_path, method, name):
    path = written(tmp_path, lying(method, name))
    tracemalloc.start()
    try:
        (found,) = read_all(path)
        assert isinstance(found, Flaw) and "\n" not in found.reason
    except FormatError as error:
        assert str(path) in str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < BOMB / 4


@pytest.mark.parametrize(
    ("dtype", "shape"), [("<i8", "(10**9, 0)"), ("<u8", "(10**9, 0)"), ("<i4", "(10**9, 3, 4, 0)"), ("<i8", "(0,)")]
)
def test_an_array_of_nothing_is_one_flaw_however_many_schemes_it_promises(tmp_path, dtype, shape):
    (found,) = read_all(written(tmp_path, npy(dtype, shape.replace("10**9", str(10**9)), b"")))
    assert isinstance(found, Flaw) and found.reason == "it holds no numbers"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"denominators": [1 << 63, 1, 1]}, "a denominator has 64 bits, more than the 63"),
        ({"format": "9" * 5000 + "x2x2"}, "is not of the form MxKxN"),
        ({"schema_version": 10**4000}, "upgrade subcubic"),
    ],
)
def test_numbers_beyond_all_reason_are_named_in_a_short_sentence(tmp_path, change, said):
    document = json.loads(json_format.dumps(strassen())) | {"ring": "Q"} | change
    with pytest.raises(FormatError, match=said) as caught:
        formats.read(written(tmp_path, json.dumps(document).encode()))
    assert len(str(caught.value)) < 400 + len(str(tmp_path))
