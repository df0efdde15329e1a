"""The pass that makes planes, compiled: registers, spills and refusals."""

import re
from pathlib import Path

import numpy as np
import pytest

from catalog.known import winograd
from catalog.scheme import Format, Scheme
from catalog.store import Catalog
from codegen.build import resources
from codegen.device_text import STORAGE
from codegen.emit_planes import Side, fused_sides, sides_text
from codegen.plan import plan
from codegen.schedule import schedule
from tests.codegen.test_planes_on_host import PLANS, text
from tests.fuzzing import rare

TYPES = [("bf16", "bf16"), ("bf16", "fp16"), ("fp32", "fp32"), ("fp64", "fp64")]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory) -> Catalog:
    catalog = Catalog(tmp_path_factory.mktemp("catalog") / "shelf")
    catalog.adopt(Path(__file__).parents[2].joinpath("catalog", "starter", "shards").glob("*.h5"))
    return catalog


def best(catalog: Catalog, name: str, rank: int) -> Scheme:
    for entry in catalog.entries():
        if entry.scheme.format == Format.parse(name) and entry.scheme.rank == rank and not entry.scheme.ring.modulus:
            return entry.scheme
    raise AssertionError(f"the starter catalog has no {name} of rank {rank}")


def pack_bytes(made: str, dtype: str) -> list[int]:
    return [int(w) * STORAGE[dtype].bytes for w in re.findall(r" width = (\d+)", made)]


@pytest.mark.parametrize(
    ("name", "dtype", "plane_dtype"),
    [(name, *types) for types in TYPES for name in ("winograd", "3x3x3:23")]
    + [(name, *TYPES[0]) for name in ("winograd2", "2x4x4:26")]
    + [rare(name, *types) for types in TYPES[1:] for name in ("winograd2", "2x4x4:26")],
)
def test_planes_compile_without_spills(nvcc, shipped, name, dtype, plane_dtype):
    named = {"winograd": (winograd(), 1), "winograd2": (winograd(), 2)}
    made = plan(*named[name]) if name in named else plan(best(shipped, name.split(":")[0], int(name.split(":")[1])))
    scaled = name == "winograd"
    source = text(fused_sides(schedule(made, dtype != plane_dtype)), dtype, plane_dtype, scaled)
    usages = [usage for usage in resources(source) if "planes_kernel" in usage.kernel]
    assert len(usages) == 1 + scaled
    assert {usage.spill_loads + usage.spill_stores for usage in usages} == {0}
    # Two thread blocks of 256 a multiprocessor, or four at one level.
    assert max(usage.registers for usage in usages) <= (64 if name == "winograd" else 128)
    # Sixteen blocks of 16-bit elements would take 128 registers once they are widened; doubles leave room for more
    # threads by ones.
    narrow = name in ("winograd2", "2x4x4:26") and STORAGE[dtype].bytes in (2, 8)
    assert min(pack_bytes(source, dtype)) == (8 if narrow else 16)


@pytest.mark.parametrize(("dtype", "narrowest"), [("bf16", 8), ("fp32", 16), ("fp64", 8)])
def test_many_blocks_narrow_the_pack(nvcc, dtype, narrowest):
    rng = np.random.default_rng(0)
    rows = rng.integers(-1, 2, (24, 25)) * (rng.random((24, 25)) < 0.3)
    rows[0] = 1  # needs every block
    sides = Side(5, 5, tuple(enumerate(map(tuple, rows.tolist())))), Side(1, 1, ())
    source = text(sides, dtype, dtype)
    assert pack_bytes(source, dtype)[0] == narrowest
    assert {usage.spill_loads + usage.spill_stores for usage in resources(source)} == {0}


def test_too_many_blocks_are_refused():
    side = Side(101, 2, ((0, (1,) * 202),))
    with pytest.raises(ValueError, match="101 x 2 blocks has 202 of them in use, more than the 200 that a CUDA thread"):
        sides_text((side, side), 4, 4)
    with pytest.raises(ValueError, match="more than the 100 that"):
        sides_text((Side(101, 1, ((0, (1,) * 101),)),) * 2, 8, 8, 8)


def test_only_needed_blocks_are_read():
    side = Side(2, 2, ((0, (1, 0, -1, 0)), (1, (0, 0, 3, 0))), ((0, (0, 0, 1, 0)), (1, (0, 1, 0, 0))))
    made = sides_text((side, side), 4, 4).split("struct MapB")[0]
    needed, rest = made.split("void load_extras(")
    assert re.findall(r"x\.raw\[\d\] = get\(\d, \d\)", needed) == ["x.raw[0] = get(0, 0)", "x.raw[2] = get(1, 0)"]
    assert re.findall(r"x\.raw\[\d\] = get\(\d, \d\)", rest) == ["x.raw[1] = get(0, 1)"]
    sums = made.split("void combine(")[1]
    assert "put(0, sum<Plus<0>, Minus<2>>(x));" in sums and "put(1, sum<Times<3, 2>>(x));" in sums


def test_extras_of_a_fused_kernel_are_its_plain_blocks():
    made = schedule(PLANS["winograd"])
    for side, name in zip(fused_sides(made), "ab", strict=True):
        plain = sorted({getattr(turn, name).index for turn in made.turns if not getattr(turn, name).plane})
        assert [vector.index(1) for _, vector in side.extras] == plain
        assert all(sum(map(abs, vector)) == 1 for _, vector in side.extras)
        assert [slot for slot, _ in side.extras] == list(range(len(plain)))
