"""Reads a pickle of numbers as data: its instructions are interpreted here, and nothing is imported or called.

A pickle is a program for a stack machine that may name any function (Python documentation, ``pickle``). Object arrays
of numpy need few of its instructions and five names; a pickle that has others is refused.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from catalog.formats.factors import LARGEST

# What the names stand for; none of them is looked up. numpy 2 renamed numpy.core.
_KNOWN = {
    "numpy ndarray": "ndarray",
    "numpy dtype": "dtype",
    "numpy._core.multiarray _reconstruct": "reconstruct",
    "numpy.core.multiarray _reconstruct": "reconstruct",
    "numpy._core.multiarray scalar": "scalar",
    "numpy.core.multiarray scalar": "scalar",
    "_codecs encode": "encode",
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_LITERALS = frozenset(
    "BININT BININT1 BININT2 LONG1 LONG4 BINFLOAT SHORT_BINBYTES BINBYTES BINBYTES8 "
    "SHORT_BINUNICODE BINUNICODE BINUNICODE8".split()
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_IGNORED = frozenset(("PROTO", "FRAME"))
_TYPES = frozenset(f"{kind}{size}" for kind, sizes in (("iu", "1248"), ("f", "248")) for kind in kind for size in sizes)
_MARK = object()
_DEEPEST = 8


@dataclass(frozen=True)
class _Name:
    means: str


@dataclass
class _Type:
    text: str
    order: str = "="

    def dtype(self) -> np.dtype[Any]:
        if self.text not in _TYPES | {"b1", "c8", "c16"} or self.order not in ("<", ">", "|", "="):
            raise ValueError(f"it has numbers of the type {self.text[:20]!r}")
        return np.dtype(self.text).newbyteorder(self.order)  # type: ignore[arg-type]


@dataclass
class _Array:
    state: Any = None


def loads(data: bytes) -> Any:
    """The value of a pickle: numpy arrays and numbers, Python numbers, tuples and lists, nested.

    Returns:
        Arrays of numbers as arrays, arrays of objects as nested lists, numpy numbers as Python numbers.

    Raises:
        ValueError: the pickle is damaged or holds anything else.
    """
    try:
        with warnings.catch_warnings():
            # A damaged pickle may hold text with escapes that Python warns of.
            warnings.simplefilter("ignore")
            return _value(_run(data), 0, [LARGEST])
    except (IndexError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"its pickle is damaged ({type(error).__name__})") from None


def _run(data: bytes) -> Any:
    """Interpret the instructions. Memory stays within a small multiple of the data: nothing is made by size alone."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any
    for opcode, argument, _ in _instructions(data):
        name = opcode.name
        if name in _LITERALS:
            stack.append(argument)
        elif name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif name == "MARK":
            stack.append(_MARK)
        elif name == "EMPTY_LIST":
            stack.append([])
        elif name in _TUPLES and len(stack) >= _TUPLES[name]:
            stack[-_TUPLES[name] :] = [tuple(stack[-_TUPLES[name] :])]
        elif name == "TUPLE":
            stack.append(tuple(_above_mark(stack)))
        elif name == "APPEND":
            item = stack.pop()
            _list(stack[-1]).append(item)
        elif name == "APPENDS":
            items = _above_mark(stack)
            _list(stack[-1]).extend(items)
        elif name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name == "GLOBAL":
            stack.append(_known(argument))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(_known(f"{module} {attribute}"))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_reduced(function, arguments))
        elif name == "BUILD":
            state = stack.pop()
            _build(stack[-1], state)
        elif name == "STOP":
            (result,) = stack
            return result
        elif name not in _IGNORED:
            raise ValueError(f"its pickle has the instruction {name}; only arrays of numbers are read")
    raise ValueError("its pickle has no end")


def _instructions(data: bytes) -> Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]:
    try:
        yield from pickletools.genops(data)
    except ValueError as error:
        raise ValueError(f"its pickle is damaged ({' '.join(str(error).split())[:80]})") from None


def _above_mark(stack: list[Any]) -> list[Any]:
    items = []
    while (item := stack.pop()) is not _MARK:
        items.append(item)
    return items[::-1]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("its pickle is damaged (it appends to what is no list)")
    return value


def _known(name: str) -> _Name:
    if name not in _KNOWN:
        raise ValueError(f"its pickle names {name[:60].replace(' ', '.')!r}; only arrays of numbers are read")
    return _Name(_KNOWN[name])


def _reduced(function: Any, arguments: Any) -> Any:
    """What a call would give, for the four calls that arrays need."""
    match function, arguments:
        case _Name("reconstruct"), (_Name("ndarray"), (0,), bytes()):
            return _Array()
        case _Name("dtype"), (str(text), _, _):
            return _Type(text)
        case _Name("scalar"), (_Type() as kind, bytes(raw)):
            (number,) = np.frombuffer(raw, kind.dtype()).tolist()
            return number
        case _Name("encode"), (str(text), "latin1"):
            return text.encode("latin1")
    raise ValueError("its pickle makes a call that arrays of numbers do not need")


def _build(target: Any, state: Any) -> None:
    match target, state:
        case _Type(), (_, str(order), *_):
            target.order = order
        case _Array(state=None), (_, tuple(_), _Type(), bool(_), bytes(_) | list(_)):
            target.state = state[1:]
        case _:
            raise ValueError("its pickle sets a state that arrays of numbers do not have")


def _value(item: Any, depth: int, left: list[int]) -> Any:
    """Arrays in place of their stand-ins; ``left`` counts numbers down, since one list may stand in many places."""
    left[0] -= 1
    if depth > _DEEPEST or left[0] < 0:
        raise ValueError("its pickle is nested too deeply or holds too many numbers")
    if isinstance(item, list | tuple):
        return [_value(part, depth + 1, left) for part in item]
    if isinstance(item, _Array):
        shape, kind, fortran, raw = item.state
        if not all(type(size) is int and 0 <= size <= LARGEST for size in shape) or len(shape) > _DEEPEST:
            raise ValueError("an array in its pickle has no sensible shape")
        order: Literal["F", "C"] = "F" if fortran else "C"
        if isinstance(raw, bytes):
            left[0] -= len(raw)
            return np.frombuffer(raw, kind.dtype()).reshape(shape, order=order)
        flat = np.empty(len(raw), dtype=object)
        flat[:] = [_value(part, depth + 1, left) for part in raw]
        return flat.reshape(shape, order=order).tolist()
    if item is None or isinstance(item, int | float | complex):
        return item
    raise ValueError(f"its pickle holds a {type(item).__name__} where a number should be")
