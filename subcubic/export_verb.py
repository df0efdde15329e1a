"""``subcubic export``: writes a scheme as code in another language."""

from __future__ import annotations

import hashlib
import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from catalog.canonical import digest
from catalog.files import write_durably
from catalog.scheme import Ring
from subcubic.errors import UsageError, guarded
from subcubic.export_folder import export_fused, export_thin
from subcubic.options import (
    CatalogPath,
    Dtype,
    Json,
    Layout,
    ProductDtype,
    Reference,
    checked_epilogue,
    checked_levels,
    existing_catalog,
)
from subcubic.output import note, print_json
from subcubic.reference import resolve
from subcubic.version import named_version
from subcubic.writing import write_files, writing

OVERLAP = 2  # products that come first at least: with one less the planes are not made in time at some sizes


class Target(StrEnum):
    """Languages that a scheme can be written in."""

    CUDA = "cuda"
    C = "c"
    NUMPY = "numpy"
    JAX = "jax"
    TRITON = "triton"
    TORCH = "torch"
    SLP = "slp"
    LATEX = "latex"
    MARKDOWN = "markdown"
    BIBTEX = "bibtex"


SUFFIX = {
    Target.CUDA: ".cu",
    Target.C: ".c",
    Target.NUMPY: "_numpy.py",
    Target.JAX: "_jax.py",
    Target.TRITON: "_triton.py",
    Target.TORCH: "_torch.py",
    Target.SLP: ".slp",
    Target.LATEX: ".tex",
    Target.MARKDOWN: ".md",
    Target.BIBTEX: ".bib",
}
# nvcc needs about as many milliseconds per product and side.
_SLOW_PRODUCTS = 200


