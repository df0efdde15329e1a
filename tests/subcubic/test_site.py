import json
import re
import zipfile
from dataclasses import replace

import numpy as np
import pytest

from catalog import formats
from catalog.formats import json_format
from catalog.formulas import formulas
from catalog.known import classical, strassen, winograd
from catalog.provenance import Provenance
from catalog.rows import summarise
from catalog.scheme import Format, Ring, Scheme
from catalog.store import Catalog
from catalog.transform import extend
from subcubic.site import matrices, ranks
from subcubic.site.pages import script_json
from tests.subcubic.site_pages import Page, pages, target

EVIL = "</script><script>alert('x')</script><!-- \"'&> \u2028 \\end{x} % \ud800"


def halved() -> Scheme:
    """A scheme over Q: Strassen's with U doubled and a denominator of 2."""
    plain = strassen()
    return Scheme(plain.format, Ring.Q, 2 * plain.U + 0, plain.V, plain.W, denominators=(2, 1, 1))


@pytest.fixture
def stocked(home):
    catalog = Catalog()
    made = Provenance("test", source=EVIL, discoverer=EVIL, citation=EVIL, licence=EVIL, options={EVIL: EVIL})
    first = catalog.add(strassen(Ring.F2), made).id
    child = Provenance("extend", parents=(first, "f" * 64))
    schemes = [extend(strassen(Ring.F2), "n"), classical(Format(2, 2, 3)), classical(Format(3, 2, 4)), halved()]
    return [first, *(added.id for added in catalog.add_many((scheme, child) for scheme in schemes))]


@pytest.fixture
def site(cli, stocked, home):
    done = cli("catalog", "site", home / "site", "--json")
    assert done.code == 0, done.err
    return done.json


def test_the_document_counts_what_was_written(site, home):
    files = [path for path in (home / "site").rglob("*") if path.is_file()]
    assert site["path"] == str(home / "site")
    assert site["pages"] == sum(path.suffix == ".html" for path in files) and site["files"] == len(files)
    assert site["bytes"] == sum(path.stat().st_size for path in files)
    # Strassen's scheme over Z and Winograd's form come in addition.
    assert site["schemes"] == 7 and site["pages"] == 2 + 3 + 7 and site["seconds"] > 0
    assert {path.name for path in home.iterdir()} == {"catalog", "site"}


def test_every_link_resolves_and_every_page_is_reached(site, home):
    reached = {(home / "site" / "index.html").resolve()}
    for page in pages(home / "site"):
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids)), f"{page.path} has an id twice"
        for reference in page.references:
            found = target(page, reference)
            assert found.is_file(), f"{page.path.name} leads to {reference}"
            reached.add(found)
            fragment = reference.partition("#")[2]
            if fragment and found == page.path:
                assert fragment in ids
    every = {path.resolve() for path in (home / "site").rglob("*") if path.is_file()}
    assert every - reached == {(home / "site" / "site.json").resolve()}


def test_pages_have_what_readers_and_screen_readers_need(site, home):
    for page in pages(home / "site"):
        tags = [name for name, _ in page.tags]
        assert page.all("html")[0]["lang"] == "en" and tags.count("main") == 1 and tags.count("h1") == 1
        assert {"header", "nav", "footer", "title"} <= set(tags)
        assert all("aria-label" in nav for nav in page.all("nav"))
        levels = [int(name[1]) for name in tags if re.fullmatch("h[1-6]", name)]
        assert all(b <= a + 1 for a, b in zip(levels, levels[1:], strict=False)), f"{page.path}: {levels}"
        for name, attributes in page.tags:
            assert not any(key.startswith("on") for key in attributes), f"{page.path}: a handler in <{name}>"
            assert "style" not in attributes, "the policy of the page forbids it"
            if "tabindex" in attributes and name == "div":
                assert attributes.get("aria-label") or attributes.get("aria-labelledby") in {
                    a.get("id") for _, a in page.tags
                }
        assert not [1 for attributes in page.all("script") if "src" not in attributes]
        assert "row-major, C not transposed" in page.words and "Made by subcubic" in page.words
        assert all(a.get("aria-label") or a.get("aria-hidden") for a in page.all("svg"))


