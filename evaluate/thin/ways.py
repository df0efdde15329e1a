"""Which tiles and splits of a thin kernel are worth a try: all, or a handful around what its rule takes."""

from __future__ import annotations

from collections.abc import Iterable

from evaluate.thin.kernel import Way

SPLITS = (1, 2, 4, 8, 16)
_HANDFUL = 14


def all_ways(tiles: int) -> list[Way]:
    """Every tile with every split."""
    return [Way(tile, split) for tile in range(tiles) for split in SPLITS]


def handful(rule: Way, square: Way, columns: list[int]) -> list[Way]:
    """What the two rules take first, then the first one's tile with other splits, then other tiles, the nearest first.

    Those get the split that leaves as many blocks as the rule has; then, as far as there is room, half of it and
    twice as much.

    Args:
        rule: tile and split that the kernel takes by itself.
        square: what the rule of square operands takes.
        columns: of C that each tile takes.
    """
    near = [rule, square, *(Way(rule.tile, split) for split in SPLITS if split in (rule.split * 2, rule.split // 2))]
    blocks = rule.split / columns[rule.tile]
    others = sorted(range(len(columns)), key=lambda tile: (abs(columns[tile] - columns[rule.tile]), tile))
    alike = [Way(tile, min(SPLITS, key=lambda split: abs(split / columns[tile] - blocks))) for tile in others]  # noqa: B023
    near += alike
    near += [Way(tile, split) for tile, wanted, _ in alike for split in SPLITS if split in (wanted // 2, wanted * 2)]
    return list(dict.fromkeys(near))[:_HANDFUL]


def distinct(ways: Iterable[Way], most_split: int) -> list[Way]:
    """Those that a device with clusters of at most ``most_split`` blocks can run, each once."""
    return list(dict.fromkeys(way for way in ways if way.split <= most_split))
