"""Writes a scheme as the public formats have it, so that tests need no foreign files."""

import bz2
import gzip
import io
import json
from fractions import Fraction

import numpy as np

from catalog.formats import read_all
from catalog.known import strassen, winograd
from catalog.sandwich import sandwich
from catalog.scheme import Scheme
from catalog.transform import concatenate, transpose
from tests.catalog.catalog_examples import unimodular

RECTANGLE = sandwich(concatenate(winograd(), strassen(), "n"), *(unimodular(s, s) for s in (2, 2, 4)))


def rows_of(scheme: Scheme, c_transposed: bool) -> list[list[list[Fraction]]]:
    """U, V, W as [term][entry] fractions, W row-major or for C transposed."""
    m, n = scheme.m, scheme.n
    w = scheme.W.reshape(m, n, -1).transpose(1, 0, 2).reshape(m * n, -1) if c_transposed else scheme.W
    factors = (scheme.U, scheme.V, w)
    return [
        [[Fraction(entry, d) for entry in column] for column in factor.T.tolist()]
        for factor, d in zip(factors, scheme.denominators, strict=True)
    ]


def entry(value: Fraction) -> int | str:
    return int(value) if value.denominator == 1 else str(value)


def arrays_of(scheme: Scheme) -> list[np.ndarray]:
    """U, V, W [entries, r], integers or floats, for C transposed; halves and eighths alone are exact there."""
    exact = [np.array(rows, dtype=object).T for rows in rows_of(scheme, True)]
    return [a.astype(float) if scheme.denominator > 1 else a.astype(np.int64) for a in exact]


def alphatensor(scheme: Scheme) -> bytes:
    arrays = arrays_of(scheme)
    stacked = np.empty(3, dtype=object)
    if len({a.shape for a in arrays}) == 1:
        stacked = np.array(arrays)
    else:
        stacked[:] = arrays
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=True, **{",".join(map(str, scheme.format)): stacked})
    return buffer.getvalue()


def named_arrays(scheme: Scheme) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **dict(zip("uvw", arrays_of(scheme), strict=True)))
    return buffer.getvalue()


def document(scheme: Scheme) -> dict:
    u, v, w = ([[entry(x) for x in row] for row in rows] for rows in rows_of(scheme, True))
    z2 = scheme.ring.modulus == 2
    return {"n": list(scheme.format), "m": scheme.rank, "z2": z2, "multiplications": [], "u": u, "v": v, "w": w}


def perminov(scheme: Scheme) -> bytes:
    return json.dumps(document(scheme)).encode()


def reduced(scheme: Scheme) -> bytes:
    """Every sum of two terms or more begins with a new variable for its first two."""
    found = document(scheme)
    found["w"] = [list(column) for column in zip(*rows_of(scheme, True)[2], strict=True)]
    for name in "uvw":
        width, fresh, sums = len(found[name][0]), [], []
        for row in found[name]:
            terms = [{"index": i, "value": entry(Fraction(x))} for i, x in enumerate(row) if x]
            if len(terms) > 1:
                fresh.append(terms[:2])
                terms = [*terms[2:], {"index": width + len(fresh) - 1, "value": 1}]
            sums.append(terms)
        found |= {name: sums, f"{name}_fresh": fresh}
    return json.dumps(found).encode()


def mmc(scheme: Scheme) -> bytes:
    found = document(scheme)
    found |= {"fields": [scheme.ring.value], "commutative": False}
    found["u"] = [[[x, 0] for x in row] for row in found["u"]]
    return json.dumps(found).encode()


def mmc_sparse(scheme: Scheme) -> bytes:
    found = document(scheme)
    found["fields"] = [scheme.ring.value]
    for name in "uvw":
        rows = found.pop(name)
        found[f"{name}_sparse"] = {
            str(t): {"i": [i for i, x in enumerate(row) if x], "c": [x for x in row if x]} for t, row in enumerate(rows)
        }
    return json.dumps(found).encode()


def alphaevolve(scheme: Scheme) -> bytes:
    arrays = ", ".join(f"np.{array!r}" for array in arrays_of(scheme))
    return f"#@title Data\ndecomposition_{scheme.m}{scheme.k}{scheme.n} = ({arrays})\n".encode()


