"""The README's tables of checks, from documents made up here."""

import pytest

from evaluate.check_tables import dispatch_table, nvbench_table
from evaluate.report import save

ROW = {"near_best": True, "near_vendor": True, "to_vendor": 1.0}
HOST = {"library": "cupy", "M": 8192, "overhead_us": 3.25, "look_up_us": 1.5}
STREAM = {"ratio": 1.0, "ratio_low": 0.99, "ratio_high": 1.01}


@pytest.fixture
def kept(document, tmp_path):
    def keep(**changes):
        save({**document, **changes}, tmp_path)
        return tmp_path

    return keep


def check(**changes):
    made = {"kind": "dispatch-check", "dtype": "bf16", "rows": [ROW, {**ROW, "near_best": False, "to_vendor": 1.21}]}
    made |= {"host": [HOST, {**HOST, "M": 256}, {**HOST, "library": "jax", "overhead_us": None}]}
    return {**made, "streams": [STREAM], "entries": [{"more_for_each_kernel_us": -0.1}], **changes}


def test_choices_are_counted_and_gains_averaged(kept):
    line = dispatch_table(kept(**check())).splitlines()[-1].split(" | ")
    assert line[1:6] == ["bf16", "2", "1", "0", "1.100"]
    assert line[6:] == ["1.000 [0.990, 1.010]", "1.5 us", "+3.2 us, -", "-0.1 us |"]


def test_what_was_not_checked_is_left_out(kept, tmp_path):
    assert dispatch_table(tmp_path) == "" == nvbench_table(tmp_path)
    folder = kept(**check(rows=[], host=[]))
    assert dispatch_table(folder) == ""
    line = dispatch_table(kept(**check(streams=[], host=[], entries=[]))).splitlines()[-1]
    assert line.endswith("| - | - | - | - |")


def test_times_stand_beside_those_of_nvbench(kept, document):
    row = {**document["rows"][0], "seconds": 1e-3, "baseline_seconds": 2e-3, "ratio": 2.0, "M": 64}
    ours, theirs = {"seconds": 1e-3, "batch_seconds": 1e-3}, {"seconds": 3e-3, "batch_seconds": 4e-3}
    folder = kept(rows=[{**row, "nvbench": ours, "baseline_nvbench": theirs}, {**row, "nvbench": {"reason": "none"}}])
    (line,) = nvbench_table(folder).splitlines()[2:]
    assert line.split(" | ")[1:] == [
        "64",
        "1000.0 us",
        "1000.0 us",
        "2000.0 us",
        "3000.0 us",
        "2.000",
        "3.000",
        "4.000 |",
    ]
