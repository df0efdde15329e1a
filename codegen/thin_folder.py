"""An exported thin kernel as a folder: source, header, Makefile, a page about it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from codegen.emit_thin import MOST_ROWS, emit_thin, header, prefix
from codegen.epilogue import Epilogue
from codegen.epilogue_text import filling
from codegen.folder import SIDES, filled
from codegen.heading import comment
from codegen.plan import Plan


def thin_folder(plan: Plan, arch: str, options: Mapping[str, Any], version: str = "unknown") -> dict[str, str]:
    """The files of an exported kernel for few rows by name; the first is the .cu, the second its header.

    Args:
        plan: of the scheme of one product.
        arch: real architecture that the Makefile builds for.
        options: ``dtype``, and ``c_dtype``, ``layout``, ``epilogue`` where they are chosen.
        version: of the emitting program.

    Raises:
        ValueError: as ``codegen.emit_thin.emit_thin``.
    """
    text, name = emit_thin(plan, version=version, **options), prefix(plan, **options)
    dtype, steps = options["dtype"], Epilogue.parse(options.get("epilogue", ""))
    finished = f"| epilogue | {steps}: applied to each element of C before it is rounded |\n" if steps else ""
    values = {
        "MOST": str(MOST_ROWS),
        "DIGEST": hashlib.sha256(text.encode()).hexdigest(),
        "C_DTYPE": options.get("c_dtype", dtype),
        "DTYPE": dtype,
        "SIDE": SIDES[options.get("layout", "nn")[1]],
        "FINISHED\n": finished,
        "FILLING\n": filling(steps).replace("SCHEME", name),
        "AFTER": f", then {', '.join(steps.steps)}," if steps else "",
        "EXTRAS": f", {'&extras' if steps.operands or steps.scales else 'NULL'}" if steps else "",
        "ARCH": arch,
        "VERSION": version,
        "SCHEME": name,
    }
    makefile = filled(_read("Makefile"), {"NUMBER": arch.removeprefix("sm_"), "ARCH": arch, "SCHEME": name})
    return {
        f"{name}.cu": text,
        f"{name}.h": header(plan, version=version, **options),
        "Makefile": comment(plan, version, "#") + makefile,
        "README.md": filled(_read("THIN.md"), values),
    }


def _read(name: str) -> str:
    return files("codegen.loaders").joinpath(name).read_text(encoding="utf-8")
