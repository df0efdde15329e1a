"""The compiled part of the tree search: propose moves, judge them by the slice-rank bound, walk and grow the tree.

The tree is a set of flat arrays. Node s owns the edges s*K .. s*K + K - 1; an edge is a proposed move with its
prior, its own estimate and what was found below it. All estimates are expected lengths of the finished game, so
less is better.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from search.compiled import kernel
from search.games.slice_kernels import subtract_term, tensor_bounds

# Moves proposed at a node.
PROPOSALS = 200


class Tree(NamedTuple):
    """Storage of one tree of S nodes with K = PROPOSALS edges each, and the scratch of its bounds.

    Attributes:
        moves: [S*K, 3] int64, bit masks of the proposed moves.
        length: [S*K] int64, depth after the move plus the bound of what is left: a length that is reached.
        estimate: [S*K] float64, the move's own value.
        prior: [S*K] float64, probabilities that sum to one at each node.
        visits: [S*K] int64.
        total: [S*K] float64, sum of the values backed up.
        child: [S*K] int64, the node below, or -1.
        edges: [S] int64, number of edges of a node.
        path: [S + 1] int64, the edges from the root to the node being visited.
        best_moves: [S + 1, 3] int64, the moves that lead to the shortest length found.
        state: [5] int64: nodes used, shortest length found, number of best moves, length at the root, simulations.
        scratch: [d, 2**d] uint16; ranks and trial_ranks: [3, 2**d] uint16; bases: [3, d] int64; bounds: [3] int64.
    """

    moves: NDArray[np.int64]
    length: NDArray[np.int64]
    estimate: NDArray[np.float64]
    prior: NDArray[np.float64]
    visits: NDArray[np.int64]
    total: NDArray[np.float64]
    child: NDArray[np.int64]
    edges: NDArray[np.int64]
    path: NDArray[np.int64]
    best_moves: NDArray[np.int64]
    state: NDArray[np.int64]
    scratch: NDArray[np.uint16]
    ranks: NDArray[np.uint16]
    trial_ranks: NDArray[np.uint16]
    bases: NDArray[np.int64]
    bounds: NDArray[np.int64]


def allocate(sizes: tuple[int, int, int], nodes: int) -> Tree:
    """Empty storage for a tree of up to ``nodes`` nodes over tensors of these sizes."""
    largest, edges = max(sizes), nodes * PROPOSALS
    integers, floats = (lambda *shape: np.zeros(shape, np.int64)), (lambda *shape: np.zeros(shape, np.float64))
    return Tree(
        moves=integers(edges, 3),
        length=integers(edges),
        estimate=floats(edges),
        prior=floats(edges),
        visits=integers(edges),
        total=floats(edges),
        child=integers(edges),
        edges=integers(nodes),
        path=integers(nodes + 1),
        best_moves=integers(nodes + 1, 3),
        state=integers(5),
        scratch=np.zeros((largest, 1 << largest), np.uint16),
        ranks=np.zeros((3, 1 << largest), np.uint16),
        trial_ranks=np.zeros((3, 1 << largest), np.uint16),
        bases=integers(3, largest),
        bounds=integers(3),
    )


@kernel
def _random(rng):
    """The next 63 bits of a xorshift64 generator (Marsaglia 2003), [1] uint64 state."""
    x = rng[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    rng[0] = x
    return np.int64(x >> np.uint64(1))


@kernel
def _odd(x):
    x ^= x >> 8
    x ^= x >> 4
    x ^= x >> 2
    x ^= x >> 1
    return x & 1 == 1


@kernel
def _propose(tensor, sizes, rng, ranks, bases, move):
    """Draw a rank-one tensor that lowers the rank of some combination M of slices (Wedderburn's rank reduction).

    For bit vectors x, y with y^T M x = 1 the matrix M - (M x)(y^T M) has rank one less; the third factor is any
    vector that pairs to one with the combination. Combinations come half from the cheapest basis, half at random
    with a preference for low rank.

    Returns:
        Whether ``move`` [3] int64 was filled.
    """
    mode = _random(rng) % 3
    count, height, width = sizes[mode], sizes[(mode + 1) % 3], sizes[(mode + 2) % 3]
    start = 0
    for previous in range(mode):
        start += sizes[previous] * sizes[previous + 1]
    combination = 0
    if _random(rng) % 2 == 0:
        for _ in range(2):
            other = 1 + _random(rng) % ((1 << count) - 1)
            if ranks[mode, other] > 0 and (combination == 0 or ranks[mode, other] < ranks[mode, combination]):
                combination = other
    else:
        combination = bases[mode, _random(rng) % count]
    if combination == 0 or ranks[mode, combination] == 0:
        return False
    for _ in range(20):
        y, x = _random(rng) % (1 << height), _random(rng) % (1 << width)
        row_sum, column_sum = np.int64(0), 0
        for j in range(height):
            row = np.int64(0)
            for i in range(count):
                if combination >> i & 1:
                    row ^= np.int64(tensor[start + i * height + j])
            if y >> j & 1:
                row_sum ^= row
            if _odd(row & x):
                column_sum |= 1 << j
        if _odd(row_sum & x):
            free = _random(rng) % (1 << count)
            if not _odd(free & combination):
                bit = _random(rng) % count
                while not combination >> bit & 1:
                    bit = (bit + 1) % count
                free ^= 1 << bit
            move[mode], move[(mode + 1) % 3], move[(mode + 2) % 3] = free, column_sum, row_sum
            return True
    return False


@kernel
def _expand(tree, node, depth, tensor, sizes, rng, wide, sharpness):
    """Give a node its edges. Returns the node's value: the least estimate among them."""
    count, first = PROPOSALS, node * PROPOSALS
    best_length, best_count = tree.state[1], tree.state[2]
    tensor_bounds(tensor, sizes, tree.scratch, tree.ranks, tree.bases, tree.bounds)
    edges, move = 0, np.zeros(3, np.int64)
    for _ in range(2 * count):
        if edges == count:
            break
        if not _propose(tensor, sizes, rng, tree.ranks, tree.bases, move):
            continue
        known = False
        for e in range(first, first + edges):
            if tree.moves[e, 0] == move[0] and tree.moves[e, 1] == move[1] and tree.moves[e, 2] == move[2]:
                known = True
                break
        if not known:
            tree.moves[first + edges] = move
            edges += 1
    tree.edges[node] = edges
    value = np.float64(depth)  # of a node without moves: nothing is left
    for e in range(first, first + edges):
        u, v, w = tree.moves[e, 0], tree.moves[e, 1], tree.moves[e, 2]
        subtract_term(tensor, sizes, u, v, w)
        tensor_bounds(tensor, sizes, tree.scratch, tree.trial_ranks, tree.bases, tree.bounds)
        subtract_term(tensor, sizes, u, v, w)
        least = min(tree.bounds[0], tree.bounds[1], tree.bounds[2])
        mean = (tree.bounds[0] + tree.bounds[1] + tree.bounds[2]) / 3.0
        tree.length[e] = depth + 1 + least
        # The three directions together tell apart positions that the best direction alone finds equal.
        tree.estimate[e] = depth + 1 + (least + wide * mean) / (1.0 + wide)
        tree.visits[e], tree.total[e], tree.child[e] = 0, 0.0, -1
        if e == first or tree.estimate[e] < value:
            value = tree.estimate[e]
        if tree.length[e] < best_length:
            best_length, best_count = tree.length[e], depth + 1
            for step in range(depth):
                tree.best_moves[step] = tree.moves[tree.path[step]]
            tree.best_moves[depth] = tree.moves[e]
    tree.state[1], tree.state[2] = best_length, best_count
    normaliser = 0.0
    for e in range(first, first + edges):
        tree.prior[e] = np.exp((value - tree.estimate[e]) * sharpness)
        normaliser += tree.prior[e]
    for e in range(first, first + edges):
        tree.prior[e] /= normaliser
    return value


@kernel
def simulate(tree, root, sizes, target, simulations, rng, exploration, wide, sharpness):
    """Run PUCT simulations (Silver et al. 2017; priors and values come from the bound, not from a network).

    A new tree is begun when ``tree.state[4]`` is 0, else the tree is continued.

    Args:
        tree: a ``Tree`` with room for all simulations of this game.
        root: [..] uint16, slicings of the position at the root.
        sizes: [3] int64.
        target: stop once a game of this length is found.
        simulations: how many to run.
        rng: [1] uint64, not zero; advanced.
        exploration: PUCT constant.
        wide: weight of the mean of the three directions beside the best of them.
        sharpness: inverse temperature of the priors.
    """
    tensor = root.copy()
    if tree.state[4] == 0:
        tensor_bounds(tensor, sizes, tree.scratch, tree.ranks, tree.bases, tree.bounds)
        least = min(tree.bounds[0], tree.bounds[1], tree.bounds[2])
        tree.state[0], tree.state[1], tree.state[2], tree.state[3] = 0, least, 0, least
    for _ in range(simulations):
        if tree.state[1] <= target:
            return
        tensor[:] = root
        node, depth = 0, 0
        fresh = tree.state[4] == 0
        while not fresh and tree.edges[node] > 0:
            first, visited = node * PROPOSALS, 0
            for e in range(first, first + tree.edges[node]):
                visited += tree.visits[e]
            scale = exploration * np.sqrt(visited + 1.0)
            edge, best_score = first, -np.inf
            for e in range(first, first + tree.edges[node]):
                mean = tree.total[e] / tree.visits[e] if tree.visits[e] > 0 else tree.estimate[e]
                score = scale * tree.prior[e] / (1.0 + tree.visits[e]) - mean
                if score > best_score:
                    edge, best_score = e, score
            subtract_term(tensor, sizes, tree.moves[edge, 0], tree.moves[edge, 1], tree.moves[edge, 2])
            tree.path[depth] = edge
            depth += 1
            if tree.child[edge] < 0:
                tree.state[0] += 1
                node = tree.state[0]
                tree.child[edge] = node
                fresh = True
            else:
                node = tree.child[edge]
        # A node without edges is a finished game and is only counted again.
        value = np.float64(depth)
        if fresh:
            value = _expand(tree, node, depth, tensor, sizes, rng, wide, sharpness)
        for step in range(depth):
            tree.visits[tree.path[step]] += 1
            tree.total[tree.path[step]] += value
        tree.state[4] += 1