def notebook(scheme: Scheme) -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# About"]},
        {"cell_type": "code", "source": alphaevolve(scheme).decode()},
    ]
    return json.dumps({"cells": cells, "nbformat": 4}).encode()


def sms_files(scheme: Scheme) -> list[bytes]:
    u, v, w = rows_of(scheme, False)
    outputs = [list(column) for column in zip(*w, strict=True)]
    files = []
    for matrix in (u, v, outputs):
        lines = ["# made by a test", f"{len(matrix)} {len(matrix[0])} R"]
        lines += [f"{i} {j} {x}" for i, row in enumerate(matrix, 1) for j, x in enumerate(row, 1) if x]
        files.append("\n".join([*lines, "0 0 0"]).encode())
    return files


def sms(scheme: Scheme) -> bytes:
    return b"\n".join(sms_files(scheme))


def flip_cpd(scheme: Scheme) -> bytes:
    pairs = [(x.numerator, x.denominator) for rows in rows_of(scheme, False) for row in rows for x in row]
    buffer = io.BytesIO()
    np.save(buffer, np.array(pairs, dtype=np.int64).reshape(1, -1))
    return buffer.getvalue()


def flip_cpd_words(schemes: list[Scheme]) -> bytes:
    """A pool over F2 or F3."""
    words = []
    for scheme in schemes:
        for u, v, w in zip(*rows_of(scheme, False), strict=True):
            for row in (u, v, w):
                words.append(sum(1 << i for i, x in enumerate(row) if x == 1))
                if scheme.ring.modulus == 3:
                    words.append(sum(1 << i for i, x in enumerate(row) if x == -1))
    buffer = io.BytesIO()
    np.save(buffer, np.array(words, dtype=np.uint64).reshape(len(schemes), -1))
    return buffer.getvalue()


def flip_cpd_text(scheme: Scheme) -> bytes:
    def text(row: list[Fraction], letter: str) -> str:
        terms = [
            f"{'-' if x < 0 else '+'} {'' if abs(x) == 1 else abs(x)}{letter}{i}" for i, x in enumerate(row, 1) if x
        ]
        return " ".join(terms).removeprefix("+ ") or "0"

    u, v, w = rows_of(scheme, False)
    lines = [f"m{t:<2} = ({text(a, 'a')})({text(b, 'b')})" for t, (a, b) in enumerate(zip(u, v, strict=True), 1)]
    lines.append("")
    lines += [f"c{i} = {text(list(column), 'm')}" for i, column in enumerate(zip(*w, strict=True), 1)]
    return "\n".join(lines).encode()


# Exact for every scheme.
EXACT = {
    "perminov": perminov,
    "reduced": reduced,
    "mmc": mmc,
    "mmc_sparse": mmc_sparse,
    "sms": sms,
    "flip_cpd": flip_cpd,
    "flip_cpd_text": flip_cpd_text,
    "gzip": lambda scheme: gzip.compress(perminov(scheme)),
    "bzip2": lambda scheme: bz2.compress(sms(scheme)),
}
# These print floating point numbers where there are fractions.
DYADIC = {
    "alphatensor": alphatensor,
    "named_arrays": named_arrays,
    "alphaevolve": alphaevolve,
    "notebook": notebook,
}
WRITERS = EXACT | DYADIC


def halved(scheme: Scheme) -> Scheme:
    """The same scheme over Q whose coefficients of A and C are halves and eighths that no scaling of terms clears."""
    u = np.hstack([scheme.U[:, :1], scheme.U[:, :1], scheme.U[:, 1:]])
    v = np.hstack([scheme.V[:, :1], scheme.V[:, :1], scheme.V[:, 1:]])
    w = np.hstack([scheme.W[:, :1], scheme.W[:, :1], 2 * scheme.W[:, 1:]])
    return transpose(transpose(Scheme(scheme.format, "Q", u, v, w, denominators=(1, 1, 2))))


def written(folder, data, name="no-suffix-that-tells"):
    path = folder / name
    path.write_bytes(data)
    return path


def only(path):
    (item,) = read_all(path)
    return item
