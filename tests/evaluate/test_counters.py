"""Reading Nsight Compute, and what is said where it cannot be used."""

import io
import pickle
import sys
from types import SimpleNamespace

import pytest

from catalog.known import winograd
from codegen.plan import plan
from evaluate import counters
from evaluate.cases import Case, Settings
from evaluate.kernel import Built
from evaluate.variants import Variant

CASE = Case(plan(winograd()), (64, 64, 64), Variant("bf16", "fused", "variable", "bf16", "fp32"), Settings())
HEAD = (
    "ID,Process ID,Process Name,Host Name,Kernel Name,Context,Stream,Block Size,Grid Size,Device,CC,"
    "Section Name,Metric Name,Metric Unit,Metric Value"
)
# One launch of two kernels: planes in a quarter of the time, then the products.
KERNELS = {
    "planes(Job, Job)": {
        "gpu__time_duration.sum": ("ns", "500,000"),
        "dram__bytes_read.sum": ("byte", "1,073,741,824"),
        "dram__bytes_write.sum": ("byte", "1,000"),
        "lts__t_sectors_op_read.sum": ("sector", "10"),
        "lts__t_sectors_op_write.sum": ("sector", "20"),
        "l1tex__data_bank_conflicts_pipe_lsu.sum": ("", "7"),
        "lts__t_sector_hit_rate.pct": ("%", "10"),
        "gpc__cycles_elapsed.avg.per_second": ("hz", "1,900,000,000"),
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "0"),
        "sm__cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "100"),
    },
    "void products<256>(Params)": {
        "gpu__time_duration.sum": ("ns", "1,500,000"),
        "dram__bytes_read.sum": ("byte", "926,258,176"),
        "dram__bytes_write.sum": ("byte", "2,000"),
        "lts__t_sectors_op_read.sum": ("sector", "30"),
        "lts__t_sectors_op_write.sum": ("sector", "5"),
        "l1tex__data_bank_conflicts_pipe_lsu.sum": ("", "3"),
        "lts__t_sector_hit_rate.pct": ("%", "82.4"),
        "gpc__cycles_elapsed.avg.per_second": ("hz", "1,500,000,000"),
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "96"),
        "sm__cycles_active.avg.pct_of_peak_sustained_elapsed": ("%", "80"),
    },
}


def printed(kernels=KERNELS, changes=()) -> str:
    """What ncu prints with --csv and base units."""

    def quoted(cells):
        return ",".join(f'"{cell}"' for cell in cells)

    out = io.StringIO()
    print("==PROF== Connected to process 77 (/usr/bin/python3.11)", file=out)
    print('==PROF== Profiling "planes" - 0: 0%....50%....100% - 3 passes', file=out)
    print("==PROF== Disconnected from process 77", file=out)
    print(quoted(HEAD.split(",")), file=out)
    for number, (name, metrics) in enumerate(kernels.items()):
        place = (number, 77, "python3.11", "127.0.0.1", name, 1, 7, "(384, 1, 1)", "(132, 1, 1)", 0, "9.0")
        for metric, (unit, value) in {**metrics, **dict(changes)}.items():
            print(quoted([*place, "Command line profiler metrics", metric, unit, value]), file=out)
    return out.getvalue()


def test_bytes_add_up_and_rates_are_weighted_by_time():
    found = counters.parse(printed())
    assert set(found) == set(counters.KEYS)
    assert (found["dram_read_bytes"], found["dram_write_bytes"]) == (2_000_000_000, 3_000)
    assert (found["l2_read_sectors"], found["l2_write_sectors"]) == (40, 25)
    assert found["bank_conflicts"] == 10
    assert found["kernel_seconds"] == pytest.approx(2e-3)
    assert found["clock_mhz"] == pytest.approx(1600)
    assert found["l2_hit_rate"] == pytest.approx(0.643)
    assert found["tensor_busy"] == pytest.approx(0.72)
    assert found["sm_busy"] == pytest.approx(0.85)
    assert found["kernels"] == list(KERNELS)


def test_every_metric_that_is_asked_for_is_read():
    asked = counters.command("ncu")[-1].split(",")
    assert set(asked) == set(KERNELS["planes(Job, Job)"]) and len(asked) == len(set(asked))


def test_an_unknown_metric_is_none_and_the_others_stay():
    found = counters.parse(printed(changes={"lts__t_sector_hit_rate.pct": ("", "n/a")}.items()))
    assert found["l2_hit_rate"] is None and found["dram_read_bytes"] == 2_000_000_000


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - no permission\n", "ERR_NVGPUCTRPERM - no permission"),
        ("No module named cupy\n", "No module named cupy"),
        ("", "it printed nothing"),
    ],
)
def test_without_a_table_there_is_a_reason(text, says):
    found = counters.parse(text)
    assert found["reason"].endswith(says) and all(found[key] is None for key in counters.KEYS)


def test_a_missing_ncu_gives_nulls_and_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.delenv("NCU", raising=False)
    found = counters.count(CASE, "ours")
    assert "set $NCU" in found["reason"] and found["clock_mhz"] is None


@pytest.fixture
def fake_ncu(monkeypatch, tmp_path):
    """Puts a program in ncu's place that runs some lines, with its arguments, the case and the arm, and prints."""

    def install(lines: str) -> None:
        ncu = tmp_path / "ncu"
        ncu.write_text(
            f"#!{sys.executable}\n"
            "import pickle, sys\n"
            "*options, program, dash, module, path, _ = sys.argv\n"
            f"sys.path[:0] = {sys.path!r}\n"
            f"case, arm = pickle.load(open(path, 'rb'))\n{lines}\nprint({printed()!r})\n"
        )
        ncu.chmod(0o755)
        monkeypatch.setenv("NCU", str(ncu))
        monkeypatch.setattr(counters, "release_memory", lambda: None)

    return install


def test_the_profiled_process_gets_the_case_and_its_output_is_read(fake_ncu):
    fake_ncu(
        "assert (module, case.shape, arm) == ('evaluate.counters', (64, 64, 64), 'baseline')\n"
        "assert case.plan.scheme.rank == 7"
    )
    assert counters.count(CASE, "baseline")["tensor_busy"] == pytest.approx(0.72)


def test_a_metric_that_ends_ncu_is_left_out(fake_ncu):
    name = "lts__t_sectors_op_read.sum"
    fake_ncu(f"if {name!r} in options[-1]:\n  print('==ERROR== Failed to find metric {name}')\n  sys.exit(1)")
    assert counters.count(CASE, "ours")["tensor_busy"] == pytest.approx(0.72)


def test_one_launch_lies_between_start_and_stop(monkeypatch, tmp_path):
    log = []

    class Opened:
        def __enter__(self):
            runtime = SimpleNamespace(
                deviceSynchronize=lambda: log.append("wait"),
                profilerStart=lambda: log.append("start"),
                profilerStop=lambda: log.append("stop"),
            )
            xp = SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))
            return SimpleNamespace(xp=xp, ours=lambda i: log.append("ours"), baselines=[("", log.append)])

        def __exit__(self, *_):
            log.append("closed")

    monkeypatch.setattr(counters, "build_library", lambda *_: Built(tmp_path, ""))
    monkeypatch.setattr(counters, "open_arms", lambda *_: Opened())
    monkeypatch.setattr(counters, "require_gpu", lambda: None)
    (tmp_path / "case").write_bytes(pickle.dumps((CASE, "ours")))
    assert counters.main([str(tmp_path / "case"), ""]) == 0
    assert log[-6:] == ["wait", "start", "ours", "wait", "stop", "closed"] and "baseline" not in log
