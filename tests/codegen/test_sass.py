"""The reader of binaries, on kernels that do what it must notice and on kernels that do not."""

import pytest

from codegen import sass
from codegen.build import MissingCompilerError, build_cuda, resources
from tests.codegen.compilers import needs_disassembler, needs_nvcc

# Values of its own per thread in more registers than the bounds leave it, and a product in the loop.
SPILLING = """
extern "C" __global__ void __launch_bounds__(1024, 2) spilling(float* out, const float* x, int n) {
  float v[64];
#pragma unroll
  for (int j = 0; j < 64; ++j) v[j] = x[j + threadIdx.x];
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
#pragma unroll
    for (int j = 0; j < 64; ++j) v[j] = v[j] * x[i * 64 + j + threadIdx.x] + v[(j * 7 + 1) % 64];
    PRODUCT
  }
#pragma unroll
  for (int j = 0; j < 64; ++j) out[threadIdx.x * 64 + j] = v[j];
}
"""
HMMA = """asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%4,%5}, \
{%0,%1,%2,%3};" : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3]) : "r"(i), "r"(i + 1), "r"(i + 2), "r"(i + 3));"""
# Products, in each a loop over k that waits; waiting ends behind the function, and the publication has a fence.
NESTED = """
#include <cstdint>
extern "C" __global__ void __launch_bounds__(128) nested(uint64_t a, uint64_t b, int n, int products, float* out) {
  extern __shared__ uint64_t full[];
  const uint32_t address = __cvta_generic_to_shared(full);
#pragma unroll 1
  for (int r = 0; r < products; ++r) {
    float v[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (int k = 0; k < n; ++k) {
      asm volatile("{.reg .pred P; W: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra D; bra W; D: }"
                   :: "r"(address + 8 * (k & 3)), "r"(k >> 2 & 1) : "memory");
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
      asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, 1, 1, 1, 0, 0;"
                   : "+f"(v[0]), "+f"(v[1]), "+f"(v[2]), "+f"(v[3]) : "l"(a + 2 * k), "l"(b + 2 * k));
      asm volatile("wgmma.commit_group.sync.aligned;\\n wgmma.wait_group.sync.aligned 0;" ::: "memory");
      INSIDE
    }
    for (int i = 0; i < 4; ++i) out[(r * 128 + threadIdx.x) * 4 + i] = v[i];
    __threadfence();
  }
}
"""
# A switch that jumps through a table, a function of its own, and an array in local memory.
JUMPING = """
__device__ __noinline__ float slow(float x, int n) { for (int i = 0; i < n; ++i) x = sinf(x) / n; return x; }
extern "C" __global__ void jumping(const int* ops, int n, float* out, float x) {
  float kept[8] = {x, x, x, x, x, x, x, x};
#pragma unroll 1
  for (int i = 0; i < n; ++i) {
    switch (ops[i]) {
      case 0: kept[i & 7] += x; break;
      case 1: kept[i & 7] *= x; __syncthreads(); break;
      case 2: out[i] = slow(x, n); break;
      case 3: kept[i & 7] = out[3]; break;
      case 4: out[7] = kept[3]; break;
      case 5: x = sqrtf(x); break;
      case 6: __threadfence(); break;
    }
  }
  out[0] = x + kept[n & 7];
}
"""

pytestmark = [needs_nvcc, needs_disassembler]


def read(text, arch="sm_90a"):
    found = sass.read(build_cuda(text, arch, kind="cubin"))
    registers = {usage.kernel: usage.registers for usage in resources(text, arch)}
    assert {kernel.name: kernel.registers for kernel in found} == registers
    return found


def test_spills_are_counted_as_ptxas_counts_them_and_found_in_the_loop():
    text = SPILLING.replace("PRODUCT", HMMA)
    (kernel,), (usage,) = read(text), resources(text, "sm_90a")
    assert usage.spill_stores > 64
    assert (kernel.local_stores, kernel.local_loads) == (usage.spill_stores, usage.spill_loads)
    (loop,) = kernel.main_loops
    assert kernel.mma == {"HMMA": 1} and loop.mma == 1 and kernel.stack > 0
    assert 0 < loop.local_stores <= kernel.local_stores and 0 < loop.local_loads < kernel.local_loads
    assert loop.local_always == loop.local_stores + loop.local_loads


