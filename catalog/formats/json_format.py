"""A scheme as one JSON document that explains itself."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from catalog.canonical import digest
from catalog.formats.errors import SCHEMA_VERSION, require_denominators, require_version
from catalog.scheme import Factor, Format, Ring, Scheme

CONVENTION = (
    "C = A*B with A m x k, B k x n, C m x n, all flattened row-major, C not transposed; columns of U, V, W are terms: "
    "sum over r of U[a][r]*V[b][r]*W[c][r] / (product of the denominators) is the coefficient of A[a]*B[b] in C[c]"
)


def dumps(scheme: Scheme, identity: str | None = None) -> bytes:
    """The document: schema_version, id, format, ring, rank, denominators, convention, U, V, W as lists of rows.

    The id is the SHA-256 of the canonical bytes; it is for people and other programs, reading does not trust it.

    Args:
        scheme: the scheme.
        identity: its id where that is known, which saves its computation.
    """
    heading = {
        "schema_version": SCHEMA_VERSION,
        "id": identity or digest(scheme),
        "format": str(scheme.format),
        "ring": scheme.ring.value,
        "rank": scheme.rank,
        "denominators": list(scheme.denominators),
        "convention": CONVENTION,
    }
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in heading.items()]
    for name, factor in zip("UVW", scheme.factors, strict=True):
        rows = ",\n".join(f"    {json.dumps(row, separators=(',', ':'))}" for row in factor.tolist())
        lines.append(f'  "{name}": [\n{rows}\n  ]')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def accepts(data: bytes) -> bool:
    """Whether a JSON document is one of ours."""
    return b'"schema_version"' in data


def loads(data: bytes) -> Scheme:
    """The inverse of ``dumps``; unknown keys are ignored.

    Raises:
        ValueError: the document is no JSON, lacks a key, or a value does not fit.
    """
    try:
        document = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:  # of JSON, or of UTF-8
        raise ValueError(f"it is cut off or no JSON ({error}); copy or export it again") from None
    if not isinstance(document, dict):
        raise ValueError("it is no JSON object")
    missing = [key for key in ("schema_version", "format", "ring", "rank", "U", "V", "W") if key not in document]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    require_version(document["schema_version"])
    if not isinstance(document["format"], str):
        raise ValueError(f"format must be text such as 3x4x5, not {_shown(document['format'])}")
    rank = document["rank"]
    if type(rank) is not int:
        raise ValueError(f"rank must be an integer, not {_shown(rank)}")
    denominators = document.get("denominators", [1, 1, 1])
    if not isinstance(denominators, list) or any(type(d) is not int for d in denominators):
        raise ValueError(f"denominators must be a list of integers, not {_shown(denominators)}")
    require_denominators(denominators)
    factors = [_matrix(name, document[name], rank) for name in "UVW"]
    return Scheme(Format.parse(document["format"]), Ring(document["ring"]), *factors, denominators=tuple(denominators))


def _matrix(name: str, rows: Any, rank: int) -> Factor:
    if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
        raise ValueError(f"{name} must be a list of lists of integers")
    for row in rows:
        if len(row) != rank:
            raise ValueError(f"{name} has a row of {len(row)} entries and the rank is {rank}")
        for entry in row:
            if type(entry) is not int or not -(1 << 63) <= entry < 1 << 63:
                raise ValueError(f"{name} holds {_shown(entry)}, which is no integer of 64 bits")
    return np.array(rows, dtype=np.int64).reshape(len(rows), rank)


def _shown(value: Any) -> str:
    """A value of the file for a sentence, cut to a readable length. Huge integers have no short decimal form."""
    if type(value) is int and abs(value) >= 1 << 64:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
