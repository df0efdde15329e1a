"""What a row says of its types and its shape."""

import pytest

from catalog.known import strassen
from codegen.plan import plan
from evaluate.bench import bench
from evaluate.cases import Case, Settings, identity
from evaluate.operands import DTYPES
from evaluate.variants import Variant, Wanted, product_dtype_of


def test_fp32_products_mean_fp64_for_fp64():
    found = bench(
        [plan(strassen())],
        [(8, 8, 8)],
        ["fp64", "fp32", "bf16"],
        device="cpu",
        pairs=1,
        wanted=Wanted(product_dtype="fp32"),
    )
    assert {(row["dtype"], row["product_dtype"]) for row in found["rows"]} == {
        ("fp64", "fp64"),
        ("fp32", "fp32"),
        ("bf16", "fp32"),
    }
    assert [product_dtype_of(d, "cuda", "fp32") for d in DTYPES] == ["fp32", "fp32", "fp32", "fp64"]


@pytest.mark.parametrize(
    ("dtype", "shape", "aligned"),
    [
        ("bf16", (5001, 5001, 5001), False),
        ("bf16", (5001, 5000, 5008), True),
        ("bf16", (4096, 4096, 4100), False),
        ("fp32", (4096, 4100, 4100), True),
        ("fp32", (4096, 4098, 4100), False),
        ("fp64", (1, 4098, 4098), True),
    ],
)
def test_rows_of_whole_16_byte_words_are_aligned(dtype, shape, aligned):
    variant = Variant(dtype, "cuda", "variable", dtype, dtype)
    assert identity(Case(plan(strassen()), shape, variant, Settings()))["aligned"] is aligned
