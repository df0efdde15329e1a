"""Rows made by hand for maps and crossovers."""


def row(size, ratio, spread=0.01, *, n=None, k=None, error=4.0, **others):
    """A fused row of Winograd's form at M = size; ``spread`` is half the width of the interval."""
    interval = {"ratio": ratio, "ratio_low": ratio - spread, "ratio_high": ratio + spread}
    shape = {"M": size, "N": n or size, "K": k or size}
    types = {"dtype": "bf16", "plane_dtype": "bf16", "product_dtype": "fp32", "layout": "nn"}
    head = {"format": "2x2x2", "rank": 7, "levels": 1, "path": "fused", "operands": "variable", "regime": "burst"}
    errors = {"error_fro": error * 2e-3, "baseline_error_fro": 2e-3, "correct": True}
    return {**head, **types, **shape, **interval, **errors, "pairs": 9, "distribution": "normal", **others}
