"""How fast a large catalog is listed: ``python -m subcubic.catalog_benchmark``, five minutes for 100,000 schemes."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.sandwich import sandwich
from catalog.scheme import Factor, Format, Scheme
from catalog.store import Catalog
from catalog.transform import extend, kron
from subcubic.output import print_json
from subcubic.version import ROOT, commit

KIND = "catalog"  # of its documents
_BATCH = 2000
_TURNS = 7
# A process between, for the memory of a forked child counts that of its parent.
_TIMER = """
import resource, subprocess, sys, time
began = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, capture_output=True)
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
_ASKED = (
    ("list", "--limit", "50"),
    ("list", "2x2x3", "--limit", "50"),
    ("list", "--ring", "Z", "--max-gap", "4", "--sort", "growth", "--limit", "50"),
    ("list", "--text", "made", "--sort", "cse", "--reverse", "--limit", "50"),
    ("best",),
)


def made(count: int, seed: int = 0) -> Iterator[Scheme]:
    """Small schemes over Z that differ: others of the orbits of known ones, by random unimodular matrices."""
    rng = np.random.default_rng(seed)
    bases = [strassen(), winograd(), extend(strassen(), "n"), extend(winograd(), "m"), classical(Format(2, 2, 2))]
    for number in range(count):
        base = bases[number % len(bases)]
        yield _turned(base, *(_unimodular(rng, size) for size in base.format))


def _unimodular(rng: np.random.Generator, size: int) -> Factor:
    lower, upper = (np.tril(rng.integers(-3, 4, (size, size)), -1) + np.eye(size, dtype=np.int64) for _ in range(2))
    return lower @ upper.T


def _turned(base: Scheme, x: Factor, y: Factor, z: Factor) -> Scheme:
    """As ``catalog.sandwich.sandwich``, by machine integers, which is enough for numbers as small as these."""
    back = [np.rint(np.linalg.inv(one)).astype(np.int64) for one in (x, y, z)]
    sides = ((back[0].T, y), (back[1].T, z), (x, back[2].T))
    return Scheme(
        base.format, base.ring, *(np.kron(p, q) @ one for (p, q), one in zip(sides, base.factors, strict=True))
    )


def measure(count: int) -> dict[str, Any]:
    """Fill a catalog in a temporary folder and time listings of it, each in a process of its own.

    Returns:
        A document with a row for each question: ``asked``, median ``seconds`` of the whole command, and ``peak_bytes``
        of its memory.
    """
    with tempfile.TemporaryDirectory() as folder:
        catalog, began = Catalog(folder), perf_counter()
        schemes = made(count)
        for start in range(0, count, _BATCH):
            batch = [
                (next(schemes), Provenance("made", source=f"{start + i}")) for i in range(min(_BATCH, count - start))
            ]
            catalog.add_many(batch)
        filled = perf_counter() - began
        stored = catalog.compact() and len(catalog.rows())
        rows = [_timed(folder, words) for words in _ASKED]
    return _document(schemes=stored, fill_seconds=filled, rows=rows)


def _timed(folder: str, words: tuple[str, ...]) -> dict[str, Any]:
    command = [sys.executable, "-m", "subcubic", "catalog", *words, "--catalog", folder]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = []
    for _ in range(_TURNS):
        done = subprocess.run(
            [sys.executable, "-c", _TIMER, *command], check=True, capture_output=True, env=environment, text=True
        )
        found.append([float(word) for word in done.stdout.split()])
    seconds, peak = np.median([one[0] for one in found]), max(one[1] for one in found)
    return {"asked": " ".join(words), "seconds": float(seconds), "peak_bytes": int(peak) * 1024}


def proofs(count: int) -> dict[str, Any]:
    """How many 4x4x4 schemes of rank 49 an import reads and proves in a second of one core.

    Returns:
        A document with one row: ``asked``, processor ``seconds``, and ``per_second``.
    """
    from time import process_time

    from catalog.formats import text_flip_graph
    from catalog.formats.readings import read_draft

    rng, base = np.random.default_rng(0), kron(strassen(), strassen())
    bases = [np.eye(4, dtype=np.int64)[rng.permutation(4)] for _ in range(3 * count)]
    files = [text_flip_graph.dumps(sandwich(base, *bases[3 * i : 3 * i + 3])) for i in range(count)]
    began = process_time()
    for data in files:
        (draft,) = text_flip_graph.loads(data)
        read_draft(draft)
    seconds = process_time() - began
    asked = f"read and prove {count} schemes of 4x4x4:49"
    return _document(rows=[{"asked": asked, "seconds": seconds, "per_second": count / seconds}])


def _document(**facts: Any) -> dict[str, Any]:
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    return {"schema_version": 1, "kind": KIND, "created_utc": stamp, "commit": commit(), **facts}


def main() -> int:
    """Measure, print the document, and keep it if a folder is given."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schemes", type=int, default=100_000)
    parser.add_argument("--proofs", type=int, help="instead measure how fast so many 4x4x4 schemes are proved")
    parser.add_argument("--out", type=Path, help="folder to save the document to")
    given = parser.parse_args()
    document = proofs(given.proofs) if given.proofs else measure(given.schemes)
    if given.out:
        from evaluate.report import save

        save({"device": "cpu", **document}, given.out)
    print_json(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
