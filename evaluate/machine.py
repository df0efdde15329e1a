"""What is known of the device that holds a caller's arrays: its name, its kernels, its rows, its cost model."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codegen.emit import fused_arch
from codegen.plan import Plan
from evaluate.array_numpy import Numpy
from evaluate.blas import BLAS_DTYPES, blas_threads
from evaluate.candidate import Candidate
from evaluate.cases import Shape
from evaluate.cpu import cpu_name
from evaluate.decision import HOST_PATH, Row
from evaluate.device import DeviceInfo
from evaluate.device_model import DEVICES, DeviceModel, device_model
from evaluate.model import predict
from evaluate.variants import FUSED_PATH, LIBRARY_PATH, why_not_fused

# Rows that were measured on a device of a name, of some paths.
RowsOf = Callable[[str, Sequence[str]], Sequence[Row]]


@dataclass(frozen=True)
class Machine:
    """A device and the library that a caller uses on it.

    Attributes:
        name: the vendor's name of the device.
        baseline: what decides how fast the vendor's GEMM is: driver or threads, and the library with its version.
        info: the GPU; None for the host.
        model: of the device; None if nothing is known of it.
        rows: measured on such a device.
        kernels: whether schemes can run on arrays of this library there at all.
    """

    name: str
    baseline: str
    info: DeviceInfo | None
    model: DeviceModel | None
    rows: Sequence[Row]
    kernels: bool

    def paths(self, dtype: str) -> tuple[str, ...]:
        """What can run there in a dtype."""
        if not self.kernels:
            return ()
        if self.info is None:
            return (HOST_PATH,) if dtype in BLAS_DTYPES else ()
        return (LIBRARY_PATH,) if why_not_fused(dtype, self.info) else (FUSED_PATH, LIBRARY_PATH)

    @property
    def overlap(self) -> bool:
        """Whether fused kernels can make planes beside products."""
        return self.info is not None and self.info.arch == "sm_90" and fused_arch(self.info.arch) == "sm_90a"

    def predicted(self, plan: Plan, candidate: Candidate, shape: Shape, dtype: str) -> float | None:
        """The ratio of a candidate by the cost model; None if it knows nothing."""
        if self.model is None or dtype not in self.model.peak:
            return None
        path = FUSED_PATH if candidate.path == FUSED_PATH else LIBRARY_PATH
        try:
            found = predict(
                *(plan, shape, self.model, dtype),
                operands=candidate.operands,
                plane_dtype=candidate.plane_dtype,
                path=path,
            )
        except ValueError:  # a path or an operand that the device's model does not have
            return None
        return found.ratio


def machine_of(library: Numpy, like: Any, rows_of: RowsOf) -> Machine:
    """The device of an array.

    Raises:
        evaluate.device.DeviceMissingError: the array's GPU cannot be used through its library.
    """
    if library.device(like) is None:
        if library.name != "numpy":  # others bring products of their own for the host, and JAX spreads over devices
            return Machine("", library.version, None, None, (), False)
        name, baseline = cpu_name(), f"{blas_threads()} threads, {library.version}"
        return Machine(name, baseline, None, _model(name), rows_of(name, (HOST_PATH,)), True)
    info = library.info(like)
    baseline = f"driver {info.driver}, CUDA {info.cuda}, {library.version}"
    return Machine(info.name, baseline, info, _model(info.name), rows_of(info.name, (FUSED_PATH, LIBRARY_PATH)), True)


def _model(name: str) -> DeviceModel | None:
    """That of the device, with what was measured there, else that of its kind."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word in DEVICES]
    for known in (name, *words):
        try:
            return device_model(known)
        except ValueError:
            continue
    return None
