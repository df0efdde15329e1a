"""A pickle is read as data: what it names is never called, whatever it is, and what it claims is never allocated."""

import io
import os
import pickle
import resource
import struct
import sys
import zipfile

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from catalog import formats
from catalog.formats.pickled import loads
from tests.fuzzing import examples


def objects(*items):
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_arrays_of_arrays_and_of_numbers(protocol):
    parts = (np.arange(6).reshape(2, 3), np.array([[0.5]], dtype=">f4"), np.asfortranarray(np.ones((2, 3), np.int8)))
    found = loads(pickle.dumps(objects(*parts), protocol))
    assert len(found) == 3
    for part, read in zip(parts, found, strict=True):
        assert np.array_equal(part, read) and part.dtype == read.dtype
    assert loads(pickle.dumps(objects(1, -(1 << 80), 2.5, np.int64(3), np.float32(0.5), (1, [2])), protocol)) == [
        1, -(1 << 80), 2.5, 3, 0.5, [1, [2]],
    ]  # fmt: skip
    cube = np.empty((2, 1, 2), dtype=object)
    cube[:] = [[[1, 2]], [[3, 4]]]
    assert loads(pickle.dumps(cube, protocol)) == [[[1, 2]], [[3, 4]]]


class Calls:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "trap",
    [
        Calls(os.system, "touch called"),
        Calls(eval, "open('called', 'w')"),
        Calls(exec, "open('called', 'w')"),
        Calls(open, "called", "w"),
        Calls(getattr, os, "system"),
        Calls(np.load, "called"),
        Calls(np.fromfile, "called"),
        Calls(np.ndarray, (1 << 40,)),
        Calls(bytearray, 1 << 40),
        Calls(__import__, "antigravity"),
        {"a": 1},
        {1, 2},
        bytearray(8),
        np.random.default_rng(1),
        np.dtype("i8"),
        object,
        "text",
        b"bytes",
    ],
    ids=lambda trap: type(trap).__name__ if not isinstance(trap, Calls) else trap.call[0].__name__,
)
def test_nothing_is_called_or_made(tmp_path, monkeypatch, trap, protocol):
    monkeypatch.chdir(tmp_path)
    for value in (trap, [trap], objects(trap, 1, 2)):
        try:
            data = pickle.dumps(value, protocol)
        except (TypeError, pickle.PicklingError):
            continue  # a module has no pickle
        with pytest.raises(ValueError, match="its pickle"):
            loads(data)
    assert not list(tmp_path.iterdir())


def test_a_trap_in_an_archive_is_refused_by_key(tmp_path):
    path = tmp_path / "trap.npz"
    np.savez(path, allow_pickle=True, **{"2,2,2": objects(Calls(os.system, f"touch {tmp_path / 'called'}"), 1, 2)})
    with pytest.raises(formats.FormatError, match=r"its pickle names '(posix|nt)\.system'"):
        formats.read(path)
    assert not (tmp_path / "called").exists()


def op(name, payload=b""):
    return {"bytes8": b"\x8e", "list": b"]", "put": b"r", "array8": b"\x96", "long4": b"\x8b", "stop": b"."}[
        name
    ] + payload


@pytest.mark.parametrize(
    "body",
    [
        op("bytes8", struct.pack("<Q", 1 << 50)) + op("stop"),
        op("array8", struct.pack("<Q", 1 << 50)) + op("stop"),
        op("long4", struct.pack("<I", (1 << 31) - 1)) + op("stop"),
        op("list") + op("put", struct.pack("<I", (1 << 32) - 1)) + op("stop"),
        b"]" + b"q\x00h\x00h\x00\x86q\x00" + b"h\x00h\x00\x86q\x00" * 60 + b".",  # doubles at every step
        b"]" * 100_000 + b"a" * 99_999 + b".",
        b"]q\x00h\x00a.",  # holds itself
        b"(" * 1000,
        b"t.",
        b"\x85.",
        b"R.",
        b"b.",
        b"0.",
        b"",
        b".",
        b"h\x07.",
        b"N.\x00\x00",
    ],
)
def test_bombs_take_no_memory(body):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        assert loads(b"\x80\x04" + body) in (None, [])  # no arrays, which those who asked for them refuse
    except ValueError as error:
        assert len(str(error)) < 200
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000, "kB of memory"


@pytest.mark.parametrize("shape", [(1 << 40,), (-1,), ("x",), (1, 2), (1,) * 40, (1 << 20, 1 << 20)])
@pytest.mark.parametrize("raw", [b"\0" * 8, [1]])
def test_arrays_whose_shape_does_not_fit_are_refused(shape, raw):
    def forged(kind):
        class Forged:
            def __reduce__(self):
                dtype = np.dtype(kind)
                return np._core.multiarray._reconstruct, (np.ndarray, (0,), b"b"), (1, shape, dtype, False, raw)

        return pickle.dumps(Forged(), 3)

    with pytest.raises(ValueError):
        loads(forged("i8" if isinstance(raw, bytes) else "O"))


@examples(200)
@example(junk=b"S'\\u'\n.", position=3, byte=92)
@given(st.binary(max_size=60), st.integers(0, 400), st.integers(0, 255))
def test_random_and_damaged_pickles_raise_value_errors_alone(junk, position, byte):
    data = bytearray(pickle.dumps(objects(np.eye(2), np.int8(1), [2]), 3))
    data[position % len(data)] = byte
    for attempt in (junk, bytes(data), bytes(data[:position])):
        try:
            loads(attempt)
        except ValueError as error:
            assert len(str(error)) < 400


def test_numpy_itself_is_never_asked_to_unpickle(tmp_path, monkeypatch):
    monkeypatch.setattr(pickle, "loads", None)
    monkeypatch.setattr(pickle, "load", None)
    monkeypatch.setattr(pickle, "Unpickler", None)
    monkeypatch.setattr(np.lib.format, "read_array", None)
    buffer = io.BytesIO()
    rows = [[1, 0]], [[1], [0]], [[1, 0]]
    with zipfile.ZipFile(buffer, "w") as archive:
        array = io.BytesIO()
        np.save(array, objects(*map(np.array, rows)), allow_pickle=True)
        archive.writestr("x.npy", array.getvalue())
    (tmp_path / "x.npz").write_bytes(buffer.getvalue())
    (item,) = formats.read_all(tmp_path / "x.npz")
    assert [factor.tolist() for factor in item.factors] == list(rows)
    assert "antigravity" not in sys.modules
