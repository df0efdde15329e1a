"""What the GPU tests need is built once, found again by every process, and told about as it is made."""

import functools
import pickle
import re
from pathlib import Path

import pytest

from catalog.files import cache_folder
from tests import prebuild


@prebuild.kept
def made(name: str, text: str) -> Path:
    place = cache_folder() / name
    with open(place, "a") as file:
        file.write(text)
    return place


@prebuild.kept
def refused(name: str) -> Path:
    raise ValueError(f"there is no {name}")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path))
    return tmp_path


def test_a_file_is_made_once_and_again_when_it_is_gone():
    assert made("one", "a") == made("one", "a")
    assert made("one", "a").read_text() == "a"
    assert made("one", "b").read_text() == "ab"  # other arguments, another build
    made("one", "a").unlink()
    assert made("one", "a").read_text() == "a"


def test_what_was_kept_is_forgotten_when_a_source_changes(monkeypatch):
    made("one", "a")
    monkeypatch.setattr(prebuild, "fingerprint", lambda: "another")
    assert made("one", "a").read_text() == "aa"


def test_a_torn_record_is_made_anew(cache):
    made("one", "a")
    for record in cache.rglob("*.pickle"):
        record.write_bytes(b"")
    assert made("one", "a").read_text() == "aa"


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_build_for_all_and_name_what_fails(cache, capfd, workers):
    builds = [prebuild.Build(made, f"file{i}", "x") for i in range(5)] + [prebuild.Build(refused, "such thing")]
    failed = prebuild.prebuild(builds, workers)
    assert failed == ["test_prebuild.refused: such thing: ValueError: there is no such thing"]
    assert [made(f"file{i}", "x").read_text() for i in range(5)] == ["x"] * 5  # found, not made again
    said = capfd.readouterr().out
    assert "FAILED test_prebuild.refused" in said and "prebuild: 6 in" in said and f"by {workers} processes" in said


@pytest.mark.parametrize("arch", ["sm_90", "sm_80"])
def test_the_builds_of_the_gpu_tests_can_be_sent_to_processes(arch):
    builds = prebuild.wanted(arch)
    names = list(map(prebuild.label, builds))
    assert len(builds) > 150 and len(set(names)) == len(names)
    for build in builds:
        sent = pickle.loads(pickle.dumps(build))
        assert isinstance(sent, functools.partial) and sent.func is build.func and arch in sent.args
    assert len(prebuild.wanted(arch, "winograd2")) < len(builds)


def test_no_gpu_test_builds_on_its_own():
    """Compiling in a test means doing it while the GPU waits, and once in every process."""
    tests = Path(__file__).parent
    building = re.compile(r"\b(build_cuda|build_fused|build_library)\(|tests\.evaluate\.fused_gpu")
    found = {
        "tests." + path.relative_to(tests).with_suffix("").as_posix().replace("/", ".")
        for path in tests.rglob("test_*.py")
        if "pytest.mark.gpu" in path.read_text() and building.search(path.read_text())
    }
    assert found - {__name__} == set(prebuild.MODULES)


def test_the_command_needs_a_gpu_or_an_architecture(monkeypatch, capsys):
    monkeypatch.setattr(prebuild, "usable_gpu", lambda: None)
    with pytest.raises(SystemExit) as left:
        prebuild.main([])
    assert left.value.code == 2 and "--arch sm_90" in capsys.readouterr().err
    assert prebuild.main(["--arch", "sm_90", "--list", "--only", "trivial"]) == 0
    assert "trivial" in capsys.readouterr().out
