"""How matrices lie in memory: what a kernel can read and write there, and whether two of them share it."""

from __future__ import annotations

from typing import Any

from evaluate.array_numpy import Numpy


def letter_of(library: Numpy, x: Any) -> str:
    """How a matrix lies in memory: "t" if its columns are contiguous and its rows are not, else "n"."""
    return "t" if not step_of(library, x, "n") and step_of(library, x, "t") else "n"


def stored(library: Numpy, x: Any, letter: str) -> tuple[Any, int]:
    """A matrix as a layout has it, the same memory where possible, and its leading dimension."""
    step = step_of(library, x, letter)
    if step:
        return x, step
    return (library.contiguous(x), x.shape[1]) if letter == "n" else (library.contiguous(x.T).T, x.shape[0])


def step_of(library: Numpy, x: Any, letter: str) -> int:
    """The leading dimension; 0 if the matrix does not lie in memory as the letter says."""
    place = 1 if letter == "n" else 0
    strides, length = library.strides(x), x.shape[place]
    step = strides[1 - place] if x.shape[1 - place] > 1 else max(strides[1 - place], length)
    return step if (length == 1 or strides[place] == 1) and step >= length else 0


def overlaps(library: Numpy, c: Any, *others: Any) -> bool:
    """Whether an array may share memory with another one."""
    low, high = span_of(library, c)
    return any(low < end and start < high for start, end in (span_of(library, x) for x in others))


def target_of(library: Numpy, a: Any, b: Any, c: Any) -> Any:
    """C where a kernel can write it; new memory if its rows are not contiguous or it overlaps an operand."""
    return c if step_of(library, c, "n") and not overlaps(library, c, a, b) else library.empty(tuple(c.shape), c)


def aligned(library: Numpy, x: Any) -> bool:
    """Whether all strides of an array are multiples of 16 bytes or one element, as kernels want them."""
    steps = [step for size, step in zip(x.shape, library.steps(x), strict=True) if size > 1]
    return all(step % 16 == 0 or step == x.dtype.itemsize for step in steps)


def span_of(library: Numpy, x: Any) -> tuple[int, int]:
    """Addresses of the first byte of an array and of that after its last."""
    reach = [(size - 1) * step for size, step in zip(x.shape, library.steps(x), strict=True)]
    start = library.address(x)
    return start + sum(min(each, 0) for each in reach), start + sum(max(each, 0) for each in reach) + x.dtype.itemsize
