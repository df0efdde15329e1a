r"""LaTeX text: products and blocks of C in formulas, for a paper to \\input; it needs only amsmath and amssymb."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from codegen.heading import comment, inline, origin
from codegen.plan import Plan

# Symbols of one line, and formulas of one display: TeX breaks pages between displays and sets each of them twice.
_WIDTH, _DISPLAY = 62, 40
_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # Not by a backslash, since BibTeX would count them.
    "{": r"\textbraceleft{}",
    "}": r"\textbraceright{}",
    **{letter: f"\\{letter}" for letter in "&%$#_"},
}
_RINGS = {"F2": r"\mathbb{F}_2", "F3": r"\mathbb{F}_3", "Z": r"\mathbb{Z}", "Q": r"\mathbb{Q}"}


def emit_latex(plan: Plan, version: str = "unknown") -> str:
    r"""A fragment to \\input: a sentence about the scheme, its products M, and the blocks of C as sums of them.

    Long formulas are broken over lines, and many formulas over displays. Over F2 and F3 it says that coefficients
    are residues.

    Args:
        plan: what to compute; over F2 and F3, too.
        version: of the emitting program, for the first lines of the text.
    """
    m, k, n = plan.format
    comma = "," if max(plan.format) > 9 else ""
    a, b, c = (
        [f"{letter}_{{{i}{comma}{j}}}" for i in range(1, rows + 1) for j in range(1, columns + 1)]
        for letter, rows, columns in (("A", m, k), ("B", k, n), ("C", m, n))
    )
    du, dv, dw = plan.scheme.denominators
    products = [f"M_{{{r}}}" for r in range(1, plan.rank + 1)]
    factors = zip(plan.scheme.U.T.tolist(), plan.scheme.V.T.tolist(), strict=True)
    made = [_bracketed(_sum(u, a, du)) + _bracketed(_sum(v, b, dv)) for u, v in factors]
    sums = [_sum(row, products, dw) for row in plan.scheme.W.tolist()]
    return (
        comment(plan, version, "%")
        + "% Use: \\usepackage{amsmath,amssymb} and \\input{THIS FILE}.\n"
        + _sentence(plan)
        + _displays(products, made)
        + "The blocks of $C = AB$, which is not transposed, are\n"
        + _displays(c, sums)
    )


def escaped(text: str) -> str:
    """Plain text for LaTeX."""
    return "".join(_SPECIAL.get(letter, letter) for letter in inline(text))


def _sentence(plan: Plan) -> str:
    m, k, n = plan.format
    base = f"$\\langle {','.join(map(str, plan.base.format))}\\rangle$"
    levels = f", {plan.levels} levels of a {base} scheme" if plan.levels > 1 else ""
    known = origin(plan)
    cited = known.get("citation") or known.get("source")
    modulo = f" Coefficients are residues modulo {plan.base.ring.modulus}." if plan.base.ring.modulus else ""
    return (
        "\\noindent\n"
        f"Product of $A$, cut into ${m}\\times {k}$ blocks, and $B$, cut into ${k}\\times {n}$, with "
        f"{plan.rank} products instead of {plan.format.volume},\nexact over ${_RINGS[plan.base.ring.value]}${levels}"
        + (f" ({escaped(cited)})" if cited else "")
        + f".{modulo}\nIts additions are {plan.additions} after common-subexpression elimination. The products are\n"
    )


def _sum(coefficients: Sequence[int], names: Sequence[str], denominator: int) -> list[str]:
    """The terms of a linear combination, each with its sign; the first has none if it is positive."""
    terms: list[str] = []
    for coefficient, name in zip(coefficients, names, strict=True):
        if coefficient:
            sign = "- " if coefficient < 0 and terms else "-" if coefficient < 0 else "+ " if terms else ""
            terms.append(sign + _scaled(Fraction(abs(coefficient), denominator)) + name)
    return terms or ["0"]


def _scaled(size: Fraction) -> str:
    if size.denominator > 1:
        return f"\\tfrac{{{size.numerator}}}{{{size.denominator}}}"
    return "" if size == 1 else str(size)


def _bracketed(terms: list[str]) -> list[str]:
    """A factor in brackets unless it is one symbol."""
    if len(terms) == 1 and terms[0][0] not in "-\\0123456789":
        return terms
    return [f"{'(' * (i == 0)}{term}{')' * (i == len(terms) - 1)}" for i, term in enumerate(terms)]


def _displays(names: Sequence[str], values: Sequence[Sequence[str]]) -> str:
    formulas = [_formula(name, terms) for name, terms in zip(names, values, strict=True)]
    chunks = [formulas[i : i + _DISPLAY] for i in range(0, len(formulas), _DISPLAY)]
    joined = (" \\\\\n".join(chunk) for chunk in chunks)
    return "".join(f"\\begin{{align*}}\n{text}\n\\end{{align*}}\n" for text in joined)


def _formula(name: str, terms: Sequence[str]) -> str:
    """One formula, broken before the term with which a line would become too long."""
    lines, width = [f"{name} &= {terms[0]}"], _width(terms[0])
    for term in terms[1:]:
        if width + _width(term) > _WIDTH:
            lines.append(f"&\\quad {'{}' if term[0] in '+-' else ''}{term}")
            width = _width(term)
        else:
            lines[-1] += f" {term}"
            width += _width(term)
    return " \\\\\n".join(lines)


def _width(term: str) -> int:
    """About how many symbols wide a term is; signs have room on both sides, and indices and fractions are small."""
    shown = re.sub(r"\\tfrac\{(\d+)\}\{(\d+)\}", lambda found: max(found[1], found[2], key=len), term)
    return len(re.sub(r"[_{}\s]", "", shown)) + (term[0] in "+-")
