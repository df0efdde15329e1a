import ctypes
from types import SimpleNamespace

import pytest

from evaluate import launched as module
from evaluate.device_model import device_model
from evaluate.launched import launched
from evaluate.profile_text import profile_text

ATTRIBUTES = {module._STATIC_SHARED: 1024, module._LOCAL: 16, module._REGISTERS: 168}


class Driver:
    """A driver whose graph has a kernel of a context, a memset, and a kernel that belongs to no context."""

    def __init__(self, named=True):
        self.named = named

    def cuGraphGetNodes(self, graph, nodes, count):  # noqa: N802
        assert graph.value == 77
        count._obj.value = 3
        if nodes is not None:
            nodes[:] = [11, 12, 13]
        return 0

    def cuGraphNodeGetType(self, node, kind):  # noqa: N802
        kind._obj.value = 2 if node.value == 12 else 0
        return 0

    def cuGraphKernelNodeGetParams_v2(self, node, params):  # noqa: N802
        found = params._obj
        found.grid_x, found.grid_y, found.grid_z, found.shared = 132, 2, 1, 4096
        found.block_x, found.block_y, found.block_z = 384, 1, 1
        found.function, found.kernel = (5, None) if node.value == 11 else (None, 6)
        return 0

    def cuKernelGetFunction(self, function, kernel):  # noqa: N802
        assert kernel.value == 6
        function._obj.value = 7
        return 0

    def cuFuncGetAttribute(self, value, which, function):  # noqa: N802
        assert function.value in (5, 7)
        value._obj.value = ATTRIBUTES[which]
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, blocks, function, threads, shared):  # noqa: N802
        assert threads == 384 and shared.value == 4096
        blocks._obj.value = 1
        return 0

    def cuFuncGetName(self, name, function):  # noqa: N802
        if not self.named:
            return 1
        name._obj.value = b"products"
        return 0


@pytest.fixture
def cupy():
    calls = []
    stream = SimpleNamespace(
        ptr=1, begin_capture=lambda: calls.append("begin"), end_capture=lambda: SimpleNamespace(graph=77)
    )
    runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda _: {"maxThreadsPerMultiProcessor": 2048})
    found = SimpleNamespace(cuda=SimpleNamespace(get_current_stream=lambda: stream, runtime=runtime), calls=calls)
    return found


def test_kernels_are_read_from_a_captured_launch(cupy, monkeypatch):
    monkeypatch.setattr(module, "_driver", Driver)
    found = launched(cupy, lambda number: cupy.calls.append(number))
    assert cupy.calls == ["begin", 0] and len(found) == 2
    expected = {"name": "products", "grid": (132, 2, 1), "threads": 384, "registers": 168, "shared_bytes": 5120}
    assert found[0] == {**expected, "local_bytes": 16, "blocks": 1, "occupancy": 12 / 64} == found[1]


def test_a_driver_that_has_no_names_still_has_the_rest(cupy, monkeypatch):
    monkeypatch.setattr(module, "_driver", lambda: Driver(named=False))
    assert [kernel["name"] for kernel in launched(cupy, lambda _: None)] == ["", ""]


def test_what_cannot_be_looked_at_says_why(cupy, monkeypatch):
    def refuse():
        raise OSError("the driver's library was not found")

    monkeypatch.setattr(module, "_driver", refuse)
    assert launched(cupy, lambda _: None) == "the driver's library was not found"
    cupy.cuda.get_current_stream().ptr = 0
    assert launched(cupy, lambda _: None) == "the default stream cannot be captured"


def test_the_driver_is_looked_for_by_its_names(monkeypatch):
    def missing(name):
        raise OSError(f"no {name}")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(OSError, match=r"not found \(no libcuda.so\)"):
        module._driver()


def test_a_profile_compares_with_the_limits_of_the_device():
    model = device_model("h200")
    kernel = {"name": "products", "grid": (132, 1, 1), "threads": 384, "registers": 168, "shared_bytes": 233472}
    kernel |= {"local_bytes": 0, "blocks": 1, "occupancy": 12 / 64}
    row = {"format": "2x2x2", "rank": 7, "path": "fused", "dtype": "bf16", "M": 8192, "N": 8192, "K": 8192}
    row |= {"seconds": 2 * 8192**3 / model.peak["bf16"], "launches": [kernel], "baseline_launches": "no driver"}
    row |= {"counters": {"dram_read_bytes": 2e9, "bank_conflicts": 0.0, "tensor_busy": 0.93, "clock_mhz": 1500.0}}
    row |= {"baseline_counters": {"reason": "ncu was not found"}, "registers": 168, "spill_bytes": 12}
    text = profile_text(row, model)
    assert "ours: products: 132x1x1 blocks of 384 threads, 168 registers, 228 KiB shared, 1 at once" in text
    assert "19% of its warps" in text and "the vendor's: no driver" in text
    assert "DRAM read 2000 MB, 0 bank conflicts, tensor cores busy 93%, 1500 MHz" in text
    assert "the vendor's, counted: ncu was not found" in text and "spilled 12 bytes of 168 registers" in text
    assert f"of a copy's {model.copy / 1e9:.4g} GB/s" in text
    assert "TFLOP/s effective" in profile_text(row, None)


@pytest.mark.gpu
def test_a_real_launch_has_its_kernels():
    import cupy

    with cupy.cuda.Stream(non_blocking=True):
        x = cupy.ones(1 << 20, cupy.float32)
        x += 1
        (kernel,) = launched(cupy, lambda _: cupy.add(x, x, out=x))
    assert kernel["threads"] > 0 and 0 < kernel["registers"] < 256 and 0 < kernel["occupancy"] <= 1
