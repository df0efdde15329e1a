"""The shape table: which measured row is taken, and when the vendor's GEMM is."""

import pytest

from evaluate.choice import choose, measured
from evaluate.report import save

HEAD = {"device": "NVIDIA H200", "created_utc": "2026-11-29T20:00:00+00:00"}


def row(size, ratio, *, margin=0.01, **changes):
    shape = dict.fromkeys("MNK", size) if isinstance(size, int) else dict(zip("MNK", size, strict=True))
    facts = {"reference": "winograd", "levels": 1, "path": "fused", "dtype": "bf16", "plane_dtype": "bf16"}
    timing = {"ratio": ratio, "ratio_low": ratio - margin, "ratio_high": ratio + margin, "pairs": 15}
    rest = {"layout": "nn", "operands": "variable", "regime": "burst", "correct": True}
    rest |= {"format": "2x2x2", "rank": 7, "product_dtype": "fp32"}
    return {**facts, **shape, **timing, **rest, **changes}


ROWS = [
    row(4096, 0.85),
    row(4096, 0.99, reference="classical-1x1x1"),
    row(8192, 1.05),
    row(8192, 1.01, reference="classical-1x1x1"),
    row(8192, 1.11, operands="planes_given"),
    row(8192, 1.07, operands="b_constant"),
    row(8192, 1.30, dtype="fp16"),
    row(8192, 1.20, regime="steady"),
    row((16384, 16384, 512), 1.02, levels=2, options={"sync": 0}, orbit="b_constant"),
]


def test_the_best_row_of_the_nearest_shape_is_taken():
    found = choose(ROWS, "bf16", (7000, 9000, 8192))
    assert (found.path, found.reference, found.ratio, found.shape) == ("fused", "winograd", 1.05, (8192,) * 3)
    thin = choose(ROWS, "bf16", (20000, 16384, 700))
    assert (thin.levels, thin.options, thin.shape) == (2, (("sync", 0),), (16384, 16384, 512))
    assert (found.orbit, thin.orbit) == ("", "b_constant")


@pytest.mark.parametrize(("operands", "ratio"), [("variable", 1.05), ("b_constant", 1.07), ("planes_given", 1.11)])
def test_given_planes_allow_what_needs_fewer(operands, ratio):
    assert choose(ROWS, "bf16", (8192,) * 3, operands).ratio == ratio
    fewer = [one for one in ROWS if one["operands"] == "variable"]
    assert choose(fewer, "bf16", (8192,) * 3, operands).operands == "variable"


def test_where_nothing_is_surely_faster_the_vendor_is_taken():
    found = choose(ROWS, "bf16", (4000,) * 3)
    assert (found.path, found.ratio, found.shape) == ("cublas", 1.0, (4096,) * 3)
    assert choose([row(8192, 1.005)], "bf16", (8192,) * 3).path == "cublas"
    assert choose([row(8192, 1.5, pairs=3)], "bf16", (8192,) * 3).path == "cublas"
    nothing = choose(ROWS, "fp32", (8192,) * 3)
    assert (nothing.path, nothing.shape) == ("cublas", None)
    with pytest.raises(ValueError, match="unknown operands 'all'"):
        choose(ROWS, "bf16", (8192,) * 3, "all")


def test_the_newest_correct_row_of_the_device_counts(tmp_path):
    for hour, ratio in ((20, 1.05), (22, 1.09), (21, 1.07)):
        save({**HEAD, "created_utc": f"2026-11-29T{hour}:00:00+00:00", "rows": [row(8192, ratio)]}, tmp_path)
    wrong, other = row(8192, 2.0, correct=False, levels=2), row(8192, 3.0)
    save({**HEAD, "rows": [wrong]}, tmp_path)
    save({**HEAD, "device": "NVIDIA A100", "rows": [other]}, tmp_path)
    save({**HEAD, "rows": [{"kind": "rate", "engine": "flips"}]}, tmp_path)
    assert [one["ratio"] for one in measured(tmp_path, "NVIDIA H200")] == [1.09]
    assert measured(tmp_path / "none", "NVIDIA H200") == []