@guarded
def export(
    scheme: Reference,
    to: Annotated[Target, typer.Option("--to", help="Language to write.")] = Target.CUDA,
    dtype: Annotated[
        Dtype, typer.Option(help="CUDA, Triton: element type. The other targets hold every type that they have.")
    ] = Dtype.FP32,
    product_dtype: Annotated[
        ProductDtype, typer.Option(help="CUDA, 16-bit types: how block products are stored.")
    ] = ProductDtype.INPUT,
    arch: Annotated[
        str | None,
        typer.Option(
            metavar="ARCH",
            help="CUDA: write a fused kernel for this architecture, e.g. sm_90a, as a folder. With --thin what its "
            "Makefile builds for, sm_90 by default.",
        ),
    ] = None,
    thin: Annotated[
        bool,
        typer.Option(
            "--thin", help="CUDA: the kernel for up to 16 rows of A, of classical-1x1x1, in fp16 or bf16, as a folder."
        ),
    ] = False,
    plane_dtype: Annotated[
        Dtype | None, typer.Option(help="With --arch: type of the planes; fp16 keeps bf16 inputs accurate.")
    ] = None,
    c_dtype: Annotated[
        Dtype | None, typer.Option(help="With --arch or --thin: type of C, if not that of A and B.")
    ] = None,
    layout: Annotated[
        Layout | None, typer.Option(help="With --arch or --thin: contiguous rows (n) or columns (t) of A, then of B.")
    ] = None,
    overlap: Annotated[
        bool, typer.Option("--overlap", help="With --arch sm_90a: the launch makes planes while products run.")
    ] = False,
    constant_b: Annotated[
        bool, typer.Option("--constant-b", help="With --arch: the loaders also make the planes of a constant B once.")
    ] = False,
    scale: Annotated[
        bool,
        typer.Option("--scale", help="With --arch: rows of A and columns of B are scaled by powers of two meanwhile."),
    ] = False,
    guard: Annotated[
        bool,
        typer.Option("--guard", help="With --arch: what is not finite in C is computed again as a plain product."),
    ] = False,
    epilogue: Annotated[
        str | None,
        typer.Option(metavar="STEPS", help="CUDA: done to each element of C before it is rounded, e.g. bias,gelu."),
    ] = None,
    levels: Annotated[int, typer.Option(help="Levels of recursion, by Kronecker power.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File or folder to write to.")] = None,
    build: Annotated[
        str | None, typer.Option(metavar="ARCH", help="CUDA: also build the self-testing program, e.g. for sm_90.")
    ] = None,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> None:
    """Write a scheme as code or text: one self-contained file, with a header for CUDA and C. See also `catalog export`.

    With --arch it is one fused kernel in a folder, with loaders for PyTorch and CuPy and a Makefile; without, the
    products are those of cuBLAS, for any CUDA architecture and also for fp32 and fp64. Both can have an --epilogue of
    bias, column_scale, column_shift, residual, scale, relu, gelu, gelu_tanh and silu, in any order.
    """
    from codegen.emit import TEXTS, emit, emit_header
    from codegen.emit_cuda import prefix
    from codegen.emit_triton import name as triton_name
    from codegen.plan import plan

    text_only = to.value in TEXTS
    found = resolve(scheme, existing_catalog(catalog), tuple(Ring) if text_only else (Ring.Z, Ring.Q))
    if to is Target.C and dtype not in (Dtype.FP32, Dtype.FP64):
        raise UsageError(f"the C target has no {dtype}; choose --dtype fp32 or fp64")
    if to is Target.TRITON and dtype not in (Dtype.FP16, Dtype.BF16):
        raise UsageError(f"the Triton target has no {dtype}; choose --dtype fp16 or bf16")
    if build is not None and to is not Target.CUDA:
        raise UsageError("--build needs --to cuda")
    checked_levels(levels)
    if found.scheme.ring.modulus and not text_only:
        raise UsageError(
            f"{scheme} holds over {found.scheme.ring} only; lift it: "
            f"subcubic search {found.scheme.format} --ring Z --from {digest(found.scheme)[:12]}, "
            f"or write it as text: --to {', '.join(TEXTS)}"
        )
    if build is not None and not re.fullmatch(r"sm_\d{2,3}[af]?", build):
        raise UsageError(f"--build {build} is no architecture; write it as sm_90 or sm_90a")
    steps = {} if epilogue is None else {"epilogue": checked_epilogue(epilogue, to.value)}
    fused = {"plane_dtype": plane_dtype, "c_dtype": c_dtype, "layout": layout}
    chosen: dict[str, Any] = {name: value.value for name, value in fused.items() if value is not None}
    if overlap:
        chosen["overlap"] = OVERLAP
    if scale:
        chosen["scale"] = True
    if guard:
        chosen["guard"] = True
    if arch is not None or thin:
        if to is not Target.CUDA:
            raise UsageError(f"--{'thin' if thin else 'arch'} needs --to cuda")
        if build is not None or product_dtype is not ProductDtype.INPUT:
            option = "--build" if build is not None else "--product-dtype"
            kind, own = ("thin", "--thin") if thin else ("fused", "--arch")
            raise UsageError(f"a {kind} kernel has no {option}; leave it or {own} out")
        if thin:
            more = {"constant_b": True} if constant_b else {}
            export_thin(found, arch, levels, {"dtype": dtype.value, **chosen, **more, **steps}, output, json_output)
            return
        assert arch is not None
        export_fused(found, arch, levels, {"dtype": dtype.value, **chosen, **steps}, constant_b, output, json_output)
        return
    if chosen or constant_b:
        option = (*chosen, "constant_b")[0].replace("_", "-")
        raise UsageError(f"--{option} needs a fused kernel: choose its architecture, for example --arch sm_90a")
    the_plan = plan(found.scheme, levels, found.provenance, any_ring=text_only)
    options: dict[str, str] = {**steps}
    if to is Target.CUDA:
        options["dtype"] = dtype.value
        options["product_dtype"] = dtype.value if product_dtype is ProductDtype.INPUT else _wide(dtype)
    if to is Target.TRITON:
        options["dtype"] = dtype.value
    text = emit(the_plan, to.value, version=named_version(), **options)
    name = the_plan.name
    if options:
        name = prefix(the_plan, **options) if to is Target.CUDA else triton_name(the_plan, **options)
    path = _destination(output, name + SUFFIX[to])
    if path.suffix == ".h" and to in (Target.CUDA, Target.C):
        raise UsageError(f"{path} is the name of the header that comes beside it; end it in {SUFFIX[to]}")
    files, header = {path.name: text.encode()}, None
    if to in (Target.CUDA, Target.C):
        header = path.with_suffix(".h")
        files[header.name] = emit_header(the_plan, to.value, version=named_version(), **options).encode()
    write_files(path.parent, files)
    if to is Target.CUDA and the_plan.rank > _SLOW_PRODUCTS:
        note(f"{the_plan.rank} products: nvcc will need a minute or more for this file")
    if build is not None:
        _build(text, build, path.with_suffix(""))
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    if json_output:
        header_path = None if header is None else str(header)
        facts = {"id": digest(found.scheme), "target": to.value, "path": str(path), "sha256": sha256}
        print_json({**facts, "header": header_path, "program": str(path.with_suffix("")) if build else None})
    else:
        print(f"{found.origin}: {the_plan.scheme.format.described}, rank {the_plan.scheme.rank}, {levels} level(s)")
        print(f"{path}  sha256 {sha256}")
        if header is not None:
            print(header)


def _wide(dtype: Dtype) -> str:
    return Dtype.FP64.value if dtype is Dtype.FP64 else Dtype.FP32.value


def _destination(output: Path | None, name: str) -> Path:
    if output is None:
        return Path(name)
    if output.suffix and not output.is_dir():
        return output
    return output / name


def _build(text: str, arch: str, program: Path) -> None:
    from codegen.build import build_cuda

    built = build_cuda(text, arch, kind="program")
    with writing(program):
        write_durably(program, built.read_bytes())
        program.chmod(0o755)
    note(f"self-testing program built for {arch}: {program}")
