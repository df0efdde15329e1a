"""How to cite a scheme. Every text may come from strangers, so that none of it can end an entry of BibTeX early."""

from __future__ import annotations

import re

from catalog.provenance import Provenance
from catalog.rows import Row

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{letter: f"\\{letter}" for letter in "#$%&_"},
}


def bibtex(row: Row, made: Provenance) -> str:
    """An entry of type misc."""
    m, k, n = row.format
    fields = {
        "title": f"A scheme of rank {row.rank} over {{{row.ring}}} for the product of {m}x{k} and {k}x{n} matrices",
        "author": f"{{{tex(made.discoverer)}}}" if made.discoverer else "{subcubic}",
        "year": year(made),
        "howpublished": tex(made.source or f"Catalog of subcubic, version {made.version}"),
        "note": tex(_note(row, made)),
        "annote": tex(made.citation),
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    return "\n".join([f"@misc{{subcubic-{row.format}-r{row.rank}-{row.ring}-{row.id[:12]},", *lines, "}"])


def _note(row: Row, made: Provenance) -> str:
    seed = "" if made.seed is None else f", seed {made.seed}"
    commit = "" if made.commit == "unknown" else f", commit {made.commit}"
    return f"SHA-256 {row.id}, method {made.method}{seed}{commit}"


def year(made: Provenance) -> str:
    """The year a scheme was made in, as far as its provenance says it."""
    found = re.match(r"\d{4}", made.created_utc)
    return found[0] if found else ""


def tex(text: str) -> str:
    """A text as TeX shows it, in one line."""
    return "".join(_SPECIAL.get(letter, letter) for letter in " ".join(text.split()))
