"""Writers of the formats of other projects that are no formulas: arrays, JSON and sparse matrices.

Each says what its format cannot hold. Letters in shapes: m, k, n the sizes, r the rank, d = m*k = k*n = m*n.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from catalog.formats.text_common import require_ring, transposed_order, written
from catalog.scheme import Ring, Scheme

# Integers up to here are exact in float64.
_EXACT = 1 << 53


def alphatensor_npz(scheme: Scheme) -> bytes:
    """AlphaTensor's archive (Fawzi et al., 2022): one array named "m,k,n", C transposed.

    The array is [3, d, r] where the three matrices have one shape, else an array of three objects, which can only be
    loaded with allow_pickle=True, as AlphaTensor's own. Fractions are float64.

    Raises:
        ValueError: the scheme is over F3, or a coefficient is not exact in float64.
    """
    require_ring(scheme, "an AlphaTensor archive", Ring.F2, Ring.Z, Ring.Q)
    mats: list[Any] = [scheme.U, scheme.V, scheme.W[transposed_order(scheme)]]
    if scheme.denominator > 1:
        peak = max(int(np.abs(mat).max(initial=0)) for mat in mats)
        if peak >= _EXACT or any(d & (d - 1) for d in scheme.denominators):
            raise ValueError(
                f"an AlphaTensor archive holds fractions as float64, which is not exact with denominators "
                f"{scheme.denominators}; use json"
            )
        mats = [mat / denominator for mat, denominator in zip(mats, scheme.denominators, strict=True)]
    if len({mat.shape for mat in mats}) == 1:
        stored = np.stack(mats)
    else:
        stored = np.empty(3, dtype=object)
        stored[:] = mats
    buffer = io.BytesIO()
    named: dict[str, Any] = {",".join(map(str, scheme.format)): stored}
    np.savez(buffer, **named)
    return buffer.getvalue()


def perminov_json(scheme: Scheme) -> bytes:
    """The JSON of FastMatrixMultiplication: "u", "v", "w" as r rows each, C transposed, fractions as text "p/q".

    Raises:
        ValueError: the scheme is over F3.
    """
    require_ring(scheme, "a FastMatrixMultiplication document", Ring.F2, Ring.Z, Ring.Q)
    used = sum(int(np.count_nonzero(factor)) for factor in scheme.factors)
    order = transposed_order(scheme)
    heading = {
        "n": list(scheme.format),
        "m": scheme.rank,
        "z2": scheme.ring is Ring.F2,
        "complexity": used - 2 * scheme.rank - len(order),
    }
    lines = [f"    {json.dumps(key)}: {json.dumps(value)}" for key, value in heading.items()]
    for mode, name in enumerate("uvw"):
        rows = written(scheme, mode)
        rows = [rows[entry] for entry in order] if name == "w" else rows
        terms = (", ".join(f'"{x}"' if "/" in x else x for x in term) for term in zip(*rows, strict=True))
        lines.append(f'    "{name}": [\n' + ",\n".join(f"        [{term}]" for term in terms) + "\n    ]")
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def flip_cpd_npy(scheme: Scheme) -> bytes:
    """The array of flip-cpd (Khoruzhii, Gelss and Pokutta, 2025): [1, 6*d*r] int64, C not transposed.

    U, V and W follow each other, term after term, every coefficient as numerator and denominator.

    Raises:
        ValueError: the scheme is over F2 or F3, or the matrices are not square.
    """
    require_ring(scheme, "a flip-cpd array", Ring.Z, Ring.Q)
    if len(set(scheme.format)) > 1:
        raise ValueError(f"a flip-cpd array holds square formats only, not {scheme.format}; use json")
    blocks = []
    for factor, denominator in zip(scheme.factors, scheme.denominators, strict=True):
        common = np.gcd(factor.T, denominator)
        blocks.append(np.stack([factor.T // common, denominator // common], axis=2).ravel())
    buffer = io.BytesIO()
    np.save(buffer, np.concatenate(blocks)[None].astype(np.int64))
    return buffer.getvalue()


def flip_cpd_text(scheme: Scheme) -> bytes:
    """The text of flip-cpd: ``m1 = (a1 - a4)(b1 + b4)`` for products, ``c1 = m1 + m2`` for entries, counted row-major.

    Raises:
        ValueError: the scheme is over F2 or F3, or a sum is empty.
    """
    require_ring(scheme, "a flip-cpd text", Ring.Z, Ring.Q)
    u, v, w = (written(scheme, mode) for mode in range(3))
    lines = []
    for term in range(scheme.rank):
        sums = (_sum([row[term] for row in rows], letter) for rows, letter in ((u, "a"), (v, "b")))
        lines.append(f"m{term + 1} = " + "".join(f"({text})" for text in sums))
    lines.append("")
    lines += [f"c{entry} = {_sum(row, 'm')}" for entry, row in enumerate(w, 1)]
    return ("\n".join(lines) + "\n").encode()


def _sum(coefficients: list[str], letter: str) -> str:
    text = ""
    for at, coefficient in enumerate(coefficients, 1):
        if coefficient == "0":
            continue
        value = coefficient.lstrip("-")
        sign = "-" if coefficient.startswith("-") else "+"
        text += (f" {sign} " if text else sign.strip("+")) + ("" if value == "1" else value) + f"{letter}{at}"
    if not text:
        raise ValueError("a product or an entry of C is zero and a flip-cpd text has no zero; use json")
    return text


def plinopt_sms(scheme: Scheme) -> tuple[bytes, bytes, bytes]:
    """The three files of PLinOpt (Dumas, Pernet and Sedoglavic): L [r, m*k], R [r, k*n] and P [m*n, r].

    C is not transposed.

    Raises:
        ValueError: the scheme is over F2 or F3.
    """
    require_ring(scheme, "a PLinOpt triple", Ring.Z, Ring.Q)
    u, v, w = (written(scheme, mode) for mode in range(3))
    left, right = ([list(row) for row in zip(*rows, strict=True)] for rows in (u, v))
    names = ("Left", "Right", "Post")
    first, second, third = (
        _sms(rows, f"{name} matrix of {scheme.format} rank {scheme.rank}")
        for rows, name in zip((left, right, w), names, strict=True)
    )
    return first, second, third


def _sms(rows: list[list[str]], title: str) -> bytes:
    """A sparse matrix: sizes and R, "row column value" from 1 for each entry that is not zero, and "0 0 0"."""
    lines = [f"# {title}", f"{len(rows)} {len(rows[0])} R"]
    lines += [f"{i} {j} {x}" for i, row in enumerate(rows, 1) for j, x in enumerate(row, 1) if x != "0"]
    return ("\n".join([*lines, "0 0 0"]) + "\n").encode()
