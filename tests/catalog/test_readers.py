"""Processes that only read, while another one adds, compacts and is compacted away under their feet."""

import json
import subprocess
import sys
from pathlib import Path

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
