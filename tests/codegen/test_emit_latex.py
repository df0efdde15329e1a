"""The formulas of the fragment are read back and evaluated; LaTeX compiles it where there is one."""

import re
import shutil
import subprocess
from fractions import Fraction

import numpy as np
import pytest

from codegen.emit import emit
from codegen.emit_latex import escaped
from codegen.plan import plan
from tests.codegen.finite import finite, hostile
from tests.codegen.schemes import plans

PLANS = {name: made for name, made in (plans() | finite()).items() if made.rank < 100}


def body(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("%"))


def balanced(text: str) -> bool:
    depth = 0
    for found in re.findall(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(found, 0)
        if depth < 0:
            return False
    return depth == 0


def value(side: str, names: dict) -> Fraction:
    """A right-hand side as Python would have it."""
    side = re.sub(r"\\tfrac\{(\d+)\}\{(\d+)\}", r"Fraction(\1, \2)*", side)
    side = re.sub(r"([ABM])_\{([\d,]+)\}", lambda found: f"names['{found[1]}{found[2]}']", side)
    side = re.sub(r"(?<=[\])])\s*(?=[n(])", "*", side)
    side = re.sub(r"(?<![\w'.,])(\d+)(?=names)", r"\1*", side)
    return eval(side, {"names": names, "Fraction": Fraction})


def evaluated(made, text: str):
    """C as the formulas say, and A @ B."""
    m, k, n = made.format
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 10, (m, k)), rng.integers(-9, 10, (k, n))
    comma = "," if max(made.format) > 9 else ""
    names = {
        f"{letter}{i + 1}{comma}{j + 1}": int(x[i, j])
        for letter, x in (("A", a), ("B", b))
        for i, j in np.ndindex(x.shape)
    }
    displays = re.findall(r"\\begin\{align\*\}\n(.*?)\n\\end\{align\*\}", text, re.DOTALL)
    lines = " \\\\\n".join(displays).replace(" \\\\\n&\\quad", "").replace("{}", "").split(" \\\\\n")
    for line in lines:
        name, side = re.fullmatch(r"([MC])_\{([\d,]+)\} &= (.*)", line).group(1, 2), line.split("&= ")[1]
        names["".join(name)] = value(side, names)
    c = [[names[f"C{i}{comma}{j}"] for j in range(1, n + 1)] for i in range(1, m + 1)]
    modulus = made.base.ring.modulus
    return (np.array(c) % modulus, (a @ b) % modulus) if modulus else (np.array(c), a @ b)


@pytest.mark.parametrize("name", PLANS)
def test_the_formulas_are_right(name):
    c, exact = evaluated(PLANS[name], emit(PLANS[name], "latex"))
    assert (c == exact).all()


@pytest.mark.parametrize("name", PLANS)
def test_lines_are_short_and_braces_balanced(name):
    text = emit(PLANS[name], "latex")
    assert balanced(text) and balanced(body(text))
    displays = re.findall(r"\\begin\{align\*\}(.*?)\\end\{align\*\}", text, re.DOTALL)
    assert text.count("\\begin{") == text.count("\\end{") == len(displays)
    for line in "\n".join(displays).splitlines():
        assert len(re.sub(r"\\tfrac|\\quad|[\\{}_&]", "", line)) < 140 and line.count("&") == (line != "")


def test_long_sums_are_broken():
    text = emit(PLANS["winograd2"], "latex")
    assert "&\\quad {}+ M" in text and text.count("\\begin{align*}") > 2


def test_indices_of_two_digits_have_a_comma():
    from catalog.known import classical
    from catalog.scheme import Format

    assert "A_{1,10} B_{10,1}" in emit(plan(classical(Format(1, 10, 1))), "latex")


def test_rings_and_fractions_are_said():
    assert "over $\\mathbb{F}_2$" in (text := emit(PLANS["winograd over F2"], "latex")) and "residues modulo 2" in text
    assert "\\tfrac{" in emit(PLANS["rational"], "latex")


def test_plain_text_is_escaped():
    assert escaped("50% #1 a_b {x} \\ ~ ^ & $") == (
        r"50\% \#1 a\_b \textbraceleft{}x\textbraceright{} \textbackslash{} \textasciitilde{} \textasciicircum{} \& \$"
    )
    text = emit(hostile(), "latex")
    assert balanced(body(text)) and "50\\% of \\#1" in text


@pytest.mark.parametrize("made", [PLANS["winograd2"], PLANS["rational"], PLANS["winograd over F2"], hostile()])
def test_latex_compiles_it(made, tmp_path):
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex")
    (tmp_path / "scheme.tex").write_text(emit(made, "latex"), encoding="utf-8")
    main = "\\documentclass{article}\\usepackage{amsmath,amssymb}\\begin{document}\\input{scheme}\\end{document}"
    (tmp_path / "main.tex").write_text(main)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "main"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert "Overfull" not in done.stdout
