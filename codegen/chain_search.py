"""Short chains of many products by local search over runs.

A chain is a set of runs, paths whose links save publications; in which order the runs come does not matter to that
count. The moves of ``codegen.chain_moves`` are made until none gains; then a few runs are cut and joined at random and
the descent starts again from there (iterated local search, Lourenco, Martin, Stuetzle 2003).
"""

from __future__ import annotations

import random

import numpy as np

from codegen.chain_costs import Costs, Run
from codegen.chain_moves import Field

# Work is bounded by the number of looks, so many for each product and fewer where one takes long, never by a clock:
# a scheme has one chain on every machine.
_LOOKS = 32
_FEWEST_LOOKS = 50
_CELLS = 300_000
# How often a perturbation may cost a publication, and how often the search goes back to the best chain.
_LENIENT = 0.3
_RETURN = 0.05


def improve(costs: Costs, starts: list[list[Run]], seed: int = 0) -> list[list[Run]]:
    """The best sets of runs found from the given ones: all of the same cost, the newest last, a few at most.

    Args:
        costs: of the products.
        starts: complete sets of runs to start from.
        seed: of the random perturbations.
    """
    field = Field(costs)
    looks = max(_FEWEST_LOOKS, min(_LOOKS * costs.rank, _CELLS // costs.rank))
    rng = random.Random(seed)
    best: list[list[Run]] = []
    for start in starts:
        runs, used = _descend(field, [], field.cut(start), looks)
        best = _better(field, best, runs)
        looks -= used
    current = best[-1]
    reached = most = field.saved(current)
    while looks > 0:
        kept, shaken = _shake(field, current, rng)
        runs, used = _descend(field, kept, shaken, looks)
        best = _better(field, best, runs)
        looks -= used
        saved = field.saved(runs)
        most = max(most, saved)
        # Now and then a slightly longer chain is accepted, which leads out of dead ends.
        if saved >= reached - (rng.random() < _LENIENT):
            current, reached = runs, saved
        elif reached < most and rng.random() < _RETURN:
            current, reached = best[-1], most
    return best


def greedy(costs: Costs) -> list[Run]:
    """Nearest neighbours: the node that saves most comes next; where none saves, the accumulator is cleared."""
    savings = costs.savings
    usable = costs.free | (np.arange(2 * costs.rank) % 2 == 0)
    cheapest = np.argsort(costs.alone, kind="stable")
    runs: list[Run] = []
    while usable.any():
        gains = np.where(usable, savings[runs[-1][-1]], -1) if runs else np.zeros(1)
        if gains.max() > 0:
            node = int(gains.argmax())
            runs[-1].append(node)
        else:
            node = int(next(x for x in cheapest if usable[x]))
            runs.append([node])
        usable[[node, node ^ 1]] = False
    return runs


def _better(field: Field, best: list[list[Run]], runs: list[Run]) -> list[list[Run]]:
    """``best`` with ``runs`` if they are as good, ``runs`` alone if they are better."""
    if not best or field.saved(runs) > field.saved(best[-1]):
        return [runs]
    if field.saved(runs) < field.saved(best[-1]):
        return best
    return [*best[-7:], runs]


def _descend(field: Field, settled: list[Run], fresh: list[Run], looks: int) -> tuple[list[Run], int]:
    """Make moves until none gains; return the runs and the looks that it took.

    Args:
        field: of the moves.
        settled: runs between which no move gains.
        fresh: runs that are to be looked at.
        looks: at most so many.
    """
    for used in range(1, looks + 1):
        if not fresh:
            return settled, used
        # A look is at a few runs and all their partners: those that come first until they have some nodes together.
        count, nodes = 0, 0
        while count < len(fresh) and nodes < 16:
            nodes += len(fresh[count])
            count += 1
        runs = fresh + settled
        move = field.best(runs, nodes)
        if move is None:
            fresh, settled = fresh[count:], settled + fresh[:count]
        else:
            gone, made = move
            fresh = field.cut(made) + [run for k, run in enumerate(fresh) if k not in gone]
            settled = [run for k, run in enumerate(settled, len(runs) - len(settled)) if k not in gone]
    return fresh + settled, looks


def _shake(field: Field, runs: list[Run], rng: random.Random) -> tuple[list[Run], list[Run]]:
    """Exchange the tails of a few random runs and cut a piece out of one; return the other runs, and the new ones."""
    chosen = rng.sample(range(len(runs)), min(len(runs), rng.randint(2, 4)))
    kept = [run for k, run in enumerate(runs) if k not in chosen]
    pieces = [runs[k] for k in chosen]
    cuts = [rng.randint(0, len(piece)) for piece in pieces]
    made = [
        field.join(piece[:cut], other[further:])
        for piece, cut, other, further in zip(pieces, cuts, pieces[1:] + pieces[:1], cuts[1:] + cuts[:1], strict=True)
    ]
    longest = max(made, key=len)
    made.remove(longest)
    i, j = sorted(rng.sample(range(len(longest) + 1), 2))
    made += [longest[:i] + longest[j:], longest[i:j]]
    return kept, field.cut([run for run in made if run])
