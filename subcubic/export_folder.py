"""``subcubic export --arch``: writes a fused kernel as a folder that needs nothing of ours."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.canonical import digest
from subcubic.errors import UsageError
from subcubic.output import note, print_json
from subcubic.reference import Resolved
from subcubic.version import named_version
from subcubic.writing import write_files

if TYPE_CHECKING:
    from codegen.plan import Plan


def export_fused(
    found: Resolved,
    arch: str,
    levels: int,
    options: dict[str, Any],
    constant_b: bool,
    output: Path | None,
    json_output: bool,
) -> None:
    """Write the folder of a fused kernel and say what is in it.

    Args:
        found: the scheme.
        arch: real architecture.
        levels: of recursion.
        options: of the emitter, see ``codegen.folder.folder``.
        constant_b: whether the loaders can pack B.
        output: the folder; default: one with the kernel's name, here.
        json_output: one document instead of text.

    Raises:
        UsageError: an architecture, or an option for it, that there are no fused kernels for, or a folder in which
            somebody's files would be replaced.
        ValueError: a scheme that there is no such kernel for.
    """
    from codegen.emit import fused_emitter
    from codegen.folder import folder
    from codegen.plan import plan

    try:
        taken = fused_emitter(arch).options
    except ValueError as error:
        raise UsageError(f"--arch {arch}: {error}") from None
    dtype, c_dtype = options["dtype"], options.get("c_dtype", options["dtype"])
    if dtype not in ("fp16", "bf16"):
        raise UsageError(f"fused kernels multiply fp16 or bf16, not {dtype}: add --dtype bf16, or leave --arch out")
    if options.get("plane_dtype", dtype) not in ("fp16", "bf16"):
        raise UsageError(f"--plane-dtype {options['plane_dtype']} is no type of planes; choose fp16 or bf16")
    if c_dtype not in (dtype, "fp32"):
        raise UsageError(f"--c-dtype {c_dtype} does not go with --dtype {dtype}; choose {dtype} or fp32")
    if constant_b and options.get("overlap"):
        options = {**options, "constant_b": True}  # more products run while only planes of A are made
    for name in options:
        if name not in taken:
            raise UsageError(f"the fused kernels for {arch} have no --{name.replace('_', '-')}; leave it out")
    if options.get("overlap") and c_dtype == "fp32":
        raise UsageError(
            "nothing overlaps where C is fp32, which is not stored in bulk; leave --overlap or --c-dtype out"
        )
    if options.get("overlap") and options.get("scale"):
        raise UsageError("nothing overlaps where rows and columns are scaled; leave --overlap or --scale out")
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"--output {output} is a file; with --arch a folder is written")
    if arch == "sm_90":
        note("sm_90 gets the kernel that runs from sm_80 on; --arch sm_90a has the one made for it")
    the_plan = plan(found.scheme, levels, found.provenance)
    _write(found, the_plan, arch, folder(the_plan, arch, options, constant_b, named_version()), output, json_output)


def export_thin(
    found: Resolved, arch: str | None, levels: int, options: dict[str, Any], output: Path | None, json_output: bool
) -> None:
    """Write the folder of a kernel for few rows and say what is in it.

    Args:
        found: the scheme of one product.
        arch: real architecture that its Makefile builds for; sm_90 by default.
        levels: of recursion, of which there can be one only.
        options: of the emitter, see ``codegen.thin_folder.thin_folder``.
        output: the folder; default: one with the kernel's name, here.
        json_output: one document instead of text.

    Raises:
        UsageError: an architecture before sm_80, an option that these kernels have not, or a folder in which somebody's
            files would be replaced.
        ValueError: another scheme.
    """
    from codegen.emit import fused_emitter
    from codegen.plan import plan
    from codegen.thin_folder import thin_folder

    built_for = arch or "sm_90"
    try:
        fused_emitter(built_for)
    except ValueError as error:
        raise UsageError(f"--arch {built_for}: {error}") from None
    dtype, c_dtype = options["dtype"], options.get("c_dtype", options["dtype"])
    if dtype not in ("fp16", "bf16"):
        raise UsageError(f"thin kernels multiply fp16 or bf16, not {dtype}: add --dtype bf16")
    if c_dtype not in (dtype, "fp32"):
        raise UsageError(f"--c-dtype {c_dtype} does not go with --dtype {dtype}; choose {dtype} or fp32")
    if options.get("layout", "nn") not in ("nn", "nt"):
        raise UsageError(f"thin kernels have the layouts nn and nt, not {options['layout']}")
    if levels != 1:
        raise UsageError(f"thin kernels do one product, so --levels {levels} has no meaning; leave it out")
    for name in options:
        if name not in ("dtype", "c_dtype", "layout", "epilogue"):
            raise UsageError(f"thin kernels have no --{name.replace('_', '-')}; leave it out")
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(f"--output {output} is a file; with --thin a folder is written")
    the_plan = plan(found.scheme, levels, found.provenance)
    files = thin_folder(the_plan, built_for, options, named_version())
    _write(found, the_plan, built_for, files, output, json_output)


def _write(
    found: Resolved, the_plan: Plan, arch: str, files: dict[str, str], output: Path | None, json_output: bool
) -> None:
    source, header = list(files)[:2]
    place = Path(source).with_suffix("") if output is None else output
    if strangers := _strangers(place, files):
        raise UsageError(f"{place} has a {strangers[0]} that no export wrote; choose another --output")
    write_files(place, {name: text.encode() for name, text in files.items()})
    sha256 = hashlib.sha256(files[source].encode()).hexdigest()
    if json_output:
        paths = {"path": str(place / source), "header": str(place / header), "folder": str(place)}
        facts = {"id": digest(found.scheme), "target": "cuda", "arch": arch, "sha256": sha256, "program": None}
        print_json({**facts, **paths, "files": [str(place / name) for name in files]})
    else:
        print(f"{found.origin}: {the_plan.format.described}, rank {the_plan.rank}, {the_plan.levels} level(s)")
        print(f"{place / source}  sha256 {sha256}")
        print(f"{place}: {', '.join(list(files)[1:])}; run make there")


def _strangers(place: Path, names: Iterable[str]) -> list[str]:
    """Files that would be replaced in a folder whose page is no export's."""
    page = place / "README.md"
    if page.is_file() and "| emitted by | subcubic" in page.read_text(encoding="utf-8", errors="replace"):
        return []
    return [name for name in names if (place / name).exists()]
