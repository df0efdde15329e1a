"""What the documentation promises: its reader reads a catalog, its commands exist, its pages are all listed."""

import json
import re
import shutil
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from catalog.canonical import digest
from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.sandwich import sandwich
from catalog.scheme import Format, Ring
from catalog.store import Catalog
from subcubic.__main__ import main
from subcubic.starter import shipped
from tests.commands import unknown_words

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(DOCS.glob("*.md"))}
COMMANDS = sorted({line for text in PAGES.values() for line in re.findall(r"^\$ subcubic (.*)$", text, re.MULTILINE)})


@pytest.fixture
def reader():
    (code,) = re.findall(r"^```python\n(import hashlib.*?)^```", PAGES["catalog_format"], re.MULTILINE | re.DOTALL)
    body = code.split("def schemes", 1)[1]
    assert len(body.splitlines()) <= 20, "the page promises a short reader"
    scope: dict = {}
    exec(code, scope)
    return scope["schemes"]


def test_the_reader_of_the_page_reads_a_catalog(reader, tmp_path):
    """Every scheme that it yields multiplies matrices, by no code of ours."""
    rational = sandwich(winograd(Ring.Q), [[1, 2], [-1, 1]], [[3, 0], [0, 1]], [[1, 0], [0, 1]])
    wide = sandwich(strassen(), [[1, 1000], [0, 1]], [[1, 0], [0, 1]], [[1, 0], [0, 1]])
    store = Catalog(tmp_path)
    stored = [winograd(), classical(Format(2, 3, 4)), rational, wide, strassen(Ring.F2)]
    ids = {store.add(scheme, Provenance("test", source="here")).id for scheme in stored}
    store.record(min(ids), {"seconds": 1.0})
    rng = np.random.default_rng(0)
    found = set()
    for identity, ring, (m, k, n), denominators, U, V, W, origin in reader(tmp_path):
        a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))
        c = W @ ((U.T @ a.ravel()) * (V.T @ b.ravel()))
        divisor = int(np.prod(denominators))
        exact = np.array([Fraction(int(x), divisor) for x in c]).reshape(m, n)
        if ring == "F2":
            exact, expected = exact % 2, (a @ b) % 2
        else:
            expected = a @ b
        assert (exact == expected).all() and origin["source"] == "here"
        found.add(identity)
    assert found == ids and len(ids) == 5


def test_the_reader_notices_a_flipped_bit(reader, tmp_path):
    Catalog(tmp_path).add(winograd(), Provenance("test"))
    (shard,) = (tmp_path / "shards").glob("*.h5")
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged"):
        list(reader(tmp_path))


def test_the_tables_name_the_datasets_that_there_are(tmp_path):
    import h5py

    store = Catalog(tmp_path)
    store.add(winograd(), Provenance("test"))
    page = PAGES["catalog_format"]
    (shard,) = (tmp_path / "shards").glob("*.h5")
    for path in (shard, tmp_path / "index.h5"):
        with h5py.File(path) as file:
            assert file["schemes"].compression == (None if path.name == "index.h5" else "gzip")
            for name in [*file, *file.attrs]:
                assert f"`{name}`" in page, name
            for column in file["schemes"].dtype.names:
                assert f"`{column}`" in page, column
            assert file.attrs["format_version"] == "1.0"
    for key in Provenance("test").as_dict():
        assert f"`{key}`" in page, key


def test_canonical_bytes_are_as_the_page_says(tmp_path):
    import hashlib
    import json

    scheme = winograd()
    terms = []
    for u, v, w in zip(*(factor.T.tolist() for factor in scheme.factors), strict=True):
        for factor in (u, v):
            if next(entry for entry in factor if entry) < 0:
                factor[:], w[:] = [-entry for entry in factor], [-entry for entry in w]
        terms.append([u, v, w])
    text = json.dumps([[2, 2, 2], "Z", 1, sorted(terms)], separators=(",", ":"))
    assert hashlib.sha256(text.encode()).hexdigest() == Catalog(tmp_path).add(scheme, Provenance("test")).id


def test_a_scheme_file_can_be_written_by_hand_from_the_page():
    from catalog.formats import json_format

    (section,) = re.findall(r"^## Our files\n(.*?)^## ", PAGES["conventions"], re.MULTILINE | re.DOTALL)
    keys = {
        name for first in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in first.strip("`").split("`, `")
    }
    written = {**dict(zip("UVW", (side.tolist() for side in strassen().factors), strict=True))}
    written |= {"schema_version": 1, "format": "2x2x2", "ring": "Z", "rank": 7, "denominators": [1, 1, 1]}
    assert keys == set(written)
    for key in keys:
        part = json.dumps({name: value for name, value in written.items() if name != key}).encode()
        if key == "denominators":
            assert digest(json_format.loads(part)) == digest(strassen())
        else:
            with pytest.raises(ValueError, match=f"lacks {key}"):
                json_format.loads(part)


def test_every_page_is_in_the_table_of_contents():
    (listed,) = re.findall(r"^```\{toctree\}\n.*?\n\n(.*?)```", PAGES["index"], re.MULTILINE | re.DOTALL)
    assert set(PAGES) - {"index"} == set(listed.split()) - {"api/modules"}


def test_the_guides_have_commands():
    assert len(COMMANDS) >= 15


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_of_the_guides_exists(command, capsys):
    assert unknown_words(command, capsys) == []


# What a guide prints of a command that takes no search, no device and no more than a second.
REPLAYED = {
    command: printed
    for text in PAGES.values()
    for block in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    for command, printed in re.findall(r"^\$ subcubic (.*)\n((?:[^$].*\n)*)", block, re.MULTILINE)
    if re.match(r"catalog (best|show|verify|export)|export", command) and printed
}


def test_the_guides_show_what_quick_commands_print():
    assert len(REPLAYED) >= 8


@pytest.mark.parametrize("command", REPLAYED)
def test_quick_commands_print_what_the_guides_show(command, capsys, monkeypatch, tmp_path):
    """With the catalog that comes with the project; `...` stands for anything."""
    monkeypatch.setenv("SUBCUBIC_CATALOG", str(shipped()))
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == 0
    pattern = re.escape(REPLAYED[command]).replace(re.escape("...\n"), "(?s:.*)").replace(re.escape("..."), ".*")
    assert re.match(pattern, capsys.readouterr().out), REPLAYED[command]


def test_the_configuration_is_that_of_sphinx():
    scope: dict = {}
    exec((DOCS / "conf.py").read_text(), scope)
    assert scope["html_theme"] == "furo" and "myst_parser" in scope["extensions"]


@pytest.mark.slow
def test_the_pages_build_without_a_warning(tmp_path):
    """`make docs` builds the API pages too; here only the written ones, where Sphinx is installed."""
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="the extra docs is not installed")
    import subprocess
    import sys

    shutil.copytree(DOCS, tmp_path / "docs")
    index = tmp_path / "docs" / "index.md"
    index.write_text(index.read_text().replace("api/modules\n", ""))
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "-b", "html", str(tmp_path / "docs"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "catalog_format.html").exists()
