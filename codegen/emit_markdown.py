"""A page about a scheme in Markdown: properties, formulas, provenance and how to cite it."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.formulas import CONVENTION, formulas
from catalog.measures import exponent, growth, planes, stability
from codegen.emit_bibtex import emit_bibtex
from codegen.heading import cell, comment, identity, origin
from codegen.plan import Plan
from codegen.plan import plan as planned


def emit_markdown(plan: Plan, version: str = "unknown") -> str:
    """One page: a table of properties, the formulas as text, a table of provenance, BibTeX entries.

    Args:
        plan: what to describe; over F2 and F3, too.
        version: of the emitting program, for the first lines of the text.
    """
    ring = plan.base.ring
    modulo = f" Coefficients are residues modulo {ring.modulus}." if ring.modulus else ""
    levels = "" if plan.levels == 1 else f", {plan.levels} levels of {plan.base.format}:{plan.base.rank}"
    known = origin(plan)
    base = plan if plan.levels == 1 else planned(plan.base, 1, plan.provenance, any_ring=True)
    text = "\n".join(formulas(plan.scheme))
    return f"""\
<!--
{comment(plan, version, "").replace("--", "- -")}-->

# {plan.format} of rank {plan.rank} over {ring}{levels}

{plan.format.described}, with {plan.rank} products instead of {plan.format.volume}.

## Properties

{_table(_properties(plan))}
## Formulas

{CONVENTION}{modulo}

```text
{text}
```

## Provenance

{_table(known) if known else "Nothing is recorded." + chr(10)}
## Citation

```bibtex
{emit_bibtex(base, version, heading=False)}```
"""


def _properties(plan: Plan) -> dict[str, str]:
    scheme = plan.scheme
    planes_a, planes_b = planes(scheme)
    facts = {
        **identity(plan),
        "exponent": f"{exponent(scheme):.6f}",
        "ternary": "yes" if scheme.is_ternary else "no",
        "planes": f"{planes_a} of A, {planes_b} of B",
    }
    if not scheme.ring.modulus:  # over a finite ring nothing is rounded
        facts |= {"growth": f"{growth(scheme):.4g}", "stability": f"{stability(scheme):.4g}"}
    return facts


def _table(rows: Mapping[str, str]) -> str:
    lines = ["| property | value |", "| --- | --- |", *(f"| {name} | {cell(text)} |" for name, text in rows.items())]
    return "\n".join(lines) + "\n"
