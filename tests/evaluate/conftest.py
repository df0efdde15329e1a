"""One small document of results, measured once on the CPU."""

import pytest

from catalog.known import strassen, winograd
from catalog.transform import extend
from codegen.plan import plan
from evaluate.bench import bench


@pytest.fixture(scope="session")
def document():
    rows = []
    plans = [plan(winograd(), 2), plan(extend(strassen(), "n"))]
    found = bench(
        plans, [(50, 61, 47)], ["fp64", "fp32", "fp16"], device="cpu", pairs=6, commit="abc", on_row=rows.append
    )
    assert rows == found["rows"]
    return found
