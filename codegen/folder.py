"""An exported fused kernel as a folder: source, header, loaders for PyTorch and CuPy, Makefile, a page about it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from catalog.measures import growth
from codegen.emit import fused_emitter
from codegen.epilogue import SCALE, Epilogue
from codegen.epilogue_text import filling
from codegen.heading import cell, comment, identity, origin
from codegen.plan import Plan

SIDES = {"n": "rows", "t": "columns"}
# Whether planes are made by the launch of the products: how the page says it.
_MADE = {False: "after the planes are made", True: "that makes the planes, too"}
_PHASES = {
    False: "one: all planes are made before the products",
    True: "two: products that need no planes run first, while planes are made by the same launch",
}
_SIZES = {
    False: "rows of A or columns of B of very different\nsize should be brought to the same size first",
    True: "the launch brings rows of A and columns of B\nto one size by powers of two, which it takes out of C",
}
_IMPORT = re.compile(r"^(?:import|from) .*\n", flags=re.M)
# What loaders have only where it was asked for.
_BLOCKS = {
    name: re.compile(rf"^ *# {name}: begin\n(.*?)^ *# {name}: end\n", flags=re.M | re.S)
    for name in ("constant-b", "epilogue")
}
_OPERANDS = re.compile(r"^def matmul\(\n    (.*), \*\*operands: .*\n\) -> (.*)$", flags=re.M)


def folder(
    plan: Plan, arch: str, options: Mapping[str, Any], constant_b: bool = False, version: str = "unknown"
) -> dict[str, str]:
    """The files of an exported kernel by name; the first is the .cu, the second its header.

    Args:
        plan: what to compute.
        arch: real architecture, for example "sm_90a"; it chooses the emitter.
        options: those of the emitter: ``dtype``, and ``plane_dtype``, ``c_dtype``, ``layout``, ``overlap``,
            ``constant_b``, ``scale``, ``guard``, ``epilogue`` where they are chosen.
        constant_b: the loaders also have ``pack``, which makes the planes of B once.
        version: of the emitting program.

    Raises:
        ValueError: no fused kernels for the architecture, an option that its emitter does not take, or a plan that it
            cannot emit.
    """
    emitter = fused_emitter(arch)
    text = emitter.emit(plan, version=version, **options)
    name = emitter.prefix(plan, **options)
    facts = {
        "name": name,
        "arch": arch,
        "dtype": options["dtype"],
        "c_dtype": options.get("c_dtype", options["dtype"]),
        "layout": options.get("layout", "nn"),
    }
    if epilogue := str(Epilogue.parse(options.get("epilogue", ""))):
        facts["epilogue"] = epilogue
    mark = comment(plan, version, "#")
    makefile = filled(_read("Makefile"), {"NUMBER": arch.removeprefix("sm_"), "ARCH": arch, "SCHEME": name})
    page = _page(plan, facts, options, constant_b, version, hashlib.sha256(text.encode()).hexdigest())
    return {
        f"{name}.cu": text,
        f"{name}.h": emitter.header(plan, version=version, **options),
        "torch_ext.py": mark + _loader("torch_ext", facts, constant_b),
        "cupy_module.py": mark + _loader("cupy_module", facts, constant_b),
        "Makefile": mark + makefile,
        "README.md": page,
    }


def _loader(module: str, facts: Mapping[str, str], constant_b: bool) -> str:
    """A loader with the text of its binding in place of the import, so that it stands alone."""
    binding, text = _read("binding.py"), _read(f"{module}.py")
    for name, wanted in (("constant-b", constant_b), ("epilogue", "epilogue" in facts)):
        binding, text = (_BLOCKS[name].sub(r"\1" if wanted else "", part) for part in (binding, text))
    if not constant_b:
        text = text.replace(" | Packed", "")
    if "epilogue" not in facts:
        text = _OPERANDS.sub(r"def matmul(\1) -> \2", text).replace(", *last)", ")")
    text = re.sub(r"^KERNEL = .*$", f"KERNEL = Kernel({', '.join(map(_quoted, facts.values()))})", text, flags=re.M)
    first, second = (_IMPORT.sub("", part.partition("\n")[2]).strip() for part in (binding, text))
    docstring = text.partition("\n")[0]
    return f"{docstring}\n\n{_imports(binding + text)}\n\n\n{first}\n\n\n{second}\n"


def _imports(text: str) -> str:
    """All imports of a text that are not of ours, each module once, in the usual order."""
    modules = sorted(set(re.findall(r"^import (.*)$", text, flags=re.M)))
    names: dict[str, set[str]] = {}
    for module, wanted in re.findall(r"^from (?!codegen)(\S+) import (.*)$", text, flags=re.M):
        names.setdefault(module, set()).update(wanted.split(", "))
    future = names.pop("__future__")
    foreign = [module for module in modules if module in ("cupy", "torch")]
    lines = [f"from __future__ import {', '.join(future)}", ""]
    lines += [f"import {module}" for module in modules if module not in foreign]
    lines += [f"from {module} import {', '.join(sorted(wanted))}" for module, wanted in sorted(names.items())]
    return "\n".join([*lines, "", *(f"import {module}" for module in foreign)])


def _quoted(value: str) -> str:
    return f'"{value}"'


def _page(
    plan: Plan, facts: Mapping[str, str], options: Mapping[str, Any], constant_b: bool, version: str, digest: str
) -> str:
    name = facts["name"]
    overlap = options.get("overlap", 0) > 0
    rows_a, rows_b = (SIDES[letter] for letter in facts["layout"])
    packing = (
        f"size_t room = {name}_planes_b(N, K); /* of a constant B: made once, read by every launch */\n"
        f"{name}_pack_b(handle, stream, N, K, B, ldb, planes, room);"
    )
    steps = Epilogue.parse(options.get("epilogue", ""))
    given = "".join(f", {name}={name}" for name in [*steps.operands, *([SCALE] if steps.scales else [])])
    packed = f"`c = matmul(a, pack(b){given})`, where the result of `pack` is used again,"
    call = packed if constant_b else f"`c = matmul(a, b{given})`"
    rows = {name: text for name, text in {**identity(plan), **origin(plan)}.items() if name not in ("scheme", "format")}
    values = {
        "ORIGIN\n": "".join(f"| {name} | {cell(text)} |\n" for name, text in rows.items()),
        "IDENTIFIER": plan.digest,
        "BASERANK": str(plan.base.rank),
        "BASE": plan.base.format.described,
        "BLOCKS": str(plan.format),
        "RANK": str(plan.rank),
        "VOLUME": str(plan.format.volume),
        "RING": str(plan.base.ring),
        "LEVELS": str(plan.levels),
        "DIGEST": digest,
        "LAYOUTS": f"the {rows_a} of A, the {rows_b} of B and the rows of C are contiguous",
        "MADE": _MADE[overlap],
        "PHASES": _PHASES[overlap],
        "FINISHED\n": f"| epilogue | {steps}: applied to each element of C before it is rounded |\n" if steps else "",
        "FILLING\n": filling(steps).replace("SCHEME", name),
        "AFTER": f", then {', '.join(steps.steps)}," if steps else "",
        "EXTRAS": f", {'&extras' if given else 'NULL'}" if steps else "",
        "SIZES": _SIZES[bool(options.get("scale"))],
        "C_DTYPE": facts["c_dtype"],
        "PLANES_B": "planes" if constant_b else "NULL",
        "PLANES": options.get("plane_dtype", facts["dtype"]),
        "DTYPE": facts["dtype"],
        "ARCH": facts["arch"],
        "VERSION": version,
        "PYTHON": call,
        "GROWTH": f"{growth(plan.scheme):.4g}",
        "SCHEME": name,
    }
    text = _read("README.md")
    text = text.replace("PACKING\n", packing + "\n" if constant_b else "")
    return filled(text, values)


def filled(text: str, values: Mapping[str, str]) -> str:
    """A template with its capital words replaced, all at once, so that no value is taken for a word."""
    return re.sub("|".join(sorted(values, key=len, reverse=True)), lambda word: values[word[0]], text)


def _read(name: str) -> str:
    return files("codegen.loaders").joinpath(name).read_text(encoding="utf-8")
