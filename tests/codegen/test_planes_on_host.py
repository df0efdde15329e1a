"""The pass that makes planes, run on the host: every type, edges, padding, alignment, extras and scaling."""

import ctypes
import itertools

import ml_dtypes
import numpy as np
import pytest

from codegen.device_text import STORAGE, joined
from codegen.emit_planes import Side, fused_sides, sides_text, transposed
from codegen.schedule import schedule
from tests.codegen.on_host import aligned, matrix, needs_compiler, on_host
from tests.codegen.schemes import plans

PLANS = plans()
NUMPY = {"fp16": np.float16, "bf16": ml_dtypes.bfloat16, "fp32": np.float32, "fp64": np.float64}
TYPES = [("fp32", "fp32"), ("fp64", "fp64"), ("bf16", "bf16"), ("bf16", "fp16"), ("fp16", "fp16"), ("bf16", "fp32")]
I64, P = ctypes.c_int64, ctypes.c_void_p
ENTRY = """
// A function of types without a name outside of this file would have none itself.
const PlaneJob& job(const void* from) { return *static_cast<const PlaneJob*>(from); }
extern "C" int make(const void* a, const void* b) { return make_planes<MapA, MapB>(nullptr, job(a), job(b)); }
extern "C" const char* last() { return last_error; }
"""
SCALED = """
extern "C" int make_scaled(const void* a, const void* b) {
  return make_planes<MapA, MapB, true>(nullptr, job(a), job(b));
}
extern "C" int rows_of(const Input* x, int64_t ld, int64_t rows, int64_t columns, int* out) {
  return find_exponents<false>(nullptr, x, ld, rows, columns, out);
}
extern "C" int columns_of(const Input* x, int64_t ld, int64_t rows, int64_t columns, int* out) {
  return find_exponents<true>(nullptr, x, ld, rows, columns, out);
}
extern "C" double out_of(double value, int row, int column) { return unscaled(Accumulator(value), row, column); }
"""


class Job(ctypes.Structure):
    _fields_ = [
        ("matrix", P),
        *((name, I64) for name in ("ld", "rows", "columns", "block_rows", "block_columns")),
        *((name, P) for name in ("planes", "extras")),
        *((name, I64) for name in ("plane_ld", "stride")),
        *((name, P) for name in ("row_exponents", "column_exponents")),
        ("aligned", ctypes.c_bool),
    ]


def text(sides: tuple[Side, Side], dtype: str, plane_dtype: str, scaled: bool = False) -> str:
    """The pass and C functions that run it; with scaling only if asked for, which takes as long to compile."""
    storage, plane = STORAGE[dtype], STORAGE[plane_dtype]
    accumulator = STORAGE["fp64" if dtype == "fp64" else "fp32"]
    includes, body = joined(("host", "types", "ahead", "planes", *["exponents"] * scaled), (dtype, plane_dtype))
    aliases = f"using Input = {storage.name}; using Plane = {plane.name}; using Accumulator = {accumulator.name};"
    maps = sides_text(sides, storage.bytes, plane.bytes, accumulator.bytes)
    return "\n".join([includes, "namespace {", aliases, maps, "}", body, ENTRY, SCALED * scaled])