def test_the_same_kernel_with_enough_registers_has_none():
    (kernel,) = read(SPILLING.replace("PRODUCT", HMMA).replace("1024, 2", "256, 1"))
    assert kernel.local_stores == kernel.local_loads == kernel.stack == 0
    assert [(loop.local_stores, loop.local_loads, loop.local_always) for loop in kernel.main_loops] == [(0, 0, 0)]


def test_without_products_there_is_no_main_loop():
    (kernel,) = read(SPILLING.replace("PRODUCT", ""), "sm_80")
    assert kernel.loops and kernel.main_loops == () and kernel.mma == {}


def test_a_fence_between_products_is_not_in_the_main_loop():
    (kernel,) = read(NESTED.replace("INSIDE", ""))
    assert set(kernel.mma) == {"HGMMA"} and kernel.membar
    outer, main, *waiting = kernel.loops
    assert (main,) == kernel.main_loops
    assert (
        outer.membar == kernel.membar
        and outer.mma == main.mma == kernel.mma["HGMMA"]
        and main.membar == 0
        and outer.membar_always
    )
    # The wait that spins lies behind the end of the kernel, yet belongs to the loop over k.
    assert waiting and all(loop.mma == 0 and int(loop.start, 16) > int(main.start, 16) for loop in waiting)
    assert main.instructions < outer.instructions < kernel.instructions


@pytest.mark.parametrize(
    "inside",
    [
        "__threadfence();",
        'asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" :: "r"(address));',
    ],
)
def test_a_fence_in_the_main_loop_is_found(inside):
    (kernel,) = read(NESTED.replace("INSIDE", inside))
    (main,) = kernel.main_loops
    assert 0 < main.membar_always == main.membar


def test_a_fence_that_few_turns_meet_is_told_from_one_that_all_meet():
    (kernel,) = read(NESTED.replace("INSIDE", "if (k == products) __threadfence();"))
    (main,) = kernel.main_loops
    assert main.membar and main.membar_always == 0


@pytest.mark.parametrize(("when", "always"), [("k == products", 0), ("true", 8)])
def test_local_accesses_that_few_turns_meet_are_told_from_those_that_all_meet(when, always):
    inside = f"if ({when}) {{ volatile float kept[4]; __threadfence(); kept[k & 3] = out[k]; v[0] += kept[n & 3]; }}"
    (kernel,) = read(NESTED.replace("INSIDE", inside))
    (main,) = kernel.main_loops
    assert (main.local_stores, main.local_loads, main.local_always) == (4, 4, always)


def test_loops_through_jump_tables_and_functions_are_understood():
    (kernel,) = read(JUMPING, "sm_80")
    assert kernel.stack and kernel.membar
    outer, *others = kernel.loops
    assert outer.membar == kernel.membar and outer.local_stores and outer.local_loads
    assert int(outer.start, 16) > 0 and outer.instructions < kernel.instructions
    # The loop in the function that is called is a loop of its own.
    assert any(int(loop.start, 16) > int(outer.start, 16) + 16 * outer.instructions for loop in others)


def test_every_kernel_of_a_file_is_read():
    both = read(NESTED.replace("INSIDE", "") + SPILLING.replace("PRODUCT", HMMA))
    assert {kernel.name: set(kernel.mma) for kernel in both} == {"nested": {"HGMMA"}, "spilling": {"HMMA"}}


def test_what_is_no_cubin_is_refused(tmp_path):
    path = tmp_path / "text.cubin"
    path.write_text("no cubin")
    with pytest.raises(ValueError, match="text.cubin cannot be disassembled"):
        sass.read(path)


def test_a_missing_disassembler_is_one_sentence(monkeypatch):
    monkeypatch.setenv("NVDISASM", "/nowhere/nvdisasm")
    with pytest.raises(MissingCompilerError, match="/nowhere/nvdisasm was not found; pip install nvidia-cuda-nvdisasm"):
        sass.disassembler()
