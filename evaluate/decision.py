"""Which kernels are worth a trial against the vendor's GEMM: from measured rows and the cost model, without a device.

Nothing here is a decision for a scheme: what is short-listed runs only after it beat the vendor on the device, see
``evaluate.dispatch``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log2
from typing import Any

from evaluate.buckets import SMALLEST_SIDE, small
from evaluate.candidate import PLAIN, Candidate, plain
from evaluate.cases import Shape
from evaluate.variants import FUSED_DTYPES, FUSED_PATH, LIBRARY_PATH, OPERANDS

HOST_PATH = "c"  # the emitted C with the host's BLAS
MOST_CANDIDATES = 4  # each costs a compilation and a trial
WORTH_A_TRIAL = 0.95  # a ratio below 1, since the cost model errs by as much and a loser is given up after three pairs
MAX_ERROR_FACTOR = 6.0  # one level of Winograd's form has 4 in fp16 and bf16, two levels have 10
_REACH = 1.0  # octaves, summed over M, N and K, within which a measured row speaks for a shape
_MOST_PRODUCTS = 64  # a kernel of more takes half a minute to compile, too long for a product met in passing

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """A product that is to be decided.

    Attributes:
        shape: M, N, K.
        dtype: of A, B and C.
        paths: what the device can run, of "fused", "cuda" and "c".
        operands: "variable", or "b_constant" where the planes of B are made before.
        plane_dtype: of the planes; None for ``dtype``.
        overlap: whether the device's fused kernels can make planes beside products.
        max_error_factor: the largest error that is allowed, over that of the vendor's GEMM.
    """

    shape: Shape
    dtype: str
    paths: tuple[str, ...]
    operands: str = "variable"
    plane_dtype: str | None = None
    overlap: bool = False
    max_error_factor: float = MAX_ERROR_FACTOR


# What is considered where nothing was measured; rows add to it. Not in it: what costs much error for its gain.
_HOST = tuple(Candidate("winograd", levels, path=HOST_PATH) for levels in (1, 2))
_LIBRARY = tuple(Candidate("winograd", levels, path=LIBRARY_PATH) for levels in (1, 2))
_FUSED = (
    Candidate("winograd"),
    Candidate("winograd", options=(("overlap", 2),)),
    Candidate("winograd", operands="b_constant"),
    Candidate("winograd", operands="b_constant", options=(("constant_b", 1), ("overlap", 2))),
    Candidate("4x4x2", orbit="b_constant", operands="b_constant"),
)


def shortlist(
    question: Question,
    rows: Iterable[Row],
    predicted: Callable[[Candidate], float | None],
    error_factor: Callable[[Candidate], float | None],
    only: Candidate | None = None,
) -> tuple[list[Candidate], str]:
    """Candidates that may beat the vendor's GEMM, the most promising first.

    Args:
        question: the product.
        rows: measured on such a device, as of ``evaluate.choice.measured``.
        predicted: the ratio of a candidate at this shape by the cost model; None if it knows nothing.
        error_factor: of a candidate, asked where no row tells; None if it is not known.
        only: the one that is considered, since B was packed for it; by default all.

    Returns:
        At most ``MOST_CANDIDATES`` and the plain kernel, and why no others, in one clause.
    """
    if small(question.shape):
        return [], f"a product below {SMALLEST_SIDE} in a size or 1024^3 in all is too small"
    rows = [row for row in rows if row.get("dtype") == question.dtype]
    known = ranked(question, rows, predicted, only)
    kept: list[Candidate] = []
    refused = ""
    for one in known:
        if len(kept) >= MOST_CANDIDATES and (not plain(one) or any(map(plain, kept))):
            continue  # the plain kernel is one more
        if not _worth_a_trial(one):
            continue
        found = _nearest(rows, one, question.shape)[1]
        factor = found if found is not None else error_factor(one)
        if factor is None or factor <= question.max_error_factor:
            kept.append(replace(one, error_factor=factor))
        else:
            refused = refused or f"{one.label} has {factor:.1f} times the vendor's error"
    if kept or refused:
        return kept, refused
    if not question.paths:
        return [], f"there are no kernels for {question.dtype} here"
    if not known or not known[0].expected:
        return [], "no row was measured near this shape, and the cost model does not know the device"
    how = "measured" if known[0].measured else "predicted"
    return [], f"the best of {len(known)} candidates is {how} at a ratio of {known[0].expected:.3f}"


def ranked(
    question: Question,
    rows: Iterable[Row],
    predicted: Callable[[Candidate], float | None],
    only: Candidate | None = None,
) -> list[Candidate]:
    """All that is considered for a product, the most promising first, whether or not it should pay.

    Args:
        question: the product.
        rows: as of ``shortlist``.
        predicted: likewise.
        only: likewise.
    """
    rows = [row for row in rows if row.get("dtype") == question.dtype]
    every = [only] if only else [*_menu(question), *(one for row in rows if (one := _idea(row, question)))]
    known = [
        replace(idea, predicted=predicted(idea), measured=_nearest(rows, idea, question.shape)[0])
        for idea in dict.fromkeys(every)
    ]
    return sorted(known, key=lambda one: -one.expected)


def _worth_a_trial(one: Candidate) -> bool:
    # The plain kernel always is: the model sets it beside a rate of the vendor's that products of small K do not reach,
    # where it predicts losses of up to a fifth and up to 8 % were gained.
    return one.expected > (0 if plain(one) else WORTH_A_TRIAL)


def _menu(question: Question) -> list[Candidate]:
    """What is considered at all, with the type of its planes."""
    wide = _HOST if HOST_PATH in question.paths else _LIBRARY if LIBRARY_PATH in question.paths else ()
    # Fused kernels store no products; beside them the library path has lost wherever both were measured.
    found = _FUSED if FUSED_PATH in question.paths else () if question.dtype in FUSED_DTYPES else wide
    if found is _FUSED and question.overlap:
        found = (PLAIN, *_FUSED)
    planes = question.plane_dtype or question.dtype
    return [replace(one, plane_dtype=planes) for one in found if _fits(one, question)]


def _fits(one: Candidate, question: Question) -> bool:
    enough = OPERANDS[: OPERANDS.index(question.operands) + 1]
    return one.path in question.paths and one.operands in enough and (question.overlap or not one.options)


def _idea(row: Row, question: Question) -> Candidate | None:
    """What a row measured, if it can be run here."""
    if row.get("plane_dtype") != (question.plane_dtype or question.dtype):
        return None
    if row.get("rank", 1) ** row.get("levels", 1) > _MOST_PRODUCTS:
        return None
    options = tuple(sorted(row.get("options", {}).items()))
    named = (row["reference"], row["levels"], row.get("orbit", ""), row["path"], row["operands"])
    one = Candidate(*named, row["plane_dtype"], options)
    return one if _fits(one, question) else None


def _nearest(rows: Sequence[Row], idea: Candidate, shape: Shape) -> tuple[float | None, float | None]:
    """Ratio and error factor of the nearest row of a candidate within reach; of several regimes the slowest."""
    question = Question(shape, "", (idea.path,), OPERANDS[-1], idea.plane_dtype, True)
    found = [(_distance(row, shape), row) for row in rows if row.get("ratio") and _idea(row, question) == idea.bare]
    nearest = min((distance for distance, _ in found), default=_REACH + 1)
    if nearest > _REACH:
        return None, None
    row = min((row for distance, row in found if distance == nearest), key=lambda row: row["ratio"])
    ours, baseline = row.get("error_fro"), row.get("baseline_error_fro")
    return row["ratio"], ours / baseline if ours and baseline else None


def _distance(row: Row, shape: Shape) -> float:
    return sum(abs(log2(row[letter] / size)) for letter, size in zip("MNK", shape, strict=True))
