"""The README shows what the result files hold, and names only verbs and options that exist."""

import re
from pathlib import Path

import pytest

from subcubic.readme import PAGES, render
from tests.commands import unknown_words

ROOT = Path(__file__).resolve().parent.parent
README, *OTHERS = ((ROOT / page).read_text(encoding="utf-8") for page in PAGES)
TOUR = re.findall(r"^subcubic (.*?)(?:  +#.*)?$", README, re.MULTILINE)


def test_the_tables_are_those_of_the_results():
    assert render([README, *OTHERS], ROOT / "benchmarks" / "results") == [README, *OTHERS], "run `make results`"


def test_a_readme_without_its_places_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no page has a place for the table ranks"):
        render(["# nothing"], tmp_path)


def test_the_example_of_the_library_runs(capsys):
    (example,) = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out.startswith("numpy.matmul: the product is too small for any scheme")


def test_the_tour_has_its_commands():
    assert len(TOUR) >= 9


@pytest.mark.parametrize("command", TOUR)
def test_every_command_of_the_tour_exists(command, capsys):
    assert unknown_words(command, capsys) == []
