import ctypes
import os
import pickle
import shutil
import stat
import subprocess
import sys

import pytest

from catalog.files import cache_folder
from codegen import build
from codegen.build import BuildError, MissingCompilerError, Usage, build_c, build_cuda, compiler, resource_usage

TEXT = "int answer(void) { return 42; }"


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SUBCUBIC_CACHE", str(tmp_path / "cache"))


def test_a_built_library_works_and_the_second_build_is_a_cache_hit():
    first = build_c(TEXT)
    assert ctypes.CDLL(str(first)).answer() == 42
    before = first.stat().st_ino
    assert build_c(TEXT) == first and first.stat().st_ino == before
    assert build_c(TEXT + "\n") != first
    assert build_c(TEXT, flags=("-DX",)) != first
    assert sorted(p.suffix for p in first.parent.iterdir()) == [".log"] * 3 + [".so"] * 3


@pytest.mark.parametrize("suffix", [".so", ".log"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"\x8f" * len(data), lambda _: b""]
)
def test_a_damaged_file_is_built_anew(suffix, damage):
    built = build_c(TEXT)
    victim = built.with_suffix(suffix)
    victim.write_bytes(damage(victim.read_bytes()))
    assert build_c(TEXT) == built
    # In a process of its own, which loading a damaged library would end.
    code = f"import ctypes; print(ctypes.CDLL({str(built)!r}).answer())"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "42\n"


def test_the_compilers_version_is_part_of_the_key(tmp_path, monkeypatch):
    # A compiler that claims another version but does the same.
    fake = tmp_path / "gcc"
    fake.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo other && exit\nexec {shutil.which("gcc")} "$@"\n')
    fake.chmod(fake.stat().st_mode | stat.S_IXUSR)
    real = build_c(TEXT)
    monkeypatch.setenv("CC", str(fake))
    assert build_c(TEXT).name != real.name


def test_the_variable_may_hold_a_command_with_arguments(tmp_path, monkeypatch):
    wrapper = tmp_path / "wrapper"
    wrapper.write_text('#!/bin/sh\necho wrapped >> "$0.log"\nexec "$@"\n')
    wrapper.chmod(wrapper.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("CC", f"{wrapper} gcc")
    assert compiler("gcc") == f"{wrapper} gcc"
    assert ctypes.CDLL(str(build_c(TEXT))).answer() == 42
    assert (tmp_path / "wrapper.log").read_text().startswith("wrapped\n")
    with pytest.raises(BuildError, match="^wrapper gcc could not compile the text: source.c:1.*error: "):
        build_c("int answer(void) { return }")


def test_the_compiler_is_looked_up_where_the_variables_say(tmp_path, monkeypatch):
    for variable in ("CC", "NVCC", "CUDA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    assert compiler("gcc") == shutil.which("gcc")
    tool = tmp_path / "bin" / "nvcc"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert compiler("nvcc") == str(tool)
    monkeypatch.setenv("NVCC", str(tmp_path / "none"))
    with pytest.raises(MissingCompilerError, match=r"none was not found; install .*\$NVCC"):
        compiler("nvcc")


def test_a_compiler_that_hangs_is_one_sentence(tmp_path, monkeypatch):
    slow = tmp_path / "slow"
    slow.write_text('#!/bin/sh\n[ "$1" = -march=native ] || [ "$1" = --version ] || exec sleep 60\n')
    slow.chmod(0o755)
    monkeypatch.setenv("CC", str(slow))
    monkeypatch.setattr(build, "_TIMEOUT", 0.5)
    with pytest.raises(BuildError, match="^slow could not compile the text: it took longer than 0.5 s$"):
        build_c(TEXT)
    assert list(cache_folder().iterdir()) == []


def test_two_builders_at_once_end_with_one_whole_file(tmp_path):
    code = f"from codegen.build import build_c; print(build_c({TEXT!r}))"
    jobs = [
        subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=os.environ | _path())
        for _ in range(2)
    ]
    paths = {job.communicate(timeout=120)[0].strip() for job in jobs}
    assert len(paths) == 1 and all(job.returncode == 0 for job in jobs)
    assert ctypes.CDLL(paths.pop()).answer() == 42
    assert not list(cache_folder().glob("build-*"))


def _path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))}


def test_compile_errors_are_reported_and_leave_nothing():
    with pytest.raises(BuildError, match="^gcc could not compile the text: source.c:1.*error: .*$") as caught:
        build_c("int answer(void) { return }")
    assert "int answer(void) { return }" in caught.value.log
    again = pickle.loads(pickle.dumps(caught.value))  # as from a process that builds
    assert (str(again), again.log) == (str(caught.value), caught.value.log)
    assert list(cache_folder().iterdir()) == []


@pytest.mark.parametrize("name", ["gcc", "nvcc"])
def test_a_missing_compiler_is_one_sentence(name, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("CUDA_HOME", "/nonexistent")
    for variable in ("CC", "NVCC"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(MissingCompilerError, match=rf"^{name} was not found; install .*\$\w+ to its path$"):
        build_c(TEXT) if name == "gcc" else build_cuda(TEXT)


def test_a_missing_host_compiler_of_nvcc_is_one_sentence(tmp_path, monkeypatch):
    said = "gcc: No such file or directory\nnvcc fatal   : Failed to preprocess host compiler properties."
    alone = tmp_path / "nvcc"
    alone.write_text(f'#!/bin/sh\ncase $1 in --*) exit 0;; esac\necho "{said}" >&2\nexit 1\n')
    alone.chmod(0o755)
    monkeypatch.setenv("NVCC", str(alone))
    with pytest.raises(
        MissingCompilerError, match=r"^nvcc found no working C\+\+ compiler .*install g\+\+.*NVCC_CCBIN$"
    ):
        build_cuda("int answer;")
    assert list(cache_folder().iterdir()) == []


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="'hopper' is not of the form sm_90"):
        build_cuda(TEXT, arch="hopper")
    with pytest.raises(ValueError, match="unknown kind 'archive'"):
        build_cuda(TEXT, kind="archive")  # type: ignore[arg-type]


def test_resource_report_is_read_per_kernel():
    log = """\
ptxas info    : Compiling entry function 'first' for 'sm_90'
ptxas info    : Function properties for first
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 255 registers, used 0 barriers, 8 bytes cumulative stack size
ptxas info    : Compiling entry function 'second' for 'sm_90'
ptxas info    : Function properties for second
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers
"""
    assert resource_usage(log) == [Usage("first", 255, 12, 16), Usage("second", 32, 0, 0)]
    assert build.resource_usage("") == []
