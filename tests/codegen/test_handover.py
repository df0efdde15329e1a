"""How blocks of C go to the spare warps that apply an epilogue: layout, order and barriers, without a GPU.

The functions that both sides share are taken from the kernel's text and compiled for the host; who waits for whom is
played through in random orders.
"""

import ctypes
import random
import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from functools import partial
from importlib.resources import files
from itertools import product

import pytest

from codegen.emit_hopper import complete_last
from codegen.epilogue import Epilogue
from codegen.epilogue_text import switched
from codegen.fused_tables import RESUME, kind_of
from codegen.schedule import schedule
from tests.codegen.schemes import plans

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ was not found; install it")

TILES = [(256, 16), (256, 32), (192, 16), (192, 32)]
WARPS, SPARE, PARTS = 4, 3, 8
ENTRIES = """
using T = Tile<TILE_N>;
extern "C" {
unsigned put(unsigned part, unsigned lane, unsigned of) { return put_at(part, lane, of); }
unsigned found(unsigned part, unsigned lane) { return found_at(part, lane); }
unsigned columns(unsigned turn) { return Portions<T>::columns(turn); }
unsigned buffer(unsigned turn) { return Portions<T>::buffer(turn); }
unsigned parity(unsigned turn, unsigned block) { return Portions<T>::parity(turn, block); }
unsigned count() { return Portions<T>::count; }
unsigned held() { return Portions<T>::held; }
unsigned ahead() { return Portions<T>::ahead; }
unsigned through() { return Portions<T>::through; }
unsigned buffers() { return T::buffers; }
unsigned bytes() { return T::shared_bytes; }
}
"""


def between(text: str, first: str, after: str) -> str:
    start = text.index(first)
    return text[start : text.index(after, start)]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """For each tile the functions above."""
    root, epilogue = files("codegen.kernels").joinpath("hopper"), Epilogue.parse("bias")
    jobs, handover = (switched(root.joinpath(f"{name}.cuh").read_text(), epilogue) for name in ("jobs", "handover"))
    parts = [
        between(jobs, "constexpr int kTileM", "// Where the clusters' tiles lie."),
        between(handover, "// Byte of a part", "// A group's part of a slot."),
        between(handover, "template <class T>\nstruct Portions", "// The barriers of a block"),
        ENTRIES,
    ]
    folder, found = tmp_path_factory.mktemp("handover"), {}
    for columns, bits in TILES:
        constants = f"constexpr int TILE_N = {columns}, kPendingBits = {bits}, kSlots = 2;\n"
        text = (
            "#define __host__\n#define __device__\n" + constants + re.sub(r"__forceinline__", "inline", "".join(parts))
        )
        source, library = (folder / f"{columns}_{bits}.{end}" for end in ("cpp", "so"))
        source.write_text(text)
        subprocess.run(["g++", "-std=c++17", "-shared", "-fPIC", "-o", library, source], check=True)
        found[columns, bits] = ctypes.CDLL(str(library))
    return found


