"""C++ and C text of an epilogue: ``Steps``, which ``kernels/epilogue.cuh`` applies, and what a launch is given."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from codegen.epilogue import ACTIVATIONS, MATRICES, SCALE, Epilogue

# Lines of ``kernels/`` for kernels with an epilogue, and those that stand in their place without one; the same for
# kernels with a way of their own for few tiles. They are sorted out here rather than by the preprocessor, so that a
# kernel without them says nothing of them.
_SWITCH = re.compile(
    r"^#ifdef SUBCUBIC_(EPILOGUE|FEW)\n(.*?)(?:^#else  // SUBCUBIC_\1\n(.*?))?^#endif  // SUBCUBIC_\1\n",
    flags=re.M | re.S,
)
_MEANING = {
    "bias": "N elements, added to each row",
    "column_scale": "N elements, a factor for each column",
    "column_shift": "N elements, added to each row",
    "residual": "M x N, added; row-major, and no part of C",
}


def switched(text: str, epilogue: Epilogue, few: bool = False) -> str:
    """A file of ``kernels/`` with the lines for kernels with an epilogue, or without; the same for few tiles."""
    on = {"EPILOGUE": bool(epilogue), "FEW": few}
    return _SWITCH.sub(lambda found: found[2 if on[found[1]] else 3] or "", text)


def filling(epilogue: Epilogue) -> str:
    """Lines of C that fill the struct of ``declaration``, for the page of an export; empty where it has no members."""
    names = [*epilogue.operands, *([SCALE] if epilogue.scales else [])]
    if not names:
        return ""
    fields = [one for name in names for one in ((name, f"{name}_ld") if name in MATRICES else (name,))]
    return f"SCHEME_extras extras = {{0}};\n{', '.join(f'extras.{name} = {name}' for name in fields)};\n"


def with_epilogue(parts: Sequence[str]) -> list[str]:
    """Files of ``kernels/`` in order, with those for an epilogue in their places."""
    before = {"hopper/tile": "hopper/finish", "selftest": "epilogue_selftest", "fused_selftest": "epilogue_selftest"}
    before["thin/selftest"] = "epilogue_selftest"
    found: list[str] = []
    for part in parts:
        found += [before[part], part] if part in before else [part]
        found += ["epilogue"] if part == "types" else []
    return found


def largest_integer(epilogue: Epilogue, peak: int, operand: int) -> float:
    """The largest magnitude in the self-test's integer cases; infinite where a step does not keep integers.

    Args:
        epilogue: the steps.
        peak: before them.
        operand: of the entries of operands; the scale is 2.
    """
    most: float = peak
    for step in epilogue.steps:
        if step in ACTIVATIONS:
            most = most if step == "relu" else math.inf
        elif step in ("column_scale", SCALE):
            most *= 2 if step == SCALE else operand
        else:
            most += operand
    return most


def declaration(epilogue: Epilogue) -> str:
    """The C struct ``SCHEME_extras``, which a launch takes a pointer to; nothing without an epilogue."""
    if not epilogue:
        return ""
    members = []
    for name in epilogue.operands:
        members.append(f"  const void* {name}; /* {_MEANING[name]} */")
        if name in MATRICES:
            members.append(f"  int64_t {name}_ld; /* its leading dimension, in elements */")
    if epilogue.scales:
        members.append("  double scale; /* a factor of everything */")
    lines = [f"/* What is done to each element of alpha * A B + beta * C before it is rounded: {epilogue}."]
    if members:
        lines += [
            " * Operands are in device memory and of C's type. */",
            "typedef struct {",
            *members,
            "} SCHEME_extras;",
        ]
    else:
        lines += [" * None of that needs an operand, so launches are given null. */"]
        lines += ["typedef struct SCHEME_extras SCHEME_extras;"]
    return "\n".join(lines) + "\n"


def declared(header: str, epilogue: Epilogue) -> str:
    """A C header of ``kernels/`` with what the launches of this epilogue are given."""
    return switched(header, epilogue).replace("SCHEME_EXTRAS\n", declaration(epilogue))


def steps_text(epilogue: Epilogue, extra: str) -> str:
    """What comes before ``kernels/epilogue.cuh``; nothing without an epilogue.

    Args:
        epilogue: the steps.
        extra: C++ name of C's type among those that the text defines, for example "Output".
    """
    if not epilogue:
        return ""
    names = epilogue.operands
    used = [name for name in ACTIVATIONS if name in epilogue.steps]
    matrices = sum(1 << i for i, name in enumerate(names) if name in MATRICES)
    vectors = sum(name not in MATRICES for name in names)
    lines = ["#ifndef __CUDACC_RTC__  // host code", declaration(epilogue) + "#endif", "", "namespace {", ""]
    lines += [f"__device__ __forceinline__ Accumulator {name}(Accumulator x);" for name in used]
    lines += [
        f"using Extra = {extra};",
        "// What is done to each element of C; matrices: a bit for each operand that is one, the others are vectors.",
        "struct Steps {",
        f"  static constexpr int operands = {len(names)}, matrices = {matrices}, vectors = {vectors};",
        "  template <class Get>",
        "  static __device__ __forceinline__ Accumulator apply(Accumulator x, Accumulator scale, Get get) {",
        *(f"    {_statement(step, names)}" for step in epilogue.steps),
        "    return x;",
        "  }",
        "#ifndef __CUDACC_RTC__  // host code",
        f"  static constexpr bool given = {str(bool(names) or epilogue.scales).lower()};",
        "  template <class Extras>",
        "  static void take(const SCHEME_extras& from, Extras& to) {",
        *(f"    to.data[{i}] = from.{name};" for i, name in enumerate(names)),
        *(f"    to.ld[{i}] = from.{name}_ld;" for i, name in enumerate(names) if name in MATRICES),
        *(["    to.scale = static_cast<Accumulator>(from.scale);"] if epilogue.scales else []),
        "  }",
        "  static const char* name(int operand) {",
        f"    static const char* const names[] = {{{', '.join(_quoted(name) for name in names) or _quoted('')}}};",
        "    return names[operand];",
        "  }",
        "#endif",
        "};",
        "#ifdef SUBCUBIC_MAIN  // for the self-test",
        f"constexpr const char* kSteps[] = {{{', '.join(map(_quoted, epilogue.steps))}}};",
        "const SCHEME_extras* given_extras(void* const* data, int64_t ld, double scale) {",
        *(["  static SCHEME_extras extras;"] if names or epilogue.scales else []),
        *(f"  extras.{name} = data[{i}];" for i, name in enumerate(names)),
        *(f"  extras.{name}_ld = ld;" for name in names if name in MATRICES),
        *(["  extras.scale = scale;"] if epilogue.scales else []),
        f"  return {'&extras' if names or epilogue.scales else 'nullptr'};",
        "}",
        "#endif",
        "",
        "}  // namespace",
        "",
    ]
    return "\n".join(lines)


def _statement(step: str, operands: tuple[str, ...]) -> str:
    if step in ACTIVATIONS:
        return f"x = {step}(x);"
    if step == SCALE:
        return "x *= scale;"
    sign = "*" if step == "column_scale" else "+"
    return f"x {sign}= get({operands.index(step)});  // {step}"


def _quoted(text: str) -> str:
    return f'"{text}"'
