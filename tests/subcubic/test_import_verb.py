import gzip
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from catalog import formats
from catalog.canonical import digest
from catalog.known import classical, strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from catalog.transform import concatenate, extend
from subcubic import importing
from tests.catalog import foreign_files
from tests.catalog.catalog_examples import corrupted, unimodular

ROW = {"file", "id", "format", "ring", "rank", "convention", "status"}
SLOW_MACHINE_S = 120


def different(count, scheme=None):
    """Exact schemes in several bases."""
    scheme = scheme or concatenate(strassen(), winograd(), "n")
    return [sandwich(scheme, *(unimodular(s, 7 * i + s) for s in scheme.format)) for i in range(count)]


@pytest.fixture
def folder(home):
    """A folder of schemes in every public format, one scheme in a format of its own."""
    path = home / "schemes"
    path.mkdir()
    schemes = different(len(foreign_files.WRITERS))
    for (name, write), scheme in zip(foreign_files.WRITERS.items(), schemes, strict=True):
        (path / name).write_bytes(write(scheme))
    return path, [digest(scheme) for scheme in schemes]


def test_a_folder_of_every_format(cli, folder, home):
    path, ids = folder
    (path / "deep" / "deeper").mkdir(parents=True)
    (path / "deep" / "deeper" / "again.json").write_bytes((path / "perminov").read_bytes())
    (path / ".hidden").write_bytes(b"{")
    done = cli("catalog", "import", path, "--json")
    assert done.code == 0 and done.json["refused"] == []
    rows = done.json["imported"]
    assert all(row.keys() >= ROW for row in rows)
    assert {row["id"] for row in rows} == set(ids) == {row.id for row in Catalog().rows()}
    assert {row["format"] for row in rows} == {"2x2x4"} and {row["rank"] for row in rows} == {14}
    conventions = {os.path.basename(row["file"]): row["convention"] for row in rows}
    assert conventions["perminov"] == "C transposed" and conventions["sms"] == "C row-major"
    assert [row["status"] for row in rows].count("duplicate") == 1
    assert (
        done.json["verified"] == len(rows)
        and done.json["verified_per_second_per_core"] > 0
        and done.json["seconds"] > 0
    )
    assert not done.json["interrupted"]
    assert cli("catalog", "fsck").code == 0


def test_the_report_for_people(cli, folder, home):
    path, _ = folder
    (path / "notes.txt").write_text("not a scheme")
    done = cli("catalog", "import", path)
    assert done.code == 0, "a folder may hold other files"
    heading, *lines = done.out.splitlines()
    assert heading.split() == ["file", "kind", "format", "rank", "ring", "convention", "status", "id"]
    assert len(lines) == len(foreign_files.WRITERS)
    assert "notes.txt is not a scheme file" in done.err and "1 refused" in done.err
    assert cli("catalog", "import", path / "notes.txt").code == 1
    assert cli("catalog", "import", path / "nowhere").code == 1


def test_good_and_bad_schemes_of_one_file(cli, home):
    good, other = (np.array(foreign_files.arrays_of(scheme)) for scheme in (strassen(), winograd()))
    wrong = good.copy()
    wrong[2, 1, 1] *= -1
    wrong[2, 0, 0] += 1
    np.savez(home / "mixed.npz", allow_pickle=True, **{"2,2,2": good, "b": wrong, "c": good[:2], "d": other})
    done = cli("catalog", "import", home / "mixed.npz", "--json")
    assert done.code == 3
    assert [(row["name"], row["status"]) for row in done.json["imported"]] == [("2,2,2", "new"), ("d", "equivalent")]
    assert [row["name"] for row in done.json["refused"]] == ["b", "c"]
    assert "the coefficient of a[" in done.json["refused"][0]["reason"]
    assert all(row["file"].endswith("mixed.npz") for row in done.json["refused"])


