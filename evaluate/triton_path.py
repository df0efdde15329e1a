"""The emitted Triton module, tuned for the sizes at hand and launched on CuPy's arrays without a copy."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from codegen.emit import emit
from codegen.emit_triton import name
from codegen.plan import Plan
from codegen.schedule import schedule
from evaluate.kernel import Built
from evaluate.variants import Variant

# Launches one set of buffers, by its number.
Queue = Callable[[int], None]


def build_triton(plan: Plan, variant: Variant) -> Built:
    """The emitted module as a file, which lasts as long as this process; it is compiled when it is opened.

    Raises:
        ValueError: Torch or Triton is missing, or the plan cannot be emitted with these types.
    """
    missing = [library for library in ("torch", "triton") if not find_spec(library)]
    if missing:
        raise ValueError(f"path triton needs {' and '.join(missing)}; install Torch with CUDA, which brings Triton")
    text = emit(plan, "triton", dtype=variant.dtype, plane_dtype=variant.plane_dtype)
    order = schedule(plan, convert=variant.plane_dtype != variant.dtype)
    folder = Path(tempfile.mkdtemp(prefix="subcubic-triton-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    module = name(plan, variant.dtype, variant.plane_dtype)
    path = folder / f"{module}.py"
    path.write_text(text, encoding="utf-8")
    facts = {
        "publications": order.publications,
        "slots": order.slots,
        "planes_a": len(order.planes_a),
        "planes_b": len(order.planes_b),
    }
    return Built(path, module, facts)


@contextmanager
def open_triton(
    built: Built, lefts: Sequence[Any], rights: Sequence[Any], outputs: Sequence[Any], stream: int
) -> Iterator[tuple[Queue, int]]:
    """Load, compile and tune a module.

    Adds to ``built.facts``: ``registers`` and ``spill_bytes`` of a thread of the kernel that does the products, its
    ``tile``, ``warps`` and ``stages``, and the versions of ``torch`` and ``triton``.

    Args:
        built: from ``build_triton``.
        lefts: A of each set of buffers, CuPy arrays [M, K].
        rights: B, [K, N].
        outputs: C, [M, N].
        stream: cudaStream_t as an integer.

    Yields:
        What launches one set, and the bytes of device memory that a launch needs besides the matrices.

    Raises:
        RuntimeError: Triton or the device refuses every tile.
    """
    import torch

    module = load(built)
    sets = [[_tensor(torch, x, module.DTYPE) for x in buffers] for buffers in zip(lefts, rights, outputs, strict=True)]
    device = sets[0][0].device
    with torch.cuda.stream(torch.cuda.ExternalStream(stream, device) if stream else torch.cuda.default_stream(device)):
        times = module.tune(*sets[0][:2])
        if not times:
            raise RuntimeError(f"{built.name}: no tile of CONFIGS fits this device")
        config = min(times, key=lambda one: times[one])
        torch.cuda.empty_cache()

        def queue(number: int) -> None:
            a, b, out = sets[number]
            module.matmul(a, b, out=out, config=config)

        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        queue(0)
        size = torch.cuda.max_memory_allocated(device) - before
        registers, spill_bytes = module.resources()[module.label(config)]
        tile = "x".join(map(str, config[:3]))
        built.facts.update(
            registers=registers, spill_bytes=spill_bytes, tile=tile, warps=config[3], stages=config[4], **versions()
        )
        try:
            yield queue, size
        finally:
            torch.cuda.synchronize(device)
            torch.cuda.empty_cache()  # CuPy, too, wants the memory


def load(built: Built) -> ModuleType:
    """Import an emitted module from its file."""
    spec = spec_from_file_location(built.name, built.path)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{built.path} is not a Python module")
    module = module_from_spec(spec)
    sys.modules[built.name] = module  # Triton looks functions up by their module
    spec.loader.exec_module(module)
    return module


def versions() -> dict[str, str]:
    """Versions of both libraries, for the rows."""
    import torch
    import triton

    return {"torch": torch.__version__, "triton": triton.__version__}


def _tensor(torch: Any, array: Any, dtype: Any) -> Any:
    """An array as a tensor on the same memory; bf16 is kept as uint16 on the other side."""
    tensor = torch.from_dlpack(array)
    return tensor if tensor.dtype == dtype else tensor.view(dtype)