def test_texts_of_strangers_stay_texts(site, home, stocked):
    (path,) = (home / "site" / "schemes").glob(f"*{stocked[0][:16]}.html")
    page = Page(path)
    assert "alert('x')" in page.words and len(page.all("script")) == 1
    for path in (home / "site").rglob("*.html"):
        assert "<script>alert" not in path.read_text()
    data = (home / "site" / "assets" / "schemes.js").read_text(encoding="ascii")
    assert not re.search("[<>&]", data) and "\\u003c/script\\u003e" in data
    rows = json.loads(data.removeprefix("window.SUBCUBIC_SCHEMES = ").rstrip().removesuffix(";"))
    assert any(EVIL in row[-1] for row in rows)
    assert json.loads(script_json({"a": EVIL})) == {"a": EVIL}


def test_a_page_cites_a_scheme_as_an_export_does(cli, site, home, stocked):
    identity = stocked[3]
    exported = cli("export", identity[:16], "--to", "bibtex", "-o", home / "x.bib")
    assert exported.code == 0
    entry = (home / "x.bib").read_text().partition("@misc{")[2].splitlines()[0]
    (page,) = (home / "site" / "schemes").glob(f"*{identity[:16]}.html")
    assert f"@misc{{{entry}" in page.read_text() and identity[:12] in entry


def test_a_page_has_the_additions_that_a_search_found(cli, stocked, home):
    catalog = Catalog()
    for count in (17, 16, "few"):
        catalog.record(stocked[0], {"kind": "additions", "additions": count})
    assert cli("catalog", "site", home / "site").code == 0
    texts = [" ".join(" ".join(Page(path).text).split()) for path in (home / "site" / "schemes").glob("*.html")]
    assert sum("additions found by search 16 " in text for text in texts) == 1
    assert sum("additions found by search" in text for text in texts) == 1
    assert cli("catalog", "show", stocked[0], "--json").json["additions_found"] == 16


def test_downloads_are_the_scheme(site, home, stocked, tmp_path):
    for identity in stocked:
        stored = Catalog().get(identity).scheme
        (archive,) = (home / "site" / "files").glob(f"*{identity[:16]}.npz")
        (text,) = (home / "site" / "files").glob(f"*{identity[:16]}.json")
        for path in (archive, text):
            read = formats.read(path)
            assert (read.ring, read.denominators) == (stored.ring, stored.denominators)
            assert all(np.array_equal(a, b) for a, b in zip(read.factors, stored.factors, strict=True))
        assert json.loads(text.read_text())["id"] == identity


@pytest.mark.parametrize("ring", [Ring.Z, Ring.Q, Ring.F2])
def test_straight_line_formulas_and_numpy_module_multiply(cli, home, stocked, site, ring):
    index = {Ring.Z: 3, Ring.Q: 4, Ring.F2: 1}[ring]
    scheme = Catalog().get(stocked[index]).scheme
    m, k, n = scheme.format
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))
    (path,) = (home / "site" / "files").glob(f"*{stocked[index][:16]}-slp.txt")
    values = {f"a{i + 1}{j + 1}": int(a[i, j]) for i in range(m) for j in range(k)}
    values |= {f"b{i + 1}{j + 1}": int(b[i, j]) for i in range(k) for j in range(n)}
    for line in path.read_text().splitlines()[2:]:
        name, _, expression = line.partition(" = ")
        values[name] = eval(expression, {}, values)
    found = np.array([[values[f"c{i + 1}{j + 1}"] for j in range(n)] for i in range(m)])
    modulus = scheme.ring.modulus
    assert np.array_equal(found % modulus, a @ b % modulus) if modulus else np.array_equal(found, a @ b)
    modules = list((home / "site" / "files").glob(f"*{stocked[index][:16]}.py*"))
    assert len(modules) == (0 if modulus else 1)
    for module in modules:
        space: dict = {}
        exec(unpacked(module), space)
        assert np.array_equal(space["matmul"](a, b), a @ b)


def test_long_texts_come_as_archives(cli, home):
    scheme = classical(Format(4, 4, 5), Ring.F2)
    identity = Catalog().add(scheme, Provenance("test")).id
    assert cli("catalog", "site", home / "site").code == 0
    (path,) = (home / "site" / "files").glob(f"*{identity[:16]}.json.zip")
    read = json_format.loads(unpacked(path))
    assert all(np.array_equal(a, b) for a, b in zip(read.factors, scheme.factors, strict=True))
    # More products than a page shows: the formulas are a file.
    (path,) = (home / "site" / "files").glob(f"*{identity[:16]}.txt*")
    assert unpacked(path).decode().splitlines()[2] == formulas(scheme)[0]
    (page,) = (home / "site" / "schemes").glob(f"*{identity[:16]}.html")
    assert "80 products are too many to show" in Page(page).words


