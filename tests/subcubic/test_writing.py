"""A disk that is full: the place and the remedy are named, what was there survives, nothing half-made stays."""

import os

import pytest

from subcubic.writing import write_files

SAID = "no space left on device; choose another place or make room"


@pytest.fixture
def full(monkeypatch):
    """Let so many more files be written; then the disk is full."""

    def after(count):
        left, real = [count], os.fsync

        def fsync(descriptor):
            left[0] -= 1
            if left[0] < 0:
                raise OSError(28, "No space left on device")
            real(descriptor)

        monkeypatch.setattr("catalog.files.os.fsync", fsync)

    return after


def test_files_that_belong_together_are_all_there_or_none(tmp_path, full):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one").write_text("old")
    full(4)  # each file and its folder
    for place, left in (("a", None), ("b", ["one"])):
        with pytest.raises(OSError, match=rf"^cannot write .*: {SAID}$"):
            write_files(tmp_path / place, {"one": b"1", "two": b"2", "three": b"3"})
        found = sorted(os.listdir(tmp_path / place)) if (tmp_path / place).exists() else None
        assert found == left
    assert (tmp_path / "b" / "one").read_text() == "old"


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    "words", [("--to", "c", "-o", "w.c"), ("--to", "cuda"), ("--arch", "sm_90a", "--dtype", "bf16", "-o", "new")]
)
def test_an_export_names_the_place_and_leaves_nothing(cli, home, full, words, count):
    cli("catalog", "list")  # makes the catalog
    before = sorted(home.iterdir())
    full(count)
    found = cli("export", "winograd", *words, "--json")
    assert found.code == 1 and found.json["error"].endswith(SAID) and "cannot write " in found.json["error"]
    assert sorted(home.iterdir()) == before


def test_an_older_picture_survives(cli, home, full):
    pytest.importorskip("matplotlib")
    for words in (("catalog", "show", "winograd", "--plot"), ("predict", "winograd", "--size", 4096, "--plot")):
        picture = home / "p.svg"
        picture.write_text("old")
        full(0)
        found = cli(*words, picture)
        assert found.code == 1 and str(picture) in found.err and found.err.strip().endswith("or make room")
        assert picture.read_text() == "old"


def test_a_folder_that_cannot_be_made_is_named(cli, home):
    (home / "file").write_text("")
    words = ("bench", "winograd", "--device", "cpu", "--size", 8, "--out", home / "file" / "x")
    assert f"cannot write {home / 'file' / 'x'}: not a directory; choose another place" in cli(*words).err
    for words in (("--to", "numpy", "-o", "file/x/y.py"), ("--arch", "sm_90a", "--dtype", "bf16", "-o", "file/x")):
        found = cli("export", "winograd", *words)
        assert found.code == 1 and "cannot write file/x" in found.err and "choose another place" in found.err


def test_results_that_cannot_be_kept_name_the_folder(cli, home, full):
    cli("catalog", "list")
    full(0)
    words = ("--device", "cpu", "--size", 8, "--dtype", "bf16", "--levels", 1, "--out", home / "kept")
    found = cli("bench", "winograd", *words)
    assert found.code == 1 and f"cannot write results to {home / 'kept'}: {SAID}" in found.err


@pytest.mark.parametrize(
    ("old", "new", "said"), [("Z", "X", "choose one of F2, F3, Z, Q"), ("", "", "is cut off or no")]
)
def test_a_scheme_file_says_what_to_do(cli, home, old, new, said):
    cli("catalog", "export", "winograd", "-o", "w.json")
    text = (home / "w.json").read_text()
    (home / "w.json").write_text(
        text.replace(f'"ring": "{old}"', f'"ring": "{new}"') if old else text[: len(text) // 2]
    )
    found = cli("catalog", "verify", "w.json")
    assert found.code == 1 and said in found.err


def test_pipes_and_devices_stay_and_links_are_followed(cli, home):
    os.mkfifo(home / "pipe")
    (home / "link.json").symlink_to("target.json")
    (home / "target.json").write_text("old")
    refused = cli("catalog", "export", "strassen", "-o", home / "pipe", "--kind", "json")
    assert refused.code == 1 and f"cannot write {home / 'pipe'}: it is no regular file" in refused.err
    assert (home / "pipe").is_fifo()
    assert cli("catalog", "export", "strassen", "-o", home / "link.json").code == 0
    assert (home / "link.json").is_symlink() and "schema_version" in (home / "target.json").read_text()


def test_an_interrupt_leaves_no_temporary_file(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("catalog.files.os.fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files(tmp_path, {"a": b"1"})
    assert list(tmp_path.iterdir()) == []