def test_provenance_stands_apart_from_the_import(cli, home):
    (home / "s.json").write_bytes(foreign_files.perminov(strassen()))
    given = ("--source", "a collection", "--licence", "CC-BY-4.0", "--discoverer", "V. Strassen", "--citation", "1969")
    (row,) = cli("catalog", "import", home / "s.json", *given, "--json").json["imported"]
    made = Catalog().get(row["id"]).provenance
    assert (made.source, made.licence, made.discoverer) == ("a collection", "CC-BY-4.0", "V. Strassen")
    assert (made.citation, made.method) == ("1969", "import")
    assert made.options == {"file": "s.json", "name": "", "kind": "Perminov JSON", "convention": "C transposed"}
    formats.write(winograd(), home / "own.json")
    (row,) = cli("catalog", "import", home / "own.json", "--json").json["imported"]
    assert Catalog().get(row["id"]).provenance.source == "own.json"


def test_a_triple_is_one_scheme_however_it_is_named(cli, home):
    for letter, data in zip("LRP", foreign_files.sms_files(winograd()), strict=True):
        (home / f"w_{letter}.sms").write_bytes(data)
    names = [home / f"w_{letter}.sms" for letter in "PRL"]
    for given in (names, names[:1], [home]):
        rows = cli("catalog", "import", *given, "--json").json["imported"]
        assert [(row["id"], row["format"]) for row in rows] == [(digest(winograd()), "2x2x2")]
    assert cli("catalog", "verify", names[1]).code == 0


def test_foreign_files_are_schemes_everywhere(cli, home):
    path = home / "packed.gz"
    path.write_bytes(gzip.compress(foreign_files.alphatensor(winograd())))
    shown = cli("catalog", "show", path, "--json").json
    assert (shown["rank"], shown["additions_cse"], shown["id"]) == (7, 15, digest(winograd()))
    assert cli("export", path, "--to", "numpy", "-o", home / "out").code == 0
    wrong = home / "wrong"
    wrong.write_bytes(foreign_files.perminov(corrupted(concatenate(winograd(), strassen(), "m"), 2, 1, 1)))
    done = cli("catalog", "verify", wrong, "--json")
    assert done.code == 3 and done.json["exact"] is False and "coefficient of a[" in done.json["first_violation"]
    assert cli("export", wrong).code == 3
    np.savez(home / "two.npz", a=np.array(foreign_files.arrays_of(strassen())), b=np.eye(3))
    done = cli("catalog", "verify", home / "two.npz")
    assert done.code == 1 and "holds 2 schemes" in done.err


def test_equivalent_schemes_are_told_by_the_function_that_is_handed_in(home):
    (home / "s.json").write_bytes(foreign_files.perminov(strassen()))
    (home / "w.json").write_bytes(foreign_files.perminov(extend(winograd(), "n")))
    stored = Catalog().add(winograd(), importing.provenance("test")).id
    importer = importing.Importer(Catalog(), {}, lambda scheme: stored if scheme.format == (2, 2, 2) else None)
    assert list(importer.run([(home / "s.json",), (home / "w.json",), (home / "s.json",)], set())) == [1, 2, 3]
    rows = importer.report.imported
    assert [row["status"] for row in rows] == ["equivalent", "new", "duplicate"]
    assert rows[0]["equivalent_to"] == stored and rows[0]["id"] == digest(strassen())


def test_stopping_stores_what_is_proved(home):
    """The stop comes after the second scheme of a file of many."""
    schemes = [concatenate(strassen(Ring.F2), classical(Format(2, 2, 1), Ring.F2), "n")] * 50
    pool = [sandwich(s, *(unimodular(n, 3 * i + n) for n in (2, 2, 3))) for i, s in enumerate(schemes)]
    (home / "pool.npy").write_bytes(foreign_files.flip_cpd_words(pool))
    importer = importing.Importer(Catalog(), {})
    taken = iter(range(1000))
    assert list(importer.run([(home / "pool.npy",)] * 3, set(), lambda: next(taken) >= 1)) == [1]
    assert len(importer.report.imported) == 2
    assert {row["id"] for row in importer.report.imported} == {row.id for row in Catalog().rows()}


