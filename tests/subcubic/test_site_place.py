"""A site is whole or not there, and nobody's files are replaced."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from catalog.files import TEMPORARY_PREFIX
from catalog.known import strassen, winograd
from catalog.provenance import Provenance
from catalog.scheme import Ring
from catalog.store import Catalog
from subcubic.site import place

MADE = Provenance("test")


def fill(path: Path, text: str) -> None:
    with place.replaced(path) as fresh:
        for number in range(50):
            (fresh / f"{number}.html").write_text(text)
        place.mark(fresh, {})


def require_whole(path: Path) -> str:
    """All pages of a site are of one making, which is returned."""
    names = set(json.loads((path / "site.json").read_text())["holds"])
    assert {entry.name for entry in path.iterdir()} == names and len(names) == 51
    (text,) = {(path / name).read_text() for name in names if name != "site.json"}
    return text


def leftovers(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{TEMPORARY_PREFIX}*"))


def test_an_old_site_is_replaced_whole(tmp_path):
    for text in ("first", "second"):
        fill(tmp_path / "site", text)
        assert require_whole(tmp_path / "site") == text
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


def test_without_an_exchange_two_renames_do(tmp_path, monkeypatch):
    monkeypatch.setattr(place, "_exchange", lambda first, second: False)
    test_an_old_site_is_replaced_whole(tmp_path)


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "shown").symlink_to(tmp_path / "real")
    fill(tmp_path / "shown", "a")
    fill(tmp_path / "shown", "b")
    assert (tmp_path / "shown").is_symlink() and require_whole(tmp_path / "real") == "b"


@pytest.mark.parametrize(
    "text", [None, "{", "[]", '{"kind": "other", "holds": []}', '{"kind": "subcubic catalog site"}']
)
def test_other_folders_are_refused(tmp_path, text):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    if text is not None:
        (tmp_path / "mine" / "site.json").write_text(text)
    with pytest.raises(ValueError, match="name a new or empty folder"):
        fill(tmp_path / "mine", "a")
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear" and not leftovers(tmp_path)


def test_a_site_with_a_file_of_somebody_is_refused(tmp_path):
    fill(tmp_path / "site", "a")
    (tmp_path / "site" / "CNAME").write_text("example.org")
    with pytest.raises(ValueError, match="'CNAME', which is not of the site"):
        fill(tmp_path / "site", "b")
    (tmp_path / "site" / "CNAME").unlink()
    assert require_whole(tmp_path / "site") == "a"


@pytest.mark.parametrize("place", ["files/notes.txt", "schemes/mine", "assets/logo.png"])
def test_a_file_of_somebody_among_the_pages_is_kept(cli, home, place):
    Catalog().add(strassen(), MADE)
    build = ("catalog", "site", home / "site", "--results", home)
    assert cli(*build).code == 0 and cli(*build).code == 0
    (home / "site" / place).write_text("dear")
    refused = cli(*build)
    assert refused.code == 1 and f"'{place}', which is not of the site" in refused.err
    assert (home / "site" / place).read_text() == "dear"


def test_a_marker_that_is_no_document_stops_nobody(tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "site.json").write_text("[" * 100_000)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "site.json")
    for name in ("deep", "pipe"):
        with pytest.raises(ValueError, match="name a new or empty folder"):
            fill(tmp_path / name, "a")


def test_a_file_and_a_bad_place_are_refused(cli, home):
    (home / "file").write_text("x")
    Catalog().add(strassen(), MADE)
    for where in ("file", "file/site"):
        done = cli("catalog", "site", home / where)
        assert done.code == 1 and len(done.err.strip().splitlines()) == 1, done.err
    assert (home / "file").read_text() == "x"
    missing = cli("catalog", "site", home / "site", "--results", home / "nowhere")
    assert missing.code == 1 and "nowhere" in missing.err and not (home / "site").exists()


def test_a_failure_keeps_the_old_site(tmp_path):
    fill(tmp_path / "site", "a")
    with pytest.raises(RuntimeError), place.replaced(tmp_path / "site") as fresh:
        (fresh / "index.html").write_text("half")
        raise RuntimeError
    assert require_whole(tmp_path / "site") == "a" and not leftovers(tmp_path)


WRITER = """
import sys
from pathlib import Path
from tests.subcubic.test_site_place import fill
print("ready", flush=True)
for turn in range(100000):
    fill(Path(sys.argv[1]), f"turn {turn}")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no exchange of folders in one step")
