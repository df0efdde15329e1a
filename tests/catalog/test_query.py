"""Questions to the index: filters, orders and ties, on a catalog of real schemes."""

import numpy as np
import pytest

from catalog.index import Index, decode, encode
from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.query import SORTS, Query, select
from catalog.scheme import Format, Ring
from catalog.shards import Generator
from catalog.store import Catalog
from catalog.transform import extend
from subcubic.catalog_benchmark import made

MADE = Provenance("formula", source="Some Paper", created_utc="2026-01-02")


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    catalog = Catalog(tmp_path_factory.mktemp("catalog") / "c")
    schemes = [strassen(), winograd(), strassen(Ring.F2), extend(strassen(), "n"), classical(Format(3, 1, 2))]
    catalog.add_many((one, MADE) for one in schemes)
    catalog.add_many((one, Provenance("turned", created_utc="2026-01-01")) for one in made(6))
    catalog.record(catalog.rows(Format(2, 2, 2), Ring.F2)[0].id, {"ratio": 1.5})
    return catalog


def asked(catalog, **query):
    rows, count = catalog.listing(Query(**query))
    assert len(rows) == count
    return rows


def test_filters_are_those_of_the_rows(catalog):
    every = catalog.rows()
    assert {row.id for row in asked(catalog)} == {row.id for row in every}
    for query, wanted in (
        ({"format": Format(2, 3, 1)}, lambda row: row.format.sorted == (1, 2, 3)),
        ({"ring": Ring.F2}, lambda row: row.ring is Ring.F2),
        ({"ring": Ring.F2, "holding": True}, lambda row: row.ring in (Ring.F2, Ring.Z)),
        ({"ternary": True}, lambda row: row.ternary),
        ({"max_rank": 7}, lambda row: row.rank <= 7),
        (
            {"max_gap": 0},
            lambda row: (row.format.sorted, row.rank) in {((2, 2, 2), 7), ((2, 2, 3), 11), ((1, 2, 3), 6)},
        ),
        ({"text": "some paper"}, lambda row: row.source == "Some Paper"),
        ({"text": "TURN"}, lambda row: row.method == "turned"),
        ({"text": every[0].id[:9]}, lambda row: row.id == every[0].id),
        ({"text": "nobody", "max_rank": 7}, lambda row: False),
    ):
        found = {row.id for row in asked(catalog, **query)}
        assert found == {row.id for row in every if wanted(row)}, query
        assert found or query.get("text") == "nobody"


def test_orders_put_the_best_first_and_reverse_turns_them(catalog):
    keys = {
        "rank": lambda row: row.rank,
        "additions": lambda row: row.additions,
        "cse": lambda row: row.additions_cse,
        "growth": lambda row: np.inf if row.growth is None else row.growth,
        "planes": lambda row: row.planes_a + row.planes_b,
        "created": lambda row: row.created,
        "format": lambda row: (row.format.sorted, list(Ring).index(row.ring), row.rank),
    }
    for sort, key in keys.items():
        found = asked(catalog, sort=sort)
        assert [key(row) for row in found] == sorted(key(row) for row in found), sort
        # Over F2 there is no growth: such schemes come last in both orders.
        missing = [row for row in found if sort == "growth" and row.growth is None]
        turned = [row for row in found[::-1] if row not in missing] + missing[::-1]
        assert asked(catalog, sort=sort, reverse=True) == turned
        assert sort != "growth" or 0 < len(missing) < len(found)
    worst = asked(catalog, sort="speed", reverse=True)
    assert worst[0].ring is Ring.F2  # what was never measured is not the slowest
    assert set(keys) | {"gap", "speed"} == set(SORTS)
    assert asked(catalog, sort="speed")[0].ring is Ring.F2  # the only one that was measured
    gaps = [row.rank for row in asked(catalog, sort="gap", format=Format(2, 2, 2))]
    assert gaps == sorted(gaps)
    with pytest.raises(ValueError, match="cannot sort by 'beauty'"):
        catalog.listing(Query(sort="beauty"))


def test_a_limit_counts_the_others_too(catalog):
    rows, count = catalog.listing(Query(sort="rank"), 3)
    assert [row.id for row in rows] == [row.id for row in asked(catalog, sort="rank")[:3]] and count == 11


def test_an_index_of_many_rows_comes_back_and_is_compared_by_what_it_says(catalog, tmp_path):
    index = catalog._folder.load()[0]
    again = decode(tmp_path, encode(index, Generator()))
    turned = np.arange(len(index))[::-1]
    assert (
        again
        == index
        == Index(index.shards, index.table[turned], index.texts[turned], index.words, index.places[turned])
    )
    for name in ("rank", "growth"):
        changed = index.table.copy()
        changed[name][0] += 1
        assert Index(index.shards, changed, index.texts, index.words, index.places) != index
    assert Index(index.shards, index.table, index.texts, index.words[::-1], index.places) != index
    assert index != 3 and select(Index(), Query(sort="gap", text="x")).size == 0