class Case:
    """One matrix, where its planes go, and what they must be."""

    def __init__(self, side: Side, dtype, plane_dtype, shape, block, gap, offset, exponents=None, by_column=False):
        rng = np.random.default_rng([*shape, *block, gap])
        self.side, (self.rows, self.columns), self.block = side, block, block
        self.values = rng.integers(-3, 4, shape)
        self.source = matrix(self.values, gap, dtype, offset)
        self.ld = -(-self.columns // 8) * 8 + 8
        self.planes = aligned(len(side.planes) * self.rows * self.ld, plane_dtype)
        self.extras = aligned(len(side.extras) * self.rows * self.ld, dtype)
        self.exponents, self.by_column = exponents, by_column

    def job(self, extras: bool = True) -> Job:
        rows, columns = self.values.shape
        found = Job(self.source.ctypes.data, self.source.shape[1], rows, columns, self.rows, self.columns)
        found.planes, found.plane_ld, found.stride = self.planes.ctypes.data, self.ld, self.rows * self.ld
        found.extras = self.extras.ctypes.data if extras else None
        if self.exponents is not None:
            setattr(found, "column_exponents" if self.by_column else "row_exponents", self.exponents.ctypes.data)
        return found

    def expected(self, vectors) -> np.ndarray:
        side, whole = self.side, np.zeros((self.side.rows * self.rows, self.side.columns * self.columns))
        values = self.values.astype(float)
        if self.exponents is not None:
            powers = np.exp2(self.exponents)
            values *= powers if self.by_column else powers[:, None]
        whole[: values.shape[0], : values.shape[1]] = values
        blocks = whole.reshape(side.rows, self.rows, side.columns, self.columns).transpose(0, 2, 1, 3)
        blocks = blocks.reshape(-1, self.rows, self.columns)
        result = np.zeros((len(vectors), self.rows, self.ld))
        for slot, vector in vectors:
            result[slot, :, : self.columns] = np.einsum("b,bij->ij", vector, blocks)
        return result

    def check(self, extras: bool = True) -> None:
        found = self.planes.reshape(-1, self.rows, self.ld).astype(float)
        np.testing.assert_array_equal(found, self.expected(self.side.planes))
        found = self.extras.reshape(-1, self.rows, self.ld)
        if extras:
            np.testing.assert_array_equal(found.astype(float), self.expected(self.side.extras))
        else:
            assert (found.view(np.uint8) == 0xFF).all(), "extras were written though nobody asked for them"


def shapes(side: Side, block: tuple[int, int]):
    """Sizes of a matrix: blocks that tile it, one that ends inside the last blocks, one that has only a corner."""
    rows, columns = side.rows * block[0], side.columns * block[1]
    return (rows, columns), (max(1, rows - 2), max(1, columns - 5)), (1, 3)


@needs_compiler
@pytest.mark.parametrize(("dtype", "plane_dtype"), TYPES)
@pytest.mark.parametrize("name", ["winograd", "rectangular", "rational", "trivial"])
def test_planes_and_extras_are_exact(name, dtype, plane_dtype, tmp_path):
    sides = fused_sides(schedule(PLANS[name], dtype != plane_dtype))
    library = on_host(text(sides, dtype, plane_dtype), tmp_path)
    types = NUMPY[dtype], NUMPY[plane_dtype]
    for index, (gap, offset), extras in itertools.product(range(3), [(0, 0), (3, 0), (16, 0), (16, 1)], (True, False)):
        # A's blocks of 8 x 16 are whole packs, B's rows of 13 elements are not.
        cases = [
            Case(side, *types, shapes(side, block)[index], block, gap, offset)
            for side, block in zip(sides, ((8, 16), (5, 13)), strict=True)
        ]
        assert library.make(*(ctypes.byref(case.job(extras)) for case in cases)) == 0
        for case in cases:
            case.check(extras)


@needs_compiler
def test_an_absent_side_is_left_alone_and_a_wrong_one_refused(tmp_path):
    sides = fused_sides(schedule(PLANS["winograd"]))
    library = on_host(text(sides, "fp32", "fp32"), tmp_path)
    library.last.restype = ctypes.c_char_p
    case = Case(sides[0], np.float32, np.float32, (16, 32), (8, 16), 0, 0)
    assert library.make(ctypes.byref(case.job()), ctypes.byref(Job())) == 0
    case.check()
    case = Case(sides[1], np.float32, np.float32, (16, 32), (8, 16), 0, 0)
    assert library.make(ctypes.byref(Job()), ctypes.byref(case.job())) == 0
    case.check()
    # Only extras, as for a matrix whose planes are there but whose blocks cannot be read where they lie.
    case = Case(sides[0], np.float32, np.float32, (15, 31), (8, 16), 3, 0)
    only = case.job()
    only.planes = None
    assert library.make(ctypes.byref(only), ctypes.byref(Job())) == 0
    assert (case.planes.view(np.uint8) == 0xFF).all()
    found = case.extras.reshape(-1, case.rows, case.ld)
    np.testing.assert_array_equal(found, case.expected(case.side.extras))
    wrong = Case(sides[1], np.float32, np.float32, (16, 32), (8, 16), 0, 0).job()
    wrong.plane_ld = 18
    assert library.make(ctypes.byref(Job()), ctypes.byref(wrong)) == 2
    assert library.last() == b"rows of planes must start on 16-byte boundaries, not 18 elements apart in slots of 192"


@needs_compiler
@pytest.mark.parametrize(("dtype", "plane_dtype"), [("fp64", "fp64"), ("bf16", "fp16"), ("fp16", "fp16")])
def test_scaled_planes_are_exact(dtype, plane_dtype, tmp_path):
    sides = fused_sides(schedule(PLANS["winograd2"], dtype != plane_dtype))
    library = on_host(text(sides, dtype, plane_dtype, True), tmp_path)
    rng = np.random.default_rng(1)
    for index, gap in itertools.product(range(3), (0, 8, 3)):
        cases = []
        for by_column, side in enumerate(sides):
            shape = shapes(side, (4, 16))[index]
            exponents = rng.integers(-3, 4, shape[by_column]).astype(np.int32)
            cases.append(Case(side, NUMPY[dtype], NUMPY[plane_dtype], shape, (4, 16), gap, 0, exponents, by_column))
        assert library.make_scaled(*(ctypes.byref(case.job()) for case in cases)) == 0
        for case in cases:
            case.check()


@needs_compiler
@pytest.mark.parametrize("dtype", NUMPY)
def test_exponents_bring_every_row_and_column_to_one(dtype, tmp_path):
    library = on_host(text(fused_sides(schedule(PLANS["winograd"])), dtype, dtype, True), tmp_path)
    kind, rng = NUMPY[dtype], np.random.default_rng(0)
    info = ml_dtypes.finfo(kind)
    spread = 7 if dtype == "fp16" else 80
    most = 1022 if dtype == "fp64" else 126
    for shape, gap in itertools.product([(1, 1), (37, 45), (67, 1030)], (0, 3)):
        values = np.exp2(rng.uniform(-spread, spread, (shape[0], 1)) + rng.uniform(-spread, spread, (1, shape[1])) / 2)
        values = (values * rng.choice([-1, 1], shape)).astype(kind).astype(float)
        if min(shape) > 8:
            values[3], values[:, 4] = 0, 0
            values[5, 6], values[7, 8] = np.nan, -np.inf
            values[9], values[:, 10] = float(info.max), float(info.max)
            values[11] = float(info.smallest_normal)
        source = matrix(values, gap, kind, 0)
        for axis, call in ((1, library.rows_of), (0, library.columns_of)):
            found = np.full(shape[1 - axis], -77, np.int32)
            arguments = (P(source.ctypes.data), I64(shape[1] + gap), *map(I64, shape), P(found.ctypes.data))
            assert call(*arguments) == 0
            peak = np.abs(values).max(axis=axis)  # NaN if one is among them
            usual = np.isfinite(peak) & (peak > 0)
            np.testing.assert_array_equal(found[~usual], 0)
            # The largest numbers would need the reciprocal of a subnormal one; they end in [2, 4).
            np.testing.assert_array_equal(found[usual], np.maximum(1 - np.frexp(peak[usual])[1], -most))
    library.out_of.restype, library.out_of.argtypes = ctypes.c_double, [ctypes.c_double, ctypes.c_int, ctypes.c_int]
    assert library.out_of(1.5, 3, -5) == 6 and library.out_of(3, most, -most) == 3
    assert library.out_of(2.0**most, most, 20) == 2.0**-20 and library.out_of(2.0**-most, -most, -20) == 2.0**20


def test_a_transposed_side_has_transposed_planes():
    side = fused_sides(schedule(PLANS["rectangular"]))[1]
    turned = transposed(side)
    assert (turned.rows, turned.columns) == (side.columns, side.rows) and transposed(turned) == side
    for (slot, vector), (other, moved) in zip(side.planes, turned.planes, strict=True):
        blocks = np.array(vector).reshape(side.rows, side.columns)
        assert slot == other and np.array_equal(np.array(moved).reshape(side.columns, side.rows), blocks.T)