def test_killed_at_random_moments_a_site_is_there_and_whole(tmp_path):
    fill(tmp_path / "site", "start")
    rng = random.Random(3)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    seen = set()
    for _ in range(12):
        command = [sys.executable, "-c", WRITER, str(tmp_path / "site")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as writer:
            assert writer.stdout.readline() == "ready\n"
            time.sleep(rng.uniform(0.01, 0.2))
            writer.kill()
        assert writer.returncode == -signal.SIGKILL
        seen.add(require_whole(tmp_path / "site"))
    assert len(seen) > 1
    fill(tmp_path / "site", "end")
    assert require_whole(tmp_path / "site") == "end" and not leftovers(tmp_path)


def test_killed_between_two_renames_the_old_site_comes_back(tmp_path):
    fill(tmp_path / "site", "a")
    (tmp_path / "site").rename(tmp_path / f"{TEMPORARY_PREFIX}site-00-old")
    with pytest.raises(RuntimeError), place.replaced(tmp_path / "site"):
        raise RuntimeError
    assert require_whole(tmp_path / "site") == "a" and not leftovers(tmp_path)


def test_a_full_disk_is_one_sentence_and_keeps_the_old_site(home):
    Catalog().add(strassen(), MADE)
    program = (
        "import resource, sys\nfrom subcubic.__main__ import main\n"
        "if sys.argv[1] != '0': resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
        "sys.exit(main(['catalog', 'site', 'site']))"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    codes = []
    for limit in ("0", "3000"):
        command = [sys.executable, "-c", program, limit]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        codes.append(done.returncode)
    assert codes == [0, 1] and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert "cannot write the site" in done.stderr and "make room" in done.stderr
    assert (home / "site" / "site.json").exists() and not leftovers(home)


def test_a_running_writer_keeps_its_folder(tmp_path):
    with place.replaced(tmp_path / "site") as slow:
        (slow / "page.html").write_text("slow")
        fill(tmp_path / "site", "quick")
        assert (slow / "page.html").read_text() == "slow"
        place.mark(slow, {})
    assert (tmp_path / "site" / "page.html").read_text() == "slow"


def test_damaged_shards_are_left_out_with_a_note(cli, home):
    catalog = Catalog()
    catalog.add(strassen(Ring.F2), MADE)
    shard = next((catalog.path / "shards").glob("*.h5"))
    catalog.add(winograd(Ring.F2), MADE)
    catalog.record(catalog.rows()[0].id, {"device": "x", "row": 3})
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.chmod(0o644)
    shard.write_bytes(data)
    done = cli("catalog", "site", home / "site", "--json")
    assert done.code == 0 and done.json["schemes"] == 3
    assert shard.name in done.json["left_out"][0] and shard.name in done.err
    assert shard.name in (home / "site" / "index.html").read_text()


def test_measurements_that_cannot_be_shown_are_left_out(cli, home):
    catalog = Catalog()
    identity = catalog.add(winograd(), MADE).id
    good = {"format": "2x2x2", "rank": 7, "levels": 1, "path": "cuda", "dtype": "fp32", "M": 64, "N": 64, "K": 64}
    good |= {"seconds": 1e-3, "baseline_seconds": 2e-3, "ratio": 2.0, "ratio_low": 1.9, "ratio_high": 2.1, "pairs": 99}
    good |= {"error_fro": 2e-7, "baseline_error_fro": 1e-7, "regime": "burst"}
    head = {"device": "<b>Card</b>", "created_utc": "2026-01-02T03:04:05+00:00"}
    rows = [good, good | {"M": "many"}, good | {"M": -1}, good | {"seconds": "fast"}, good | {"ratio": "high"}]
    rows += [good | {"M": 10**400}]
    catalog.record_many((identity, {**head, "row": row}) for row in rows)
    catalog.record(identity, {"anything": "else"})
    (home / "results").mkdir()
    full = good | {"plane_dtype": "fp32", "product_dtype": "fp32", "layout": "nn", "operands": "variable"}
    document = head | {"rows": [full | {"id": identity}, full | {"id": "e" * 64}, {"kind": "rate"}]}
    (home / "results" / "one.json").write_text(json.dumps(document))
    done = cli("catalog", "site", home / "site", "--results", home / "results", "--json")
    assert done.code == 0 and done.json["left_out"] == ["5 measured rows lack what a page needs and are left out"]
    text = next((home / "site" / "schemes").glob(f"*{identity[:16]}.html")).read_text()
    assert "&lt;b&gt;Card&lt;/b&gt;" in text and "<b>" not in text
    assert "1 measured row, 2026-01-02" in text and "2.000 [1.900, 2.100]" in text and "x2.00" in text
    assert text.count('class="plot"') == 2
    # A measured scheme of the format that is not stored is told on the format's page.
    assert "1 measured row" in (home / "site" / "formats" / "2x2x2.html").read_text()
    (home / "results" / "two.json").write_text("{")
    again = cli("catalog", "site", home / "site", "--results", home / "results", "--json")
    assert again.code == 0 and "two.json" in again.err
