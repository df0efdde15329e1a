"""Emitted Triton modules on a real device against FP64."""

import importlib.util
import itertools

import pytest

from catalog.known import strassen, winograd
from catalog.measures import growth
from catalog.transform import kron
from codegen.emit import emit
from codegen.plan import plan
from codegen.schedule import schedule
from tests.codegen.schemes import plans

pytestmark = pytest.mark.gpu

PLANS = plans()
NAMES = ["strassen", "winograd", "classical", "rectangular", "mixed", "rational", "trivial"]
TYPES = [("fp16", "fp16"), ("bf16", "bf16"), ("bf16", "fp16")]
UNIT = {"fp16": 2.0**-11, "bf16": 2.0**-8}
# M, K, N: whole tiles; ragged with rows of 16 bytes; rows that are not; less than one block.
SIZES = [(512, 768, 1024), (700, 1000, 520), (259, 517, 131), (1, 3, 2)]


@pytest.fixture
def load(tmp_path):
    for library in ("torch", "triton"):
        if not importlib.util.find_spec(library):
            pytest.skip(f"no {library}")

    def loaded(the_plan, dtype, plane_dtype):
        path = tmp_path / "emitted.py"
        path.write_text(emit(the_plan, "triton", dtype=dtype, plane_dtype=plane_dtype))
        spec = importlib.util.spec_from_file_location("emitted", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return loaded


def check(module, size, tolerance, config=None):
    import torch

    m, k, n = size
    torch.manual_seed(0)
    a, b = (torch.randn(shape, device="cuda").to(module.DTYPE) for shape in ((m, k), (k, n)))
    space = torch.full((m, n + 8), float("nan"), dtype=module.DTYPE, device="cuda")
    for view in (space[:, :n], space[:, :n]):  # the second launch meets what the first has left in its memory
        module.matmul(a, b, out=view, config=config)
        exact = a.double() @ b.double()
        error = ((view.double() - exact).norm() / exact.norm()).item()
        assert error <= tolerance, (size, config, error)
        assert space[:, n:].isnan().all()


@pytest.mark.parametrize(("dtype", "plane_dtype"), TYPES)
@pytest.mark.parametrize("scheme", NAMES)
def test_products_are_right_at_any_size(load, scheme, dtype, plane_dtype):
    module, p = load(PLANS[scheme], dtype, plane_dtype), PLANS[scheme]
    factor = max(1.0, growth(p.scheme) / p.format.volume)
    for size in SIZES:
        check(module, size, 4 * UNIT[dtype] * factor, config=module.CONFIGS[-1])


@pytest.mark.parametrize("number", range(5))
def test_every_config_is_right(load, number):
    module = load(PLANS["winograd"], "bf16", "fp16")
    check(module, (1000, 1024, 1040), 4 * UNIT["bf16"], config=module.CONFIGS[number])


def test_small_integers_are_exact(load):
    import torch

    module = load(plan(kron(winograd(), strassen())), "fp16", "fp16")
    a, b = (torch.randint(-2, 3, size, device="cuda").half() for size in ((530, 200), (200, 300)))
    assert torch.equal(module.matmul(a, b).double(), a.double() @ b.double())


def test_tuning_and_resources(load):
    import torch

    module = load(PLANS["winograd"], "bf16", "bf16")
    a, b = (torch.randn((2048, 2048), device="cuda").bfloat16() for _ in range(2))
    times = module.tune(a, b)
    assert times and set(times) <= set(module.CONFIGS) and min(times.values()) > 0
    found = module.resources()
    assert {"combine_a", "combine_b", *map(module.label, times)} <= set(found)
    assert found["combine_a"][1] == found["combine_b"][1] == 0
    # 256 x 128 is the default because it spills least of the large ones: pieces of 32 columns, not of 64.
    spilled = found[module.label((256, 128, 64, 8, 3))][1]
    assert spilled <= 128 and spilled < found[module.label((128, 256, 64, 8, 3))][1]


def test_a_slot_may_be_taken_in_the_turn_that_frees_it(load):
    import torch

    chosen = PLANS["rectangular"]
    turns = [[(p.slot, p.first, p.last) for p in turn.publications] for turn in schedule(chosen).turns]
    taken = [(one, other) for turn in turns for one, other in itertools.combinations(turn, 2) if one[0] == other[0]]
    assert any(one[2] and other[1] for one, other in taken)  # else the scheme shows nothing
    module = load(chosen, "bf16", "bf16")
    a, b = (torch.randn(size, device="cuda").bfloat16() for size in ((4096, 768), (768, 8192)))
    for config in module.CONFIGS[:3]:
        expected = module.matmul(a, b, config=config)
        error = (expected.double() - a.double() @ b.double()).norm() / (a.double() @ b.double()).norm()
        assert error <= 4 * UNIT["bf16"] * growth(chosen.scheme) / chosen.format.volume
        assert all(torch.equal(module.matmul(a, b, config=config), expected) for _ in range(30)), config


def test_a_launch_can_be_captured_in_a_graph(load):
    import torch

    module = load(PLANS["winograd"], "bf16", "bf16")
    a, b = (torch.randn((1024, 1024), device="cuda").bfloat16() for _ in range(2))
    expected, out = module.matmul(a, b), torch.empty_like(a)
    module.matmul(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        module.matmul(a, b, out=out)
    out.fill_(float("nan"))
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(out, expected)
