import os
import time

import pytest

from catalog.files import cache_folder
from codegen import cache
from codegen.build import build_c
from codegen.cache import MIN_AGE_S, publish, trim


def test_cache_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path / "cache"))
    assert cache_folder() == tmp_path / "cache"
    monkeypatch.delenv("SUBCUBIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "subcubic"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "subcubic"


def put(folder, name, size, days):
    path = folder / name
    path.write_bytes(b"x" * size)
    age(path, days)
    return path


def age(path, days):
    then = time.time() - days * MIN_AGE_S
    os.utime(path, (then, then))


def test_the_oldest_files_beyond_the_bound_go_and_young_or_foreign_ones_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "MAX_BYTES", 1000)
    young = [put(tmp_path, f"{i:032x}.so", 400, 0.5) for i in range(3)]
    foreign = put(tmp_path, "thesis.tex", 5000, 90)
    trim(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([*young, foreign])  # over the bound, but too young to go
    for days, path in zip((2, 3, 4), young, strict=True):
        age(path, days)
    trim(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([*young[:2], foreign])
    left, recent = tmp_path / "build-killed", tmp_path / "build-running"
    for folder, days in ((left, 2), (recent, 0)):
        folder.mkdir()
        (folder / "source.c").write_text("int x;")
        age(folder, days)
    trim(tmp_path)
    assert not left.exists() and recent.exists()


def test_a_file_that_is_asked_for_stays_young(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "MAX_BYTES", 0)
    text = "int answer(void) { return 41; }"
    used, forgotten = build_c(text), build_c(text + "\n")
    for path in tmp_path.iterdir():
        age(path, 2)
    assert build_c(text) == used
    trim(tmp_path)
    assert used.exists() and not forgotten.exists()


def test_a_file_that_cannot_be_made_durable_is_not_published(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    made = tmp_path / "made"
    made.write_text("x")
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        publish(made, tmp_path / "place")
    assert not (tmp_path / "place").exists()
