"""What kernels a launch consists of, and what each takes of a multiprocessor, as the driver knows it.

The launch is captured in a graph, whose nodes say what would run. So the kernels of any library can be looked at, the
vendor's included, without a profiler and without their sources.
"""

from __future__ import annotations

import ctypes
from dataclasses import asdict, dataclass
from typing import Any

from evaluate.timing import Launch

_LIBRARIES = ("libcuda.so.1", "libcuda.so")
_KERNEL_NODE = 0  # CU_GRAPH_NODE_TYPE_KERNEL
# CUfunction_attribute
_STATIC_SHARED, _LOCAL, _REGISTERS = 1, 3, 4
_WARP = 32


class _Params(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = [
        ("function", ctypes.c_void_p),
        *[(name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")],
        ("parameters", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Launched:
    """One kernel of a launch.

    Attributes:
        name: as the driver has it; "" where it does not say.
        grid: blocks along x, y and z.
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block.
        local_bytes: of a thread, for what its registers do not hold.
        blocks: that a multiprocessor holds at once.
        occupancy: warps of these, of the most that a multiprocessor holds.
    """

    name: str
    grid: tuple[int, int, int]
    threads: int
    registers: int
    shared_bytes: int
    local_bytes: int
    blocks: int
    occupancy: float


def launched(xp: Any, launch: Launch) -> list[dict[str, Any]] | str:
    """The kernels of one launch in the order of the graph's nodes, or why nothing is known of them.

    Args:
        xp: cupy.
        launch: queues its work on CuPy's current stream, and has done so before.
    """
    stream = xp.cuda.get_current_stream()
    if stream.ptr == 0:
        return "the default stream cannot be captured"
    try:
        driver = _driver()
        stream.begin_capture()
        try:
            launch(0)
        finally:
            graph = stream.end_capture()
        runtime = xp.cuda.runtime
        most = int(runtime.getDeviceProperties(runtime.getDevice())["maxThreadsPerMultiProcessor"]) // _WARP
        return [asdict(_read(driver, node, most)) for node in _nodes(driver, graph.graph)]
    except (OSError, AttributeError, RuntimeError) as error:
        return " ".join(str(error).split()) or type(error).__name__


def _driver() -> ctypes.CDLL:
    """The driver's library.

    Raises:
        OSError: it is not there.
    """
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            missing = error
    raise OSError(f"the driver's library was not found ({missing})")


def _nodes(driver: ctypes.CDLL, graph: int) -> list[ctypes.c_void_p]:
    count = ctypes.c_size_t()
    _call(driver, "cuGraphGetNodes", ctypes.c_void_p(graph), None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * count.value)()
    _call(driver, "cuGraphGetNodes", ctypes.c_void_p(graph), nodes, ctypes.byref(count))
    found = []
    for node in nodes:
        kind = ctypes.c_int()
        _call(driver, "cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == _KERNEL_NODE:
            found.append(ctypes.c_void_p(node))
    return found


def _read(driver: ctypes.CDLL, node: ctypes.c_void_p, most_warps: int) -> Launched:
    params = _Params()
    _call(driver, "cuGraphKernelNodeGetParams_v2", node, ctypes.byref(params))
    function = ctypes.c_void_p(params.function)
    if not function:  # of a library that is loaded once for all contexts
        _call(driver, "cuKernelGetFunction", ctypes.byref(function), ctypes.c_void_p(params.kernel))
    static, local, registers = (_attribute(driver, which, function) for which in (_STATIC_SHARED, _LOCAL, _REGISTERS))
    threads, blocks = params.block_x * params.block_y * params.block_z, ctypes.c_int()
    size = ctypes.c_size_t(params.shared)
    _call(driver, "cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(blocks), function, threads, size)
    return Launched(
        _name(driver, function),
        (params.grid_x, params.grid_y, params.grid_z),
        threads,
        registers,
        static + params.shared,
        local,
        blocks.value,
        min(1.0, blocks.value * -(-threads // _WARP) / most_warps),
    )


def _attribute(driver: ctypes.CDLL, which: int, function: ctypes.c_void_p) -> int:
    value = ctypes.c_int()
    _call(driver, "cuFuncGetAttribute", ctypes.byref(value), which, function)
    return value.value


def _name(driver: ctypes.CDLL, function: ctypes.c_void_p) -> str:
    found = ctypes.c_char_p()
    try:
        _call(driver, "cuFuncGetName", ctypes.byref(found), function)
    except (AttributeError, RuntimeError):  # drivers before 12.3
        return ""
    return (found.value or b"").decode(errors="replace")


def _call(driver: ctypes.CDLL, name: str, *arguments: Any) -> None:
    status = getattr(driver, name)(*arguments)
    if status:
        raise RuntimeError(f"{name} of the driver failed with status {status}")
