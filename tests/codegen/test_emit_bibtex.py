"""Entries are read back by a small parser that, like BibTeX, counts braces and passes over what is outside entries."""

import re
from dataclasses import replace

import pytest

from codegen.emit import emit
from codegen.emit_bibtex import emit_bibtex
from codegen.plan import plan
from tests.codegen.finite import HOSTILE, finite, hostile
from tests.codegen.schemes import plans

PLANS = plans()


def entries(text: str) -> dict[str, dict[str, str]]:
    found, at = {}, 0
    while (at := text.find("@", at)) >= 0:
        kind, key = re.match(r"@(\w+)\{([A-Za-z0-9:.+/-]+),", text[at:]).groups()
        assert kind == "misc" and key not in found
        end = closing(text, text.index("{", at))
        found[key] = fields(text[text.index(",", at) + 1 : end])
        at = end
    return found


def closing(text: str, start: int) -> int:
    depth = 0
    for i in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise AssertionError("a brace is not closed")


def fields(text: str) -> dict[str, str]:
    result = {}
    while found := re.match(r"\s*(\w+)\s*= (?=\{)", text):
        end = closing(text, found.end())
        assert found[1] not in result
        result[found[1]] = text[found.end() + 1 : end]
        text = text[end + 1 :].removeprefix(",")
    assert not text.strip()
    return result


def test_a_known_origin_has_an_entry():
    found = entries(emit(hostile(), "bibtex", version="1.2 (abc)"))
    key = f"scheme-2x2x2-7-Z-{hostile().digest[:12]}"
    assert list(found) == [f"{key}-origin", key]
    origin, record = found.values()
    assert origin["eprint"] == "2212.01175" and origin["archiveprefix"] == "arXiv" and origin["year"] == "2022"
    assert origin["author"] == '{Ana "A" Müller} and {B. \\textbraceleft{}C\\textbraceright{} \\& D\\_E}'
    assert origin["url"] == "https://example.org/a_b?x=1&y=2"
    assert "50\\% of \\#1" in origin["title"]
    assert record["author"] == "{subcubic catalog}" and hostile().digest in record["note"]
    assert record["howpublished"] == "subcubic 1.2 (abc)" and record["year"] == HOSTILE.created_utc[:4]


def test_keys_depend_on_the_scheme_alone():
    others = plan(hostile().base, provenance=replace(HOSTILE, discoverer="someone else", created_utc="1999-01-01"))
    assert list(entries(emit(others, "bibtex", version="9"))) == list(entries(emit(hostile(), "bibtex")))


def test_without_an_origin_there_is_only_the_record():
    for made in (PLANS["strassen"], PLANS["rational"], finite()["winograd over F2"]):
        (record,) = entries(emit(made, "bibtex")).values()
        assert f"of rank 7 over {made.base.ring}" in record["title"]


def test_levels_are_refused():
    with pytest.raises(ValueError, match="names one scheme and knows no levels; leave --levels out"):
        emit(PLANS["winograd2"], "bibtex")


def test_no_at_sign_stands_outside_of_entries():
    text = emit_bibtex(hostile())
    assert text.count("\n@misc{") == 2 and "(at)misc" in text[: text.index("\n@misc{")]