def unpacked(path):
    """The bytes of a download, which an archive may hold."""
    if path.suffix != ".zip":
        return path.read_bytes()
    with zipfile.ZipFile(path) as archive:
        (name,) = archive.namelist()
        assert name == path.stem
        return archive.read(name)


def test_lineage_leads_to_parents_and_children(site, home, stocked):
    (parent,) = (home / "site" / "schemes").glob(f"*{stocked[0][:16]}.html")
    (child,) = (home / "site" / "schemes").glob(f"*{stocked[1][:16]}.html")
    assert parent.name in "".join(Page(child).references) and child.name in "".join(Page(parent).references)
    assert "f" * 64 in Page(child).words and "not in this catalog" in Page(child).words


def test_the_heat_map_says_rank_gap_and_ring(site, home):
    page = Page(home / "site" / "index.html")
    titles = {attributes["title"] for attributes in page.all("a") if "title" in attributes}
    assert "2x2x3 over F2: rank 11, equal to the best known" in titles
    assert "2x2x3 over Z: rank 12, 1 above the best known 11" in titles
    assert "2x3x4 over Z, ternary: rank 24, 4 above the best known 20" in titles
    # Every map has its rows and columns named, and the text twin has the same figures.
    assert "11, known 11 (=)" in page.words and "12, known 11 (+1)" in page.words
    assert all(attributes.get("scope") for attributes in page.all("th"))


def test_shades_follow_the_gap():
    row = summarise("0" * 64, strassen(), Provenance("test"))
    cell = ranks.Cell(row.format, ranks.OVER[2], row, 7, ())
    for rank, shade, mark in ((6, "lower", "\N{MINUS SIGN}1"), (7, "equal", "="), (8, "far", "+1")):
        changed = replace(cell, row=replace(row, rank=rank))
        assert (changed.shade, changed.mark) == (shade, mark)
    large = replace(cell, row=replace(row, rank=101), known=100)
    assert large.shade == "near" and replace(large, known=97).shade == "middle"
    assert replace(cell, known=None).shade == "unknown" and replace(cell, row=None).shade == "none"


def cells_of(picture, paint):
    """The cells that the dashes of a path cover."""
    path = re.search(f'<path {re.escape(paint)} d="M0 0h(\\d+)([^"]*)" stroke-dasharray="([^"]*)"', picture)
    if not path:
        return set()
    width, height = int(path[1]), 1 + path[2].count("v1")
    dashes = [int(length) for length in path[3].split()]
    assert len(dashes) % 2 == 0 and sum(dashes) == height * (width + 1)
    found, place = set(), 0
    for dash, gap in zip(dashes[::2], dashes[1::2], strict=True):
        for step in range(place, place + dash):
            y, x = divmod(step, width + 1)
            assert x < width, "the step to the next row is covered"
            found.add((y, width - 1 - x if y % 2 else x))
        place += dash + gap
    return found


def test_pictures_draw_every_coefficient():
    small = Scheme(Format(1, 1, 1), Ring.Q, [[1, 1, -3]], [[2, 2, 1]], [[1, -1, 0]], denominators=(1, 2, 1))
    drawn = {name: str(picture) for name, picture in matrices.pictures(small)}
    assert cells_of(drawn["U"], 'class="negative"') == {(0, 2)} and ">\N{MINUS SIGN}3</text>" in drawn["U"]
    assert cells_of(drawn["V"], 'class="positive"') == {(0, 2)} and ">+1/2</text>" in drawn["V"]
    assert "2 not zero" in drawn["W"]
    for scheme in (small, winograd(), extend(winograd(), "n"), strassen(Ring.F2), classical(Format(2, 3, 4))):
        for (_, picture), factor, over in zip(
            matrices.pictures(scheme), scheme.factors, scheme.denominators, strict=True
        ):
            for sign, value in (("plus", over), ("minus", -over)):
                expected = {(int(y), int(x)) for y, x in np.argwhere(factor == value)}
                assert cells_of(picture, f'stroke="url(#{sign})"') == expected
