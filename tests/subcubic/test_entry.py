"""What no verb is asked for: words that cannot be read, values out of range, Ctrl-C before anything runs."""

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import subcubic
from catalog.known import strassen
from catalog.provenance import Provenance
from catalog.store import Catalog
from subcubic.__main__ import main

BIG = "9" * 400


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("search", "2x2x2", "--seed", "x"), "Invalid value 'x' for '--seed'"),
        (("search", "2x2x2", "--seed=x"), "Invalid value 'x' for '--seed'"),
        (("bench", "winograd", "--dtype", "fp7"), "'--dtype': 'fp7' is not one of"),
        (("bench", "winograd", "--limit", "y" * 400), "y...' for '--limit'"),
        (("search", "--nope"), "No such option: --nope"),
        (("nope",), "No such command 'nope'"),
        (("export",), "Missing argument 'SCHEME'"),
    ],
)
def test_words_that_cannot_be_read_are_one_sentence_and_one_document(cli, words, said):
    found = cli(*words)
    assert found.code == 2 and found.out == "" and found.err.count("\n") == 1
    assert said in found.err and "--help` shows what is allowed" in found.err and len(found.err) < 400
    document = cli(*words, "--json")
    assert document.code == 2 and said in document.json["error"] and document.json["exit_code"] == 2


def test_help_and_version_are_as_they_were(cli):
    for words in (("--help",), ("search", "--help"), ("runs", "--help"), ("--version",)):
        found = cli(*words)
        assert found.code == 0 and found.err == "" and found.out
    bare = cli("runs")
    assert bare.code == 2 and "Usage: subcubic runs" in bare.out + bare.err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("catalog", "list", "--ring", ""), "--ring ''"),
        (("search", "2x2x2", "--budget", ""), "--budget ''"),
        (("bench", "winograd", "--set="), "--set=''"),
        (("export", "winograd", "-o", ""), "-o ''"),
        (("catalog", "show", ""), "an argument"),
    ],
)
def test_empty_values_are_refused(cli, words, named):
    found = cli(*words, "--json")
    assert found.code == 2 and found.json["error"] == f"{named} is empty; give it a value or leave it out"


@pytest.mark.parametrize(
    "words",
    [
        *((verb, "winograd", "--levels", value) for verb in ("export", "predict") for value in (13, 9_999_999, BIG)),
        ("bench", "classical-1x1x1", "--device", "cpu", "--levels", 9_999_999),
        ("accuracy", "winograd", "--levels", 9_999_999),
        ("model-check", "winograd", "--size", "tiny", "--device", "cpu", "--levels", BIG),
        *(("bench", "winograd", "--device", "cpu", "--size", value) for value in (BIG, 10**8)),
        *(("bench", "winograd", "--device", "cpu", name, BIG) for name in ("--seeds", "--pairs", "--seed")),
        *(("bench", "winograd", "--device", "cpu", "--shape", value) for value in (f"{BIG},1,1", "2000000,2000000,1")),
        ("bench", "winograd", "--device", "cpu", "--emitter", f"overlap={BIG}"),
        *(("predict", "winograd", "--size", value) for value in (BIG, 10**8)),
        *(("accuracy", "winograd", name, BIG) for name in ("--size", "--seeds", "--seed")),
        ("model-check", "winograd", "--size", "tiny", "--device", "cpu", "--steps", BIG),
        *(("dispatch-check", name, BIG) for name in ("--shapes", "--calls")),
        ("dispatch-check", "--layer", f"1,{BIG}"),
        *(("catalog", "list", name, value) for name in ("--max-gap", "--max-rank") for value in (BIG, f"-{BIG}")),
        *(("search", "2x2x2", name, BIG) for name in ("--steps", "--keep", "--seed", "--target", "--workers")),
        ("search", "2x2x2", "--steps", 10, "--walkers", 10**9),
    ],
)
def test_values_beyond_all_reason_are_usage_errors(cli, words):
    found = cli(*words, "--json")
    assert found.code == 2 and len(found.json["error"]) < 200, found.err
    assert str(words[-2]).lstrip("-") in found.json["error"]


def test_what_measures_nothing_stores_nothing(cli, home, monkeypatch):
    def refuse(*_):
        raise ValueError("no room for such matrices")

    monkeypatch.setattr("evaluate.bench.prepare", refuse)
    words = ("bench", "winograd", "--device", "cpu", "--size", 16, "--dtype", "fp64", "--levels", 1, "--out", "kept")
    found = cli(*words)
    assert found.code == 1 and found.out == "" and not list((home / "kept").iterdir())
    assert found.err.splitlines()[-1].startswith("subcubic: nothing was measured (no room for such matrices)")
    assert "stored" not in found.err.replace("nothing is stored", "")


