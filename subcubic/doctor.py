"""``subcubic doctor``: checks what the program needs here; every line that fails ends with the remedy."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from catalog.files import cache_folder
from subcubic.errors import ExitCode, guarded
from subcubic.options import CatalogPath, Device, Json
from subcubic.output import note, print_json, table
from subcubic.runs import all_runs, runs_folder
from subcubic.version import ROOT, commit, version


class Check(NamedTuple):
    """One line of the report; ``needed`` tells a broken installation from a missing extra."""

    name: str
    ok: bool
    detail: str
    fix: str
    needed: bool = True


@guarded
def doctor(
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure copy and GEMM rates here, about a minute, for `predict`.")
    ] = False,
    device: Annotated[Device, typer.Option(help="With --measure: auto takes a GPU where there is one.")] = Device.AUTO,
    catalog: CatalogPath = None,
    json_output: Json = False,
) -> ExitCode:
    """Check this installation: packages, compilers, catalog, GPU. Exit code 1 when something needed fails."""
    if measure:
        return _measure(device, json_output)
    checks = list(_checks(catalog))
    if json_output:
        print_json({"checks": [check._asdict() for check in checks]})
    else:
        for check in checks:
            mark = "ok  " if check.ok else "FAIL" if check.needed else "none"
            remedy = "" if check.ok else f"  ->  {check.fix}"
            print(f"{mark}  {check.name}: {check.detail}{remedy}")
    return ExitCode.DONE if all(check.ok or not check.needed for check in checks) else ExitCode.ERROR


def _measure(device: Device, json_output: bool) -> ExitCode:
    """Keep the rates of the device at hand, by its name."""
    from evaluate.bench import device_of
    from evaluate.device_model import keep
    from evaluate.measure_device import measure_device

    figures = measure_device(device_of(device.value))
    path = keep(figures)
    if json_output:
        print_json({**figures, "path": str(path)})
        return ExitCode.DONE
    print(f"{figures['device']}: copies {figures['copy'] / 1e9:.4g} GB/s, read plus written")
    rows = [(dtype, size, rate / 1e12) for dtype, rates in figures["gemm"].items() for size, rate in rates]
    print(table(("dtype", "size", "TFLOP/s"), rows))
    note(f"kept in {path}; used by subcubic predict --device {path.stem}")
    return ExitCode.DONE


def _checks(catalog: Path | None) -> Iterator[Check]:
    yield Check("python", sys.version_info >= (3, 11), sys.version.split()[0], "install Python 3.11 or newer")
    yield Check("subcubic", True, f"version {version()}, commit {commit()}", "")
    yield _origins()
    for name in ("numpy", "h5py", "sympy", "numba", "jax", "scipy", "ml_dtypes", "filelock", "rich"):
        yield _package(name, "run `make` in the checkout, or pip install -e .")
    for name, extra in (("matplotlib", "plot"), ("flint", "exact"), ("mctx", "player"), ("distributed", "dask")):
        yield _package(name, f"pip install -e '.[{extra}]'", needed=False)
    yield _compiler("gcc", "--version", "install the package gcc; exported C and `bench` on a CPU need it")
    yield _compiler("nvcc", "--version", "install the CUDA toolkit and put nvcc on PATH; only CUDA builds need it")
    yield _attempt("nvdisasm", _disassembler, "pip install nvidia-cuda-nvdisasm; only reading binaries needs it", False)
    yield _attempt("catalog", lambda: _catalog(catalog), "choose a writable folder by --catalog or $SUBCUBIC_CATALOG")
    yield _attempt("kernel cache", _cache, "set $SUBCUBIC_CACHE to a writable folder", needed=False)
    yield _attempt("runs", _runs, "set $SUBCUBIC_RUNS to a writable folder")
    yield _gpu()
    yield _fused()
    extra = "install the cuda13 or cuda12 extra, or set $SUBCUBIC_CUBLAS to its path"
    yield _attempt("cuBLAS", _cublas, extra, needed=False)


def _origins() -> Check:
    """Top-level names such as ``evaluate`` also exist on package indexes; another one must not shadow ours."""
    from importlib.metadata import packages_distributions

    foreign = []
    owners = packages_distributions()
    for room in ("catalog", "search", "codegen", "evaluate", "subcubic"):
        found = importlib.util.find_spec(room)
        origin = Path(found.origin).resolve().parent if found and found.origin else None
        if origin != ROOT / room:
            foreign.append(f"{room} comes from {origin}")
        # Which of two is imported depends on the order of the path, so another one is a clash even where ours is first.
        others = sorted({name for name in owners.get(room, ()) if name.lower() != "subcubic"})
        foreign += [f"{room} is also a package of the installed distribution {name}" for name in others]
    fix = "uninstall what has the same top-level name, or install subcubic into an environment of its own"
    return Check("package names", not foreign, "; ".join(foreign) or f"all from {ROOT}", fix)


def _package(name: str, fix: str, needed: bool = True) -> Check:
    try:
        module = importlib.import_module(name)
    except Exception as error:
        return Check(name, False, f"cannot be imported ({error})", fix, needed)
    return Check(name, True, str(getattr(module, "__version__", "present")), fix, needed)


def _compiler(name: Literal["gcc", "nvcc"], flag: str, fix: str) -> Check:
    from codegen.build import MissingCompilerError, compiler

    try:
        path = compiler(name)
    except MissingCompilerError as error:
        return Check(name, False, str(error), fix, needed=False)
    lines = subprocess.run([*shlex.split(path), flag], capture_output=True, text=True).stdout.strip().splitlines()
    shown = next((line for line in lines if "release" in line), lines[0] if lines else "present")
    return Check(name, True, f"{path}, {shown}", fix, needed=False)


def _attempt(name: str, action: Callable[[], Any], fix: str, needed: bool = True) -> Check:
    try:
        return Check(name, True, str(action()), fix, needed)
    except Exception as error:
        return Check(name, False, str(error), fix, needed)


def _catalog(path: Path | None) -> str:
    from catalog.store import Catalog

    store = Catalog(path)
    # The catalog is made by its first write; until then the nearest folder that exists has to be writable.
    place = next(folder for folder in (store.path, *store.path.absolute().parents) if folder.exists())
    with tempfile.TemporaryFile(dir=place):
        damaged = len(store.damaged())
        left_out = f", {damaged} damaged files left out, which `subcubic catalog fsck` names" if damaged else ""
        return f"{store.path}, {len(store.rows())} schemes, writable{left_out}"


def _cache() -> str:
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return f"{folder}, writable"


def _runs() -> str:
    folder = runs_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        return f"{folder}, writable, {len(all_runs())} runs"


def _cublas() -> str:
    from evaluate.cublas import VARIABLE, load

    load()
    return os.environ[VARIABLE]


def _disassembler() -> str:
    from codegen.sass import disassembler

    return disassembler()


def _fused() -> Check:
    """Whether there are fused kernels for this machine's GPU, and what builds them is here."""
    from codegen.build import MissingCompilerError, compiler
    from codegen.emit import fused_arch
    from evaluate.device import usable_gpu

    found = usable_gpu()
    fix = "install the CUDA toolkit and put nvcc on PATH; without fused kernels the library-backed path runs"
    if found is None:
        return Check("fused kernels", False, "there is no GPU that they could be for", "see the line GPU", needed=False)
    try:
        arch = fused_arch(found.arch)
        compiler("nvcc")
    except (ValueError, MissingCompilerError) as error:
        return Check("fused kernels", False, str(error), fix, needed=False)
    return Check("fused kernels", True, f"for {found.arch}: subcubic export --arch {arch}", "", needed=False)


def _gpu() -> Check:
    from evaluate.device import usable_gpu, why_no_gpu

    found = usable_gpu()
    fix = "install the NVIDIA driver and the extra for its CUDA version: pip install -e '.[cuda13]' or '.[cuda12]'"
    if found is None:
        return Check("GPU", False, why_no_gpu(), fix, needed=False)
    return Check("GPU", True, f"{found.name}, {found.arch}, driver {found.driver}, CUDA {found.cuda}", fix, False)
