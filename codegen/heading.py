"""The first lines of every exported file: which scheme it is, where that comes from, and what wrote the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from catalog.additions import additions_naive

if TYPE_CHECKING:
    from codegen.plan import Plan

# What would end a comment, begin one inside it, or join a line to the next in one of the languages (??/ is a backslash
# of C99).
_UNSAFE = re.compile(r"\*/|/\*|-->|\?\?/")
_PARENTS = 4  # ids shown of those that a scheme was made from


def comment(plan: Plan, version: str, mark: str, further: Mapping[str, str] | None = None) -> str:
    """One line of comment a fact: scheme, format, additions, those of the file, origin, and what emitted it.

    Args:
        plan: what is exported.
        version: of the emitting program.
        mark: what a line of comment begins with, for example "//".
        further: name and text of facts of this kind of file; a name has at most eight letters.

    Returns:
        Lines that end in a line feed. A text of the provenance never ends the comment.
    """
    every = {**identity(plan), **(further or {}), **origin(plan), "emitted": f"by subcubic, version {version}"}
    return "".join(f"{mark} {name:<8} {inline(text)}\n" for name, text in every.items())


def block_comment(plan: Plan, version: str) -> str:
    """The facts as a comment of C that any C compiler takes."""
    return "/*" + comment(plan, version, " *")[2:].removesuffix("\n") + " */\n"


def identity(plan: Plan) -> dict[str, str]:
    """What the scheme is: id, format, rank, ring, levels, additions of blocks."""
    base = plan.base
    return {
        "scheme": f"{plan.digest} (SHA-256 of its canonical bytes)",
        "format": f"{base.format} ({base.format.described}), rank {base.rank} over {base.ring}, levels {plan.levels}",
        "adds": f"{additions_naive(plan.scheme)} naive, {plan.additions} after common-subexpression elimination",
    }


def origin(plan: Plan) -> dict[str, str]:
    """Where the scheme comes from, as far as it is known."""
    known = plan.provenance
    if known is None:
        return {}
    shown = [parent[:12] for parent in known.parents[:_PARENTS]]
    shown += ["..."] if len(known.parents) > _PARENTS else []
    made = known.method + (f" of {', '.join(shown)}" if shown else "")
    facts = {
        "source": known.source,
        "finder": known.discoverer,
        "citation": known.citation,
        "licence": known.licence,
        "method": made + ("" if known.seed is None else f", seed {known.seed}"),
    }
    return {name: text for name, text in facts.items() if inline(text)}


def cell(text: str) -> str:
    """A text as the cell of a table in Markdown, with nothing in it that would be taken for markup."""
    return re.sub(r"([\\`*_\[\]<>|~$])", r"\\\1", inline(text)).replace("&", "&amp;")


def inline(text: str) -> str:
    """A text on one line that is valid UTF-8 and ends no comment of any language."""
    text = "".join(letter if letter.isprintable() else " " for letter in text.encode("utf-8", "replace").decode())
    text = " ".join(text.split()).rstrip("\\ ")
    return _UNSAFE.sub(lambda found: f"{found[0][0]} {found[0][1:]}", text)
