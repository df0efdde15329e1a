"""Processes that only read, while another one adds, compacts and is compacted away under their feet."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from catalog import folder
from catalog import shards as sharding
from catalog.errors import CatalogError
from catalog.provenance import Provenance
from catalog.scheme import Format
from catalog.store import Catalog
from subcubic.catalog_benchmark import made

READERS, SCHEMES = 3, 24
READ = """
import json, sys
from catalog.store import Catalog
from catalog.verify import require_exact
seen, looks = 0, 0
while seen < int(sys.argv[2]):
    catalog = Catalog(sys.argv[1])
    rows = catalog.rows()
    assert len(rows) >= seen and not catalog.damaged(), (len(rows), seen)
    seen, looks = len(rows), looks + 1
    for row in rows[-2:]:
        require_exact(catalog.get(row.id).scheme)
    assert len(list(catalog.entries())) >= seen and len(catalog.measurements()) < seen + int(sys.argv[2])
print(json.dumps({"looks": looks}))
"""


def test_readers_see_ever_more_and_never_an_error(tmp_path):
    path, root = tmp_path / "catalog", Path(__file__).resolve().parents[2]
    writer = Catalog(path)
    writer.add(next(made(1, seed=9)), Provenance("made"))
    words = [sys.executable, "-c", READ, str(path), str(SCHEMES + 1)]
    readers = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=root)
        for _ in range(READERS)
    ]
    try:
        for number, scheme in enumerate(made(SCHEMES)):
            added = writer.add(scheme, Provenance("made"))
            writer.record(added.id, {"number": number})
            if number % 4 == 3:
                writer.compact()
        for reader in readers:
            out, err = reader.communicate(timeout=120)
            assert reader.returncode == 0, err
            assert json.loads(out)["looks"] >= 1
    finally:
        for reader in readers:
            reader.kill()
    assert writer.rows(Format(2, 2, 2)) and writer.fsck().bad == ()
    assert len(writer.measurements()) == SCHEMES


def _vanishing(monkeypatch, times):
    """Let the next ``times`` readings of a shard find it gone, as after a compaction by another process."""
    real, left = sharding.read, [times]

    def read(path):
        if left[0] > 0:
            left[0] -= 1
            raise FileNotFoundError(path)
        return real(path)

    monkeypatch.setattr(sharding, "read", read)
    return left


@pytest.mark.parametrize("look", ["rows", "get", "entries", "measurements"])
def test_a_reader_outlasts_many_compactions_in_a_row(tmp_path, monkeypatch, look):
    catalog = Catalog(tmp_path / "catalog")
    added = catalog.add(next(made(1)), Provenance("made"))
    catalog.record(added.id, {"number": 1})
    if look == "rows":
        (tmp_path / "catalog" / "index.h5").unlink()
    left = _vanishing(monkeypatch, 20)
    found = catalog.get(added.id) if look == "get" else list(getattr(Catalog(catalog.path), look)())
    assert found and left == [0]


def test_shards_that_vanish_for_ever_are_an_error_in_the_end(tmp_path, monkeypatch):
    catalog = Catalog(tmp_path / "catalog")
    catalog.add(next(made(1)), Provenance("made"))
    monkeypatch.setattr(folder, "PATIENCE_SECONDS", 0.05)
    _vanishing(monkeypatch, 10**9)
    with pytest.raises(CatalogError, match="change while they are read; try again"):
        list(catalog.entries())
