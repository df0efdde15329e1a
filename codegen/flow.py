"""The loops of a control flow graph.

They are strongly connected components, and those of each again once its entries are cut off, so that code which lies
far from its loop in the text (such as a wait that has to spin) still belongs to it. Nodes are 0, 1, ..., and 0 is where
the program begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Cycle(NamedTuple):
    """One loop.

    Attributes:
        members: all its nodes, with those of the loops inside it.
        entries: its nodes that are reached from outside.
        cut: entries of the loops around it.
    """

    members: set[int]
    entries: set[int]
    cut: frozenset[int]


def loops(edges: Sequence[Sequence[int]]) -> list[Cycle]:
    """All loops that the beginning reaches, by their first node, outer ones before those inside them.

    Args:
        edges: for each node those that may follow it.
    """
    reached: list[int] = []
    _search(0, dict(enumerate(edges)), set(), reached)
    found = []
    waiting = [(set(reached), frozenset[int]())]
    while waiting:
        nodes, cut = waiting.pop()
        for members in _cycles(edges, nodes, cut):
            outside = nodes - members
            entries = {to for node in outside for to in edges[node] if to in members and to not in cut}
            # Without an entry the program itself begins in the loop.
            cycle = Cycle(members, entries or {min(members)}, cut)
            found.append(cycle)
            waiting.append((members, cut | cycle.entries))
    return sorted(found, key=lambda cycle: (min(cycle.members), -len(cycle.members)))


def turns_without(edges: Sequence[Sequence[int]], cycle: Cycle, node: int, through: set[int]) -> bool:
    """Whether there are turns of a loop, back to an entry and through one of some nodes, that do not pass ``node``."""
    parts = _cycles(edges, cycle.members - {node}, cycle.cut)
    return any(part & cycle.entries and part & through for part in parts)


def _cycles(edges: Sequence[Sequence[int]], nodes: set[int], cut: frozenset[int]) -> list[set[int]]:
    """Strongly connected components with an edge, within some nodes and without the edges to others."""
    kept = {node: [to for to in edges[node] if to in nodes and to not in cut] for node in sorted(nodes)}
    return [part for part in _components(kept) if len(part) > 1 or not part.isdisjoint(kept[min(part)])]


def _components(edges: dict[int, list[int]]) -> list[set[int]]:
    """Strongly connected components (Kosaraju's two searches)."""
    backwards: dict[int, list[int]] = {node: [] for node in edges}
    for node, following in edges.items():
        for to in following:
            backwards[to].append(node)
    order: list[int] = []
    seen: set[int] = set()
    for root in edges:
        _search(root, edges, seen, order)
    seen = set()
    components = []
    for root in reversed(order):
        component: list[int] = []
        _search(root, backwards, seen, component)
        if component:
            components.append(set(component))
    return components


def _search(root: int, edges: dict[int, list[int]] | dict[int, Sequence[int]], seen: set[int], left: list[int]) -> None:
    """Depth-first search that notes nodes as it leaves them."""
    if root in seen:
        return
    seen.add(root)
    path = [(root, iter(edges[root]))]
    while path:
        node, following = path[-1]
        to = next((to for to in following if to not in seen), None)
        if to is None:
            left.append(node)
            path.pop()
        else:
            seen.add(to)
            path.append((to, iter(edges[to])))
