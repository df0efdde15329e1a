"""Files of verdicts that were damaged count as none, whatever is wrong with them."""

import json

import pytest

from evaluate.verdicts import Verdict, Verdicts, _hash

FACTS = {"device": "a card", "options": (("overlap", 2),)}
FOUND = Verdict((8, 8, 8), 1.0, 2.0, 2.0, 1.9, 2.1, 30, 3.0)
ODD = [
    *((name, None) for name in ("pairs", "ratio", "seconds", "baseline_seconds", "setup_seconds", "reason", "shape")),
    *((name, float("nan")) for name in ("setup_seconds", "ratio", "ratio_low")),
    *(("setup_seconds", float("inf")), ("pairs", 10**400), ("ratio", 10**400), ("ratio", "2.0")),
    *(("seconds", -1.0), ("ratio", -7.0), ("pairs", -1), ("pairs", True), ("pairs", 30.0), ("reason", 5)),
    *(("shape", [0, 0, 0]), ("shape", [-1, 8, 8]), ("shape", [True, 8, 8]), ("shape", [8, 8]), ("shape", [8.0, 8, 8])),
    ("another", 1),
]


@pytest.fixture
def file(tmp_path):
    Verdicts(tmp_path).put(FACTS, FOUND)
    (found,) = tmp_path.iterdir()
    return found


def written_again(file, **changes):
    """The file with other contents that claim to be whole."""
    kept = json.loads(file.read_text())
    kept["verdict"] |= changes
    file.write_text(json.dumps({**kept, "sha256": _hash(kept["verdict"])}))
    return Verdicts(file.parent).get(FACTS)


def test_a_verdict_comes_back_in_another_process(file):
    assert Verdicts(file.parent).get(FACTS) == FOUND
    assert written_again(file, reason="nvcc was not found", ratio_low=None, ratio_high=None, seconds=0) is not None


@pytest.mark.parametrize(("name", "value"), ODD)
def test_a_value_that_no_trial_gives_is_no_verdict(file, name, value):
    assert written_again(file, **{name: value}) is None


@pytest.mark.parametrize(("old", "new"), [('"ratio": 2.0', '"ratio": 3.0'), ('"a card"', '"a bard"'), ("sha256", "no")])
def test_a_file_that_was_changed_is_noticed(file, old, new):
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    assert Verdicts(file.parent).get(FACTS) is None
    Verdicts(file.parent).put(FACTS, FOUND)
    assert Verdicts(file.parent).get(FACTS) == FOUND
