"""The check of the dispatch on a real device, small."""

from importlib.util import find_spec

import pytest

from evaluate.device import array_module, require_gpu
from evaluate.dispatch import Dispatcher
from evaluate.dispatch_check import check, stream
from evaluate.host_time import entry_times, host_times
from evaluate.verdicts import Verdicts
from subcubic.library import plan_of, rows_of

pytestmark = [pytest.mark.gpu, pytest.mark.slow, pytest.mark.alone]


@pytest.fixture
def fresh(tmp_path):
    return lambda: Dispatcher(plan_of, rows_of, Verdicts(tmp_path))


def test_no_choice_is_slower_than_the_vendor(fresh):
    gpu, xp = require_gpu(), array_module()
    document = check(fresh, [(8192, 8192, 8192), (4096, 1024, 2048)], "bf16", gpu, xp)
    assert len(document["rows"]) == 2 and all(row["near_vendor"] for row in document["rows"])
    assert all(len(row["medians"]) > 1 and row["deciding_seconds"] > 0 for row in document["rows"])
    assert document["clocks"]["after"] and document["power"]["before"]


def test_calls_of_changing_shapes_lose_nothing(fresh):
    # Of a layer this wide: decisions about products shorter than half a millisecond are not hidden behind them.
    row = stream(fresh(), (7168, 7168), "bf16", array_module(), calls=100)
    assert row["ratio"] > 0.97 and row["buckets"] > 5


def test_a_call_costs_the_host_microseconds(fresh):
    rows = host_times(fresh, "bf16", array_module(), (256, 8192))
    limits = {"cupy": 5, "torch": 15, "jax": 30}
    there = {"cupy"} | ({"torch"} if find_spec("torch") else set()) | ({"jax"} if _jax_has_a_gpu() else set())
    assert {(row["library"], row["M"]) for row in rows} == {(name, side) for name in there for side in (256, 8192)}
    for row in rows:
        assert row["look_up_us"] > 0 and (row["overhead_us"] is not None or row["M"] == 8192), row
        assert row["overhead_us"] is None or abs(row["overhead_us"]) < limits[row["library"]], row


def _jax_has_a_gpu():
    import jax

    return jax.default_backend() == "gpu"


def test_the_c_entry_costs_the_host_what_cublas_does():
    rows = entry_times(plan_of, "bf16", require_gpu(), array_module())
    assert [row["reference"] for row in rows] == ["classical-1x1x1", "winograd"]
    assert all(row["more_for_each_kernel_us"] < 0.5 for row in rows), rows
