import re

import pytest

from catalog.formulas import formulas
from codegen.emit import emit
from tests.codegen.finite import finite, hostile
from tests.codegen.schemes import plans
from tests.codegen.test_emit_bibtex import entries

PLANS = plans() | finite()


def tables(text: str) -> list[list[list[str]]]:
    """Rows of cells of every table, without headings; a bar that is escaped separates nothing."""
    found = []
    for block in re.findall(r"(?:^\|.*\|\n)+", text, re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in block.splitlines()]
        assert len({len(row) for row in rows}) == 1, block
        assert all(re.fullmatch(r" -{3,} ", cell) for cell in rows[1])
        found.append([[cell.strip() for cell in row] for row in rows[2:]])
    return found


@pytest.mark.parametrize("name", PLANS)
def test_the_page_has_valid_tables_formulas_and_a_citation(name):
    made = PLANS[name]
    text = emit(made, "markdown")
    (properties,) = tables(text)
    facts = dict(properties)
    assert made.digest in facts["scheme"] and f"rank {made.base.rank} over {made.base.ring}" in facts["format"]
    assert ("growth" in facts) == (not made.base.ring.modulus)
    fenced = re.findall(r"^```text\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert [block.splitlines() for block in fenced] == [formulas(made.scheme)]
    (cited,) = re.findall(r"^```bibtex\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(entries(cited)) == 1
    assert re.findall(r"^#+ (\w+)", text, re.MULTILINE)[1:] == ["Properties", "Formulas", "Provenance", "Citation"]


def test_residues_are_said_to_be_residues():
    assert "residues modulo 3" in emit(PLANS["winograd over F3"], "markdown")
    assert "residues" not in emit(PLANS["rational"], "markdown")


def test_a_provenance_is_a_table_without_markup():
    text = emit(hostile(), "markdown")
    _, provenance = tables(text)
    assert [name for name, _ in provenance] == ["source", "finder", "citation", "licence", "method"]
    assert r"\<b\>" in dict(provenance)["citation"] and text.count("-->") == 1 == text.count("<!--")
    markdown = pytest.importorskip("markdown_it", reason="no markdown-it-py")
    html = markdown.MarkdownIt("commonmark").enable("table").render(text).partition("-->")[2]
    assert html.count("<table>") == 2 and "<b>" not in html and "<em>" not in html
