"""Times by NVBench: what its process runs, and how its report is read."""

import json
import pickle
import sys
from contextlib import contextmanager, nullcontext
from types import ModuleType, SimpleNamespace

import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate import nvbench
from evaluate.apart import Ended
from evaluate.cases import Case, Settings
from evaluate.kernel import Built
from evaluate.variants import Variant

CASE = Case(plan(winograd()), (64, 64, 64), Variant("bf16", "fused", "variable", "bf16", "fp32"), Settings())


def state(**figures):
    """As NVBench writes it: numbers are text."""
    tags = {"median": "cold/time/gpu/median", "mean": "cold/time/gpu/mean", "batch": "batch/time/gpu/mean"}
    summaries = [
        {"tag": f"nv/{tags[key]}", "data": [{"name": "value", "type": "float64", "value": str(value)}]}
        for key, value in figures.items()
    ]
    summaries.append({"tag": "nv/cold/sample_size", "data": [{"name": "value", "type": "int64", "value": "21"}]})
    summaries.append({"tag": "nv/json/bin:x", "data": [{"name": "filename", "type": "string", "value": "x"}]})
    return {"is_skipped": False, "skip_reason": None, "summaries": summaries}


def report(ours, baseline):
    return {"benchmarks": [{"name": "ours", "states": [ours]}, {"name": "baseline", "states": [baseline]}]}


def test_a_report_is_read_by_its_tags():
    found = nvbench.parse(report(state(median=2e-3, mean=3e-3, batch=1e-3), state(mean=4e-3)))
    assert (found["nvbench"]["seconds"], found["nvbench"]["batch_seconds"]) == (2e-3, 1e-3)
    assert repr(found["nvbench"]["samples"]) == "21" and found["nvbench"]["clock_hz"] is None
    assert found["baseline_nvbench"]["seconds"] == 4e-3  # an older one has no median


def test_what_was_not_timed_says_why():
    skipped = {"is_skipped": True, "skip_reason": "too hot", "summaries": None}
    found = nvbench.parse(report(skipped, state(mean=1.0)))
    assert "too hot" in found["nvbench"]["reason"] and found["baseline_nvbench"]["seconds"] == 1.0
    assert "did not time" in nvbench.parse({})["nvbench"]["reason"]


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package cuda.bench of which processes find a copy; it has the text of its module."""

    def install(text):
        folder = tmp_path / "cuda" / "bench"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.setattr(nvbench, "release_memory", lambda: None)

    return install


def test_a_process_without_a_device_is_told_in_one_line(package):
    package("def __getattr__(name): raise RuntimeError('no GPU of this kind')")
    found = nvbench.cross_check(CASE, "cublasGemmEx")
    reason = found["nvbench"]["reason"]
    assert reason.startswith("NVBench ended with status 1: ") and "\n" not in reason
    assert found["baseline_nvbench"] == found["nvbench"]


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ('{"benchmarks": [{"name": "ours"}]}', "another form: KeyError 'states'"),
        ('{"benchmarks": [{"name": "ours", "states": 3}]}', "another form: TypeError"),
        ("[]", "another form: AttributeError"),
        ('{"benchmarks": [', "NVBench gave no times"),
    ],
)
def test_a_report_of_another_form_is_told(package, monkeypatch, written, says):
    package("")
    monkeypatch.setattr(nvbench, "apart", lambda *_: Ended(0, "", written))
    assert says in nvbench.cross_check(CASE, "")["nvbench"]["reason"]


def test_a_process_that_cannot_be_started_is_told(package, monkeypatch):
    package("")
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    reason = nvbench.cross_check(CASE, "")["baseline_nvbench"]["reason"]
    assert reason.startswith("NVBench gave no times") and "/no/such/python" in reason


def test_a_missing_package_is_told(monkeypatch):
    monkeypatch.setattr(nvbench.importlib.util, "find_spec", lambda name: None)
    assert "nvbench13" in nvbench.cross_check(CASE, "")["nvbench"]["reason"]


def test_both_arms_are_launched_on_the_stream_of_nvbench(monkeypatch, tmp_path):
    log, registered = [], []

    def register(function):
        registered.append([function, None])
        return SimpleNamespace(set_name=lambda name: registered[-1].__setitem__(1, name))

    def run_all(words):
        for function, name in registered:
            log.append(name)
            stream = SimpleNamespace(addressof=lambda: 77)
            function(
                SimpleNamespace(get_stream=lambda stream=stream: stream, exec=lambda call: (call(None), call(None)))
            )
        (tmp_path / "out").write_text(json.dumps({"words": words[1:]}))

    module, root = ModuleType("cuda.bench"), ModuleType("cuda")
    module.register, module.run_all_benchmarks, root.bench = register, run_all, module
    monkeypatch.setitem(sys.modules, "cuda", root)
    monkeypatch.setitem(sys.modules, "cuda.bench", module)

    @contextmanager
    def opened(*_):
        pair = [("cublasGemmEx", lambda i: log.append(f"gemm {i}")), ("lt", lambda i: log.append(f"lt {i}"))]
        yield SimpleNamespace(ours=lambda i: log.append(f"ours {i}"), baselines=pair)
        log.append("closed")

    def external(pointer):
        log.append(pointer)
        return nullcontext()

    monkeypatch.setattr(nvbench, "open_arms", opened)
    monkeypatch.setattr(nvbench, "build_library", lambda *_: Built(tmp_path, ""))
    monkeypatch.setattr(nvbench, "require_gpu", lambda: None)
    monkeypatch.setattr(nvbench, "array_module", lambda: SimpleNamespace(cuda=SimpleNamespace(ExternalStream=external)))
    (tmp_path / "case").write_bytes(pickle.dumps((CASE, "lt")))
    assert nvbench.main([str(tmp_path / "case"), str(tmp_path / "out")]) == 0
    assert log == [
        *("ours", 77, "ours 0", "ours 0", "ours 1", "closed"),
        *("baseline", 77, "lt 0", "lt 0", "lt 1", "closed"),
    ]
    assert str(tmp_path / "out") in json.loads((tmp_path / "out").read_text())["words"]
