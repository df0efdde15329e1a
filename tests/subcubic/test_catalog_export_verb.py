import pytest

from catalog import formats
from catalog.canonical import digest
from catalog.known import strassen, winograd
from catalog.scheme import Ring
from subcubic import catalog_export_verb as verb
from subcubic.catalog_export_verb import KINDS, Kind


def ternary_only(scheme):
    """A writer as the kinds that cannot express everything have it."""
    if not scheme.is_ternary:
        raise ValueError("its coefficients are -1, 0 and 1")
    return b"ternary"


def two_files(scheme):
    return b"left", b"right"


@pytest.fixture
def picky(monkeypatch):
    kinds = {"json": KINDS["json"], "npz": KINDS["npz"], "picky": Kind(f"{__name__}:ternary_only", (".txt",))}
    monkeypatch.setattr(verb, "KINDS", kinds)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_writer_that_can_be_imported(kind):
    made = KINDS[kind].dumps(winograd())
    assert len(made) == len(KINDS[kind].suffixes) and all(isinstance(data, bytes) and data for data in made)
    assert all(suffix.startswith(".") for suffix in KINDS[kind].suffixes)


def test_a_kind_of_ours_is_read_again(cli, home):
    for kind in ("json", "npz"):
        done = cli("catalog", "export", "winograd", "--kind", kind, "-o", home / "any.name", "--json")
        assert done.code == 0 and done.json["path"] == str(home / "any.name") == done.json["files"][kind][0]
        assert digest(formats.read(home / "any.name")) == done.json["id"] == digest(winograd())


def test_a_folder_gets_a_name_that_says_what_it_is(cli, home):
    done = cli("catalog", "export", "winograd", "--kind", "npz", "-o", home, "--json")
    assert done.code == 0 and done.json["path"] == str(home / f"2x2x2-7-Z-{digest(winograd())[:12]}.npz")


def test_all_writes_every_kind_that_can_express_the_scheme(cli, home, picky):
    formats.write(strassen(Ring.F2), home / "f2.json")
    for scheme, kinds in (("strassen", {"json", "npz", "picky"}), (home / "f2.json", {"json", "npz"})):
        done = cli("catalog", "export", scheme, "--kind", "all", "-o", home / "all", "--json")
        assert done.code == 0 and set(done.json["files"]) == kinds
        assert all((home / path).stat().st_size for paths in done.json["files"].values() for path in paths)
        assert set(done.json["refused"]) == {"json", "npz", "picky"} - kinds
    assert "rank 7 over F2): its coefficients are -1, 0 and 1" in done.json["refused"]["picky"]
    assert "left out: a picky file" in cli("catalog", "export", home / "f2.json", "--kind", "all", "-o", "all").err


def test_a_kind_that_cannot_express_a_scheme_says_why(cli, home, picky):
    formats.write(strassen(Ring.F2), home / "f2.json")
    done = cli("catalog", "export", home / "f2.json", "--kind", "picky", "-o", home / "x.txt")
    assert done.code == 1 and not (home / "x.txt").exists()
    said = "a picky file cannot express this scheme (2x2x2 of rank 7 over F2): its coefficients are -1, 0 and 1"
    assert done.err.endswith(f"subcubic: {said}\n")


def test_a_kind_of_several_files_names_each(cli, home, monkeypatch):
    monkeypatch.setattr(verb, "KINDS", {"pair": Kind(f"{__name__}:two_files", (".L.sms", ".R.sms"))})
    done = cli("catalog", "export", "winograd", "--kind", "pair", "-o", home / "w.sms", "--json")
    assert done.json["files"]["pair"] == [str(home / "w.L.sms"), str(home / "w.R.sms")]
    assert ((home / "w.L.sms").read_bytes(), (home / "w.R.sms").read_bytes()) == (b"left", b"right")
    assert cli("catalog", "export", "winograd", "--kind", "all", "-o", home / "all").code == 0
    assert {path.name[-11:] for path in (home / "all").iterdir()} == {".pair.L.sms", ".pair.R.sms"}


def test_a_suffix_that_names_the_kind_is_not_repeated(cli, home):
    assert cli("catalog", "export", "winograd", "--kind", "all", "-o", home / "all").code == 0
    stem = f"2x2x2-7-Z-{digest(winograd())[:12]}"
    names = {path.name for path in (home / "all").iterdir()}
    assert {f"{stem}.L.sms", f"{stem}.json", f"{stem}.perminov.json"} <= names
    # A folder of all kinds is read as what it is: one scheme, many times.
    read = cli("catalog", "import", home / "all", "--json").json
    assert read["refused"] == [] and {row["id"] for row in read["imported"]} == {digest(winograd())}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["-o", "scheme.txt"], "end the name in .json or .npz, or add --kind with one of json, npz"),
        (["-o", "."], "--output . is a folder; add --kind with one of json, npz"),
        (["-o", "x.json", "--kind", "xml"], "unknown kind 'xml' of scheme file; choose one of json, npz"),
        (["-o", "file", "--kind", "all"], "--output file is a file; --kind all writes a folder"),
    ],
)
def test_bad_input_is_one_sentence(cli, home, arguments, says):
    (home / "file").write_text("")
    done = cli("catalog", "export", "winograd", *arguments)
    assert (done.code, says in " ".join(done.err.split())) == (2, True), done.err


def test_an_unwritable_place_is_one_sentence(cli, home):
    (home / "file").write_text("")
    done = cli("catalog", "export", "winograd", "-o", home / "file" / "x.json")
    assert done.code == 1 and "cannot write" in done.err and "choose another place" in done.err
