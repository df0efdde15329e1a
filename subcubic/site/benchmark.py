"""Measures the site of a large catalog: ``python -m subcubic.site.benchmark``."""

from __future__ import annotations

import json
import resource
import sys
import tempfile
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path

import numpy as np

from catalog.provenance import Provenance
from catalog.sandwich import sandwich
from catalog.scheme import Scheme
from catalog.store import Catalog, Entry
from subcubic.library import RESULTS
from subcubic.output import note
from subcubic.site.build import build
from subcubic.starter import shipped

# What a site of 1,000 schemes may take, in seconds of one core.
_SECONDS, _BYTES = 60.0, 20_000_000
# Base cases are turned; what is composed of them stays as it is, as in a catalog that grows.
_LARGEST = 5


def fill(catalog: Catalog, count: int, seed: int = 0) -> None:
    """Put the starter schemes and sandwiched base cases into a catalog until it holds ``count`` of them."""
    catalog.merge(Catalog(shipped()))
    base = [entry for entry in catalog.entries() if max(entry.scheme.format) <= _LARGEST]
    turned = _turned(base, np.random.default_rng(seed))
    while (missing := count - len(catalog.rows())) > 0:
        catalog.add_many(next(turned) for _ in range(missing))


def _turned(base: Sequence[Entry], rng: np.random.Generator) -> Iterator[tuple[Scheme, Provenance]]:
    """Members of the orbits of schemes, in turn."""
    for entry in cycle(base):
        bases = [_unimodular(size, rng) for size in entry.scheme.format]
        made = Provenance("sandwich", parents=(entry.id,), options={"bases": [b.tolist() for b in bases]})
        yield sandwich(entry.scheme, *bases), made


def _unimodular(size: int, rng: np.random.Generator) -> np.ndarray:
    """A permutation with signs; one row in three times is added to another. [size, size] int64."""
    matrix = np.eye(size, dtype=np.int64)[rng.permutation(size)] * rng.choice([-1, 1], size)
    if size > 1 and rng.integers(3) == 0:
        first, second = rng.permutation(size)[:2]
        matrix[first] += matrix[second]
    return matrix


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the catalog, write its site and print what it took; exit code 1 above the limits."""
    import argparse

    parser = argparse.ArgumentParser(prog="python -m subcubic.site.benchmark", description=__doc__)
    parser.add_argument("--schemes", type=int, default=1000, help="schemes of the catalog")
    parser.add_argument("--output", type=Path, help="keep the site in this folder")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        catalog = Catalog(Path(scratch) / "catalog")
        note(f"making {given.schemes} schemes")
        fill(catalog, given.schemes)
        before = _cpu_seconds()
        built = build(catalog, given.output or Path(scratch) / "site", RESULTS)
        spent = _cpu_seconds() - before
        facts = {
            "schemes": built.schemes,
            "pages": built.pages,
            "files": built.files,
            "bytes": built.bytes,
            "seconds": round(built.seconds, 2),
            "cpu_seconds": round(spent, 2),
            "kilobytes_per_scheme": round(built.bytes / built.schemes / 1000, 2),
        }
    print(json.dumps(facts, indent=1))
    scale = max(1.0, built.schemes / 1000)
    return int(built.bytes > _BYTES * scale or spent > _SECONDS * scale)


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())