@pytest.mark.parametrize("option", ["--nvbench", "--counters"])
def test_what_needs_a_gpu_is_refused_on_a_cpu(cli, option):
    found = cli("bench", "winograd", "--device", "cpu", option)
    assert found.code == 2 and f"{option} measures on a GPU" in found.err and found.err.count("\n") == 1


def test_nothing_is_imported_outside_of_what_catches_an_interrupt():
    for name in ("__init__.py", "__main__.py"):
        body = ast.parse(Path(subcubic.__file__).with_name(name).read_text()).body
        imports = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
        assert not any(isinstance(node, ast.ImportFrom) for node in body) and set(imports) <= {"sys"}


@pytest.mark.parametrize("as_json", [False, True])
def test_an_interrupt_while_modules_load_is_a_sentence_and_a_document(cli, monkeypatch, as_json):
    class Interrupting:
        def find_spec(self, name, *_):
            if name == "subcubic.entry":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "subcubic.entry", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    found = cli("catalog", "list", *(["--json"] if as_json else []))
    assert (found.code, found.err) == (130, "subcubic: interrupted\n")
    assert found.json == {"schema_version": 1, "error": "interrupted", "exit_code": 130} if as_json else not found.out


@pytest.mark.parametrize("method", ["resolve_command", "parse_args"])
def test_an_interrupt_while_words_are_read_is_a_sentence_and_a_document(cli, monkeypatch, method):
    from typer.core import TyperGroup

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(TyperGroup, method, interrupted)
    found = cli("catalog", "list", "--json")
    assert found.code == 130 and found.json["error"] == "interrupted" and found.err == "subcubic: interrupted\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_a_search_that_is_compiling(cli, home, monkeypatch, number):
    def compiling(*_):
        os.kill(os.getpid(), number)
        pytest.fail("the compiler went on")

    monkeypatch.setattr("search.find._compile", compiling)
    found = cli("search", "2x2x2", "--ring", "F2", "--steps", 1000, "--json")
    assert found.code == 130 and found.json["error"] == "interrupted"
    (run,) = cli("runs", "list", "--json").json["runs"]
    assert run["status"] == "interrupted"


def test_one_signal_lets_a_block_at_work_finish(cli, monkeypatch):
    from search.events import Done, Started

    def working(_query, _starts, _resume, should_stop):
        yield Started(0.0)
        os.kill(os.getpid(), signal.SIGINT)
        assert should_stop()
        yield Done("interrupted", None, 5, 5, 0.1, False)

    monkeypatch.setattr("subcubic.search_run.find", working)
    found = cli("search", "2x2x2", "--ring", "F2", "--steps", 1000, "--json")
    assert found.code == 130 and found.json["status"] == "interrupted" and found.json["steps"] == 5


def test_main_takes_the_words_of_the_process(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["subcubic", "--version"])
    assert main() == 0 and capsys.readouterr().out.startswith("subcubic ")


def test_a_full_disk_under_stdout_keeps_the_failure_on_stderr():
    words = [sys.executable, "-m", "subcubic", "catalog", "list", "--ring", "X", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "subcubic: unknown ring 'X'; choose one of F2, F3, ZT, Z, Q\n")


def test_without_a_stderr_stdout_stays_one_document(cli, home, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert cli("catalog", "list", "--json").json["count"] == 0  # the note that there is no catalog has no place
    assert cli("catalog", "list", "--ring", "X", "--json").json["exit_code"] == 2


def test_texts_of_strangers_do_not_speak_to_a_terminal(cli, home):
    Catalog().add(strassen(), Provenance("\x1b[31mred\n", source="\x9b1m\u202e"))
    (home / "\x1b[2J\n.json").write_text("{}")
    for words in (("catalog", "list"), ("catalog", "show", "2x2x2"), ("catalog", "import", home)):
        found = cli(*words)
        assert not set("\x1b\x9b\u202e") & set(found.out + found.err), words
    assert "\\x1b[31mred\\n" in cli("catalog", "list").out
    assert cli("catalog", "import", home / "\x1b[2J\n.json").err.count("\n") == 1


@pytest.mark.parametrize("busy", [True, False])
def test_the_end_waits_for_no_compiler(busy):
    """A thread of the player's compiler cannot be interrupted; what was printed is there all the same."""
    program = f"""
import sys, time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from subcubic import __main__

sys.modules["search.player.training"] = SimpleNamespace(COMPILER="a compiler")
sys.argv[1:] = ["--version"]
pool = ThreadPoolExecutor(1, thread_name_prefix="a compiler" if {busy} else "another thread")
pool.submit(time.sleep, 60 if {busy} else 0.5)
__main__.command()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=40)
    assert done.returncode == 0 and done.stdout.startswith("subcubic ") and done.stderr == ""
