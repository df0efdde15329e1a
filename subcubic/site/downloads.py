"""The files of a scheme that others can use: scheme files, formulas, straight-line formulas, NumPy, C."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from typing import NamedTuple

from catalog.additions import sides, straight_line
from catalog.cse_search import Programs
from catalog.formats import json_format, npz_format
from catalog.formulas import CONVENTION, describe
from catalog.program_text import program_lines
from catalog.scheme import Scheme
from codegen.emit import emit, emit_header
from codegen.plan import plan

# Coefficients up to which code is written: finding its shared sums takes longer than all else of a page.
CODE_LIMIT = 1000
FORMULAS = "formulas"
# Products up to which a page shows the formulas; beyond, they are in a file.
SHOWN = 64
# Texts of more bytes are archives, which have a tenth of them.
_ZIPPED = 2000
# A constant time, so that the same scheme gives the same bytes.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Download(NamedTuple):
    """A file beside a page.

    Attributes:
        name: of the file.
        what: it is, for people.
        data: its bytes.
    """

    name: str
    what: str
    data: bytes


def downloads(scheme: Scheme, identity: str, name: str, version: str) -> Iterator[Download]:
    """The files of a scheme; a text of more than ``_ZIPPED`` bytes comes in a zip archive.

    Args:
        scheme: the scheme.
        identity: its id.
        name: beginning of the names.
        version: of this program, which code names.
    """
    yield _text(f"{name}.json", "scheme, JSON", json_format.dumps(scheme, identity))
    yield Download(f"{name}.npz", "scheme, NumPy archive", npz_format.dumps(scheme))
    if scheme.rank > SHOWN:
        yield _text(f"{name}.txt", FORMULAS, f"{describe(scheme)}\n".encode())
    if not has_code(scheme):
        return
    made = None if scheme.ring.modulus else plan(scheme)
    if made is None:
        programs = _greedy(scheme)
    else:
        programs = Programs(made.planes_a, made.planes_b, made.outputs_c, tries=1)
    yield _text(f"{name}-slp.txt", "formulas with shared sums", _straight(scheme, programs).encode())
    if made is not None:
        yield _text(f"{name}.py", "NumPy module", emit(made, "numpy", version=version).encode())
        source, header = emit(made, "c", version=version), emit_header(made, "c", version=version)
        both = {f"{made.name}.c": source.encode(), f"{made.name}.h": header.encode()}
        yield Download(f"{name}-c.zip", "C99 source and header", _archive(both))


def has_code(scheme: Scheme) -> bool:
    """Whether a scheme is small enough for code to be written."""
    return sum(int((factor != 0).sum()) for factor in scheme.factors) <= CODE_LIMIT


def _greedy(scheme: Scheme) -> Programs:
    a, b, c = (straight_line(side) for side in sides(scheme))
    return Programs(a, b, c, tries=1)


def _straight(scheme: Scheme, programs: Programs) -> str:
    """One addition or product a line, under a heading."""
    over = f" modulo {scheme.ring.modulus}" if scheme.ring.modulus else ""
    head = [
        f"{scheme.format}, rank {scheme.rank} over {scheme.ring}: straight-line formulas, "
        f"{programs.additions} additions{over}.",
        CONVENTION,
    ]
    return "\n".join([*head, *program_lines(scheme, programs)]) + "\n"


def _text(name: str, what: str, data: bytes) -> Download:
    if len(data) <= _ZIPPED:
        return Download(name, what, data)
    return Download(f"{name}.zip", what, _archive({name: data}))


def _archive(members: dict[str, bytes]) -> bytes:
    """A zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, 9)
    return buffer.getvalue()