@needs_compiler
@pytest.mark.parametrize("tile", TILES)
def test_a_spare_warp_finds_each_sum_in_its_row_and_column(compiled, tile):
    entry, where = compiled[tile], {}
    for thread in range(128):
        for s in range(16):
            # Of an accumulator: four sums are two pairs of neighbours, 8 rows apart; the next are 8 columns on.
            row = thread // 32 * 16 + thread % 32 // 4 + 8 * (s // 2 % 2)
            column = s // 4 * 8 + thread % 4 * 2 + s % 2
            where[row, column] = entry.put(thread // 32, thread % 32, s // 4) + 256 * (s // 2 % 2) + s % 2 * 4
    assert sorted(where.values()) == list(range(0, 64 * 32 * 4, 4))
    for part in range(4):
        for lane in range(32):
            for r in range(4):
                for e in range(4):
                    place = where[part * 16 + lane // 8 + 4 * r, lane % 8 * 4 + e]
                    assert entry.found(part, lane) + 128 * r + 4 * e == place


@needs_compiler
def test_neither_side_meets_a_bank_twice(compiled):
    entry = compiled[TILES[0]]
    for part in range(4):
        for of in range(4):
            for half in (range(16), range(16, 32)):  # of a warp that stores 8 bytes each
                assert len({entry.put(part, lane, of) % 128 // 8 for lane in half}) == 16
        for quarter in range(0, 32, 8):  # of a warp that loads 16 bytes each
            assert len({entry.found(part, lane) % 128 // 16 for lane in range(quarter, quarter + 8)}) == 8


@needs_compiler
@pytest.mark.parametrize("tile", TILES)
def test_all_columns_come_once_and_fit(compiled, tile):
    entry = compiled[tile]
    assert sorted(entry.columns(turn) for turn in range(entry.count())) == list(range(tile[0] // 32))
    assert entry.through() == entry.ahead() + entry.held() <= entry.count()
    assert [entry.columns(entry.ahead() + i) for i in range(entry.held())] == list(range(entry.held()))
    assert entry.bytes() <= 227 << 10


class Barrier:
    """One in shared memory: a phase is complete after so many arrivals."""

    def __init__(self, arrivals: int) -> None:
        self.arrivals, self.left, self.phase = arrivals, arrivals, 0

    def arrive(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.left, self.phase = self.arrivals, self.phase + 1

    def passed(self, parity: int) -> bool:
        return self.phase % 2 != parity


class Game:
    """Both sides as generators that yield what they wait for, run one step at a time in any order."""

    def __init__(self, entry, blocks: int, steps: int, pause: int) -> None:
        self.entry, self.blocks, self.steps, self.pause = entry, blocks, steps, pause
        self.buffers = entry.buffers()
        slots = [(part, b) for part in range(PARTS) for b in range(self.buffers)]
        self.full, self.free = {slot: Barrier(1) for slot in slots}, {slot: Barrier(1) for slot in slots}
        lent = entry.count() - entry.through()
        self.memory_full = [Barrier(1) for _ in range(2)]
        self.memory_free = [Barrier(max(1, PARTS // 2 * lent)) for _ in range(2)]
        self.held: dict[object, object] = {}  # what lies where and has not been read
        self.step = [0] * PARTS
        self.done: Counter = Counter()

    def write(self, place, what):
        assert place not in self.held, f"{place} is written before {self.held.get(place)} has been read"
        self.held[place] = what

    def read(self, place, what):
        assert self.held.pop(place) == what
        self.done[what] += 1

    def near(self, part: int):
        """The ring has four stages, so nobody gets further ahead of the slowest."""
        return lambda: self.step[part] <= min(self.step) + 3

    def consumer(self, part: int):
        entry, group = self.entry, part // WARPS
        lent = entry.count() - entry.through()
        for block in range(self.blocks):
            if lent and part % WARPS == 0:
                yield partial(self.memory_free[group].passed, block % 2 ^ 1)
                for each in range(group * WARPS, group * WARPS + WARPS):
                    for turn in range(entry.through(), entry.count()):
                        self.write(("memory", each, turn), (block, each, entry.columns(turn)))
            for turn in range(entry.ahead()):
                self.write((part, entry.buffer(turn)), (block, part, entry.columns(turn)))
                self.full[part, entry.buffer(turn)].arrive()
            calls = entry.held() + bool(lent) + 1 + (entry.ahead() > 0)
            for left in range(self.steps, 0, -1):
                self.step[part] += 1
                yield self.near(part)
                # At the end of a product all that is left.
                now = calls if left == 1 else min(calls, int(left % self.pause == 1))
                for _ in range(now):
                    turn = entry.through() - (calls - bool(lent) - 1)
                    if entry.ahead() <= turn < entry.through():
                        b = entry.buffer(turn)
                        yield partial(self.free[part, b].passed, entry.parity(turn, block) ^ 1)
                        self.write((part, b), (block, part, entry.columns(turn)))
                        self.full[part, b].arrive()
                    elif calls == 2 and lent:
                        if part % WARPS == 0:
                            self.memory_full[group].arrive()
                    elif calls == 1:
                        for b in range(self.buffers):
                            turn = entry.through() - self.buffers + b
                            yield partial(self.free[part, b].passed, entry.parity(turn, block))
                            assert (part, b) not in self.held
                    calls -= 1
        self.step[part] = 1 << 30

    def spare(self, warp: int):
        entry = self.entry
        for block in range(self.blocks):
            for turn, part in product(range(entry.count()), range(warp, PARTS, SPARE)):
                what = (block, part, entry.columns(turn))
                if turn >= entry.through():
                    yield partial(self.memory_full[part // WARPS].passed, block % 2)
                    self.read(("memory", part, turn), what)
                    self.memory_free[part // WARPS].arrive()
                else:
                    b = entry.buffer(turn)
                    yield partial(self.full[part, b].passed, entry.parity(turn, block))
                    self.read((part, b), what)
                    self.free[part, b].arrive()

    def play(self, choose: random.Random) -> None:
        sides = [self.consumer(part) for part in range(PARTS)] + [self.spare(warp) for warp in range(SPARE)]
        waits = {side: next(side) for side in sides}
        speeds = {side: choose.choice((1, 1, 5, 25)) for side in sides}
        while waits:
            ready = [side for side in waits if waits[side]()]
            assert ready, "all wait for each other"
            side = choose.choices(ready, [speeds[each] for each in ready])[0]
            try:
                waits[side] = next(side)
            except StopIteration:
                del waits[side]
        parts = range(PARTS)
        assert self.done == Counter(
            (b, p, c) for b in range(self.blocks) for p in parts for c in range(self.entry.count())
        )


@needs_compiler
@pytest.mark.parametrize("tile", TILES)
@pytest.mark.parametrize("steps", [2, 7, 24])
def test_nobody_waits_in_a_circle_and_nothing_is_overwritten(compiled, tile, steps):
    """Products of few steps, where the spare warps are late, and of many."""
    for seed in range(12):
        Game(compiled[tile], 5, steps, 3).play(random.Random(seed))


@needs_compiler
def test_the_game_notices_a_wrong_parity(compiled):
    class Wrong:
        def __init__(self, entry):
            self.entry = entry

        def __getattr__(self, name):
            return getattr(self.entry, name)

        def parity(self, turn, block):
            return self.entry.parity(turn, block) ^ (turn == 3)

    with pytest.raises((AssertionError, KeyError)):
        for seed in range(12):
            Game(Wrong(compiled[256, 16]), 5, 7, 3).play(random.Random(seed))


@pytest.mark.parametrize("name", [name for name in plans() if plans()[name].rank <= 49])
def test_what_completes_a_block_is_published_last(name):
    """Where it may be, and each block is complete once, of the same sums."""
    before = schedule(plans()[name])
    found = complete_last(before)
    assert [replace(turn, publications=()) for turn in found.turns] == [
        replace(turn, publications=()) for turn in before.turns
    ]
    sums: dict[int, Counter] = {}
    for made, kinds in ((before, {}), (found, {})):
        slots: dict[int, int] = {}
        complete: Counter = Counter()
        for number, turn in enumerate(made.turns):
            for p in turn.publications:
                if kind_of(p) == RESUME:
                    continue
                if not p.first:
                    assert slots[p.slot] == p.block, "a pending tile was overwritten"
                if p.last:
                    complete[p.block] += 1
                    slots.pop(p.slot, None)
                else:
                    slots[p.slot] = p.block
                kinds.setdefault(number, Counter())[p] += 1
        assert complete == Counter(range(made.plan.format.m * made.plan.format.n))
        sums[len(sums)] = kinds
    assert sums[0] == sums[1]
    for turn in found.turns:
        last = [p.last for p in turn.publications if not p.resume]
        kept = {p.slot for p in turn.publications if p.last and not p.first} & {
            p.slot for p in turn.publications if not p.last
        }
        assert last == sorted(last) or kept or any(p.resume for p in turn.publications)