def many(folder, count):
    folder.mkdir()
    for number, scheme in enumerate(different(count, strassen())):
        (folder / f"{number:05}.json").write_bytes(foreign_files.perminov(scheme))


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "subcubic", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for_a_shard(process):
    deadline = time.monotonic() + SLOW_MACHINE_S
    while not list((Catalog().path / "shards").glob("*.h5")):
        assert time.monotonic() < deadline and process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def test_ctrl_c_saves_what_is_proved(home):
    many(home / "many", 4 * importing._BATCH)
    process = start("catalog", "import", home / "many", "--json")
    wait_for_a_shard(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=SLOW_MACHINE_S)
    assert process.returncode == 130, err
    document = json.loads(out)
    assert document["interrupted"] and importing._BATCH <= len(document["imported"]) < 4 * importing._BATCH
    assert {row["id"] for row in document["imported"]} == {row.id for row in Catalog().rows()}


def test_kill_9_leaves_whole_batches(home):
    many(home / "many", 3 * importing._BATCH)
    process = start("catalog", "import", home / "many", "--json")
    wait_for_a_shard(process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert Catalog().fsck().bad == () and len(Catalog().rows()) > 0
    again = start("catalog", "import", home / "many", "--json")
    out, err = again.communicate(timeout=SLOW_MACHINE_S)
    assert again.returncode == 0, err
    statuses = [row["status"] for row in json.loads(out)["imported"]]
    assert len(statuses) == 3 * importing._BATCH and "duplicate" in statuses


def test_a_scheme_that_the_catalog_cannot_keep_does_not_take_the_others_along(cli, home):
    document = json.loads(formats.json_format.dumps(strassen()))
    document |= {"ring": "Q", "U": [[x << 62 for x in row] for row in document["U"]]}
    document |= {"V": [[x << 62 for x in row] for row in document["V"]], "denominators": [1 << 124, 1, 1]}
    (home / "wide.json").write_text(json.dumps(document))
    formats.write(winograd(), home / "sound.json")
    found = cli("catalog", "import", home / "wide.json", home / "sound.json", "--json")
    assert found.code == 1
    (refused,) = found.json["refused"]
    assert "a denominator has 125 bits" in refused["reason"]
    assert [row["id"] for row in found.json["imported"]] == [digest(winograd())]


def test_stored_schemes_that_cannot_be_compared_keep_nothing_out(cli, home):
    document = json.loads(formats.json_format.dumps(strassen()))
    prime = (1 << 31) - 1  # invariants are computed modulo it
    document |= {"ring": "Q", "U": [[x * prime for x in row] for row in document["U"]], "denominators": [prime, 1, 1]}
    (home / "prime.json").write_text(json.dumps(document))
    formats.write(strassen(), home / "strassen.json")
    assert cli("catalog", "import", home / "prime.json", home / "strassen.json").code == 0
    for shard in (home / "catalog" / "shards").iterdir():
        shard.write_bytes(shard.read_bytes()[:-1])
    formats.write(winograd(), home / "winograd.json")
    found = cli("catalog", "import", home / "winograd.json", "--json")
    assert found.code == 0 and found.json["imported"][0]["status"] == "new"


def test_a_folder_that_cannot_be_read_or_has_nothing_is_said(cli, home, monkeypatch):
    (home / "in" / "closed").mkdir(parents=True)
    (home / "in" / ".hidden").write_text("x")
    empty = cli("catalog", "import", home / "in")
    assert empty.code == 0 and "there is no file to import" in empty.err
    real = os.scandir

    def scandir(path):  # the superuser may read every folder
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("os.scandir", scandir)
    refused = cli("catalog", "import", home / "in")
    assert refused.code == 1 and f"cannot read the folder {home / 'in' / 'closed'}: permission denied" in refused.err
