"""BibTeX entries of a scheme: the work that it comes from, where that is known, and its record in this catalog."""

from __future__ import annotations

import re
import unicodedata

from catalog.provenance import Provenance
from catalog.scheme import Format, Ring
from codegen.emit_latex import escaped
from codegen.heading import comment, inline
from codegen.plan import Plan

_YEAR = re.compile(r"\b(1[89]\d\d|20\d\d)\b")
_ADDRESS = re.compile(r"https?://[^\s,;)\]}>]+")
_ARXIV = re.compile(r"\barxiv[:\s./a-z]*(\d{4}\.\d{4,5}|[a-z-]+/\d{7})", re.I)


def emit_bibtex(plan: Plan, version: str = "unknown", heading: bool = True) -> str:
    """An entry for the scheme's citation or discoverer, if one is known, and one for its record.

    Keys depend on the scheme alone: ``scheme-FORMAT-RANK-RING-ID`` for the record, the same with ``-origin`` for the
    work. What the provenance says is escaped; addresses are as they are.

    Args:
        plan: what to cite; one level.
        version: of the emitting program.
        heading: whether the first lines say what the scheme is.

    Raises:
        ValueError: several levels, since an entry names one scheme.
    """
    if plan.levels > 1:
        raise ValueError("a BibTeX entry names one scheme and knows no levels; leave --levels out")
    base = plan.base
    entries = bibtex_entries(base.format, base.rank, base.ring, plan.digest, plan.provenance, version)
    # BibTeX has no comments: it passes over all that stands between entries and has no at sign.
    first = comment(plan, version, "%").replace("@", "(at)") + "\n" if heading else ""
    return first + entries


def bibtex_entries(format: Format, rank: int, ring: Ring, identity: str, known: Provenance | None, version: str) -> str:
    """The entries of ``emit_bibtex`` for a scheme of which only facts are at hand.

    Args:
        format: of the scheme.
        rank: its number of products.
        ring: of its coefficients.
        identity: its id.
        known: where it comes from.
        version: of this program.
    """
    key = f"scheme-{format}-{rank}-{ring}-{identity[:12]}"
    what = f"a {format} matrix multiplication scheme of rank {rank} over {ring}"
    record = {
        "title": f"{{{what[0].upper()}{what[1:]}}}",
        "author": "{subcubic catalog}",
        "howpublished": f"subcubic {escaped(version)}",
        "note": f"SHA-256 of the canonical bytes: {identity}",
        **_year(known.created_utc if known else ""),
    }
    return "\n".join([*_origin(known, f"{key}-origin", what), _entry(key, record)])


def _origin(known: Provenance | None, key: str, what: str) -> list[str]:
    """The entry of the work, or none."""
    if known is None or not (inline(known.citation) or inline(known.discoverer)):
        return []
    citation, finder, source = (inline(text) for text in (known.citation, known.discoverer, known.source))
    told = " ".join((citation, source))
    fields = {"title": f"{{{escaped(citation or f'Discovery of {what}')}}}"}
    if finder:
        names = re.split(r"\s*;\s*|\s+and\s+", finder)
        fields["author"] = " and ".join(f"{{{escaped(name)}}}" for name in names if name)
    if found := _ARXIV.search(told):
        fields |= {"eprint": found[1], "archiveprefix": "arXiv"}
    if found := _ADDRESS.search(told):
        fields["url"] = _bare(found[0])
    if source and source != fields.get("url"):
        fields["note"] = f"Taken from {escaped(source)}"
    return [_entry(key, fields | _year(citation))]


def _entry(key: str, fields: dict[str, str]) -> str:
    lines = "".join(f"  {name:<12} = {{{value}}},\n" for name, value in fields.items())
    return f"@misc{{{_key(key)},\n{lines}}}\n"


def _key(text: str) -> str:
    """Letters that every BibTeX takes in a key."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9:.+/-]", "-", plain)


def _year(text: str) -> dict[str, str]:
    found = _YEAR.search(text)
    return {"year": found[1]} if found else {}


def _bare(address: str) -> str:
    """An address without braces, and without the point that ends a sentence."""
    return re.sub(r"[{}\\]", "", address).rstrip(".")
