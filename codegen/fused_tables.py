"""C++ tables of a schedule, which the fused kernels walk through: where the factors lie, and what to publish when."""

from __future__ import annotations

from codegen.chain import Publication
from codegen.schedule import Operand, Schedule

# Kinds of publications: what happens to the block's pending tile.
PARK, ADD, FINISH, WHOLE, RESUME = range(5)


def sources(schedule: Schedule) -> tuple[list[Operand], list[Operand]]:
    """The distinct operands of A and of B: blocks first, then all planes in order."""
    sides = []
    for side, planes in (("a", schedule.planes_a), ("b", schedule.planes_b)):
        used = {getattr(turn, side) for turn in schedule.turns}
        blocks = sorted((operand for operand in used if not operand.plane), key=lambda operand: operand.index)
        sides.append([*blocks, *(Operand(True, index) for index in range(len(planes)))])
    return sides[0], sides[1]


def kind_of(publication: Publication) -> int:
    """One of the kinds above."""
    if publication.resume:
        return RESUME
    if publication.first:
        return WHOLE if publication.last else PARK
    return FINISH if publication.last else ADD


def tables(schedule: Schedule) -> str:
    """Declarations of ``kTurns``, ``kPublications`` and ``kBlocksOfA``, ``kBlocksOfB`` with their counts.

    A turn's factors are numbers of sources: first the blocks used as they lie, then the planes.
    """
    left, right = sources(schedule)
    turns: list[str] = []
    publications: list[str] = []
    kinds = [kind_of(p) for turn in schedule.turns for p in turn.publications]
    for turn in schedule.turns:
        fields = (
            left.index(turn.a),
            right.index(turn.b),
            int(turn.clear),
            int(turn.plain),
            len(publications),
            len(turn.publications),
        )
        turns.append(f"{{{', '.join(map(str, fields))}}}")
        for p in turn.publications:
            row, column = divmod(p.block, schedule.plan.format.n)
            publications.append(f"{{{row}, {column}, {p.slot}, {kind_of(p)}, {p.coefficient}.f}}")
    blocks = [[str(operand.index) for operand in side if not operand.plane] for side in (left, right)]
    counts = [f"kPlainA = {len(blocks[0])}", f"kPlanesA = {len(schedule.planes_a)}"]
    counts += [f"kPlainB = {len(blocks[1])}", f"kPlanesB = {len(schedule.planes_b)}"]
    counts += [f"kTurnCount = {len(turns)}", f"kPublicationCount = {len(publications)}", f"kSlots = {schedule.slots}"]
    counts += [f"kBoundary = {schedule.boundary}", f"kCarried = {schedule.carried}"]
    counts += [
        f"k{name} = {kinds.count(kind)}" for name, kind in (("Adds", ADD), ("Wholes", WHOLE), ("Resumes", RESUME))
    ]
    counts += [f"kMostAtOnce = {max(len(turn.publications) for turn in schedule.turns)}"]
    return "\n".join(
        [
            "// a, b: sources, first the blocks that are read where they lie, then the planes.",
            "struct Turn { short a, b; bool clear, plain; short first, count; };",
            "// kPark: the first of several writes to a block; kAdd; kFinish: the last one; kWhole: the only one;",
            "// kResume: what the slot holds is added to the accumulator.",
            "enum Kind { kPark, kAdd, kFinish, kWhole, kResume };",
            "struct Publication { short row, column, slot, kind; float coefficient; };  // of blocks of C",
            f"[[maybe_unused]] constexpr int {', '.join(counts)};",
            _array("[[maybe_unused]] constexpr int", "kBlocksOfA", blocks[0], "kPlainA"),
            _array("[[maybe_unused]] constexpr int", "kBlocksOfB", blocks[1], "kPlainB"),
            _array("__constant__ const Turn", "kTurns", turns, "kTurnCount"),
            _array("__constant__ const Publication", "kPublications", publications, "kPublicationCount"),
        ]
    )


def _array(kind: str, name: str, items: list[str], count: str) -> str:
    if not items:  # C++ has no arrays of no elements
        return f"{kind} {name}[1] = {{}};  // none"
    lines = [", ".join(items[i : i + 6]) for i in range(0, len(items), 6)]
    return f"{kind} {name}[{count}] = {{\n    " + ",\n    ".join(lines) + "};"
