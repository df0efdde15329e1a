// The instructions of Hopper that the kernel is built from, each behind a name.
#include "fused_work.cuh"

namespace {

using i64 = long long;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

// What cuTensorMapEncodeTiled fills in, passed by value.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

// Of the blocks of A and B as they lie, of their planes, and of the blocks of C.
struct Maps {
  TensorMap a, planes_a, b, planes_b, c;
};

constexpr int kMaxClusters = 80;  // more than a device of this architecture can run at the same time
constexpr int kNeverShared = 1 << 30;

// What a cluster does: all steps of a tile, or a share of them, which has a number. No steps: nothing.
struct Job {
  int tile, from, steps, share;
};

// The numbers of the shares of a tile.
struct Sharers {
  short first, count;
};

struct Problem {
  int M, N, K;              // of one block
  bool copied_a, copied_b;  // blocks were copied, so that they lie one after the other
  i64 rows, columns;        // of C
  void* C;
  i64 ldc;
  float scale, beta;
  void* scratch;
  u32* header;         // counters, zero between launches, see Pace and make_planes
  PlaneJob make_a, make_b;
  u32 units, units_a;  // of work to make planes, and how many of them are of A
  int workers;         // clusters that begin with products, the others begin with planes; 0: all are alike
  int rounds;          // whole tiles of each cluster; the rest is shared
  void* sums;          // blocks of C of each share, one after the other
  const int *row_exponents, *column_exponents;  // of C, see Work
#ifdef SUBCUBIC_EPILOGUE
  Extras extras;
#endif  // SUBCUBIC_EPILOGUE
  Job shares[kMaxClusters][2];
  Sharers sharers[kMaxClusters];  // of each tile after the whole ones
};

// A loop whose index is a constant expression, for register arrays and immediate operands.
template <int V>
struct Constant {
  static constexpr int value = V;
};
template <int FROM, int TO, class F>
__device__ __forceinline__ void unrolled(F&& body) {
  if constexpr (FROM < TO) {
    body(Constant<FROM>{});
    unrolled<FROM + 1, TO>(body);
  }
}

__device__ __forceinline__ u32 shared_address(const void* p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }

// ---- barriers in shared memory

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
  asm volatile(
      "{\n.reg .pred P;\nAGAIN:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;\n"
      "@P bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier), "r"(parity) : "memory");
}

// Arrives at the same barrier of a block of the cluster. Without .release, which would become a fence of the whole
// device in every step: what it must order, reads of shared memory by wgmma, has completed before.
__device__ __forceinline__ void barrier_arrive(u32 barrier, u32 block) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier), "r"(block) : "memory");
}

__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ __forceinline__ u32 cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

// A barrier of the 128 threads of one warpgroup; 0 is that of the whole block.
__device__ __forceinline__ void group_sync(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// The same, and whether any thread says yes.
__device__ __forceinline__ bool group_any(int group, bool mine) {
  int any;
  asm volatile(
      "{\n.reg .pred p, q;\nsetp.ne.s32 p, %1, 0;\nbar.red.or.pred q, %2, 128, p;\nselp.s32 %0, 1, 0, q;\n}"
      : "=r"(any) : "r"(static_cast<int>(mine)), "r"(group + 1) : "memory");
  return any;
}

__device__ __forceinline__ void consumers_sync() { asm volatile("bar.sync 3, 256;" ::: "memory"); }

// A warpgroup has read what the other one waits for; a barrier for either direction.
constexpr int kRead = 4;
__device__ __forceinline__ void tell_read(int group) { asm volatile("bar.arrive %0, 256;" ::"r"(kRead + group) : "memory"); }
__device__ __forceinline__ void wait_for_reader(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(kRead + group) : "memory");
}

// ---- bulk copies

__device__ __forceinline__ void load_3d(u32 to, const TensorMap* map, int x, int y, int z, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::
          "r"(to), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier) : "memory");
}

__device__ __forceinline__ void load_4d(u32 to, const TensorMap* map, int x, int y, int c, int z, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::
          "r"(to), "l"(map), "r"(x), "r"(y), "r"(c), "r"(z), "r"(barrier) : "memory");
}

// To both blocks of the cluster, at the same place, with a signal to the same barrier of each.
__device__ __forceinline__ void load_3d_both(u32 to, const TensorMap* map, int x, int y, int z, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier),
      "h"(static_cast<u16>(3)) : "memory");
}

__device__ __forceinline__ void load_4d_both(u32 to, const TensorMap* map, int x, int y, int c, int z, u32 barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1, {%2, %3, %4, %5}], [%6], %7;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(c), "r"(z), "r"(barrier),
      "h"(static_cast<u16>(3)) : "memory");
}

__device__ __forceinline__ void store_2d(const TensorMap* map, u32 from, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];" ::"l"(map), "r"(from),
               "r"(x), "r"(y) : "memory");
}

__device__ __forceinline__ void load_bytes(u32 to, const void* from, u32 bytes, u32 barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

__device__ __forceinline__ void store_bytes(void* to, u32 from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
               : "memory");
}

__device__ __forceinline__ void stores_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Until all but N of this thread's groups of stores have read shared memory, or have been written.
template <int N>
__device__ __forceinline__ void stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}
__device__ __forceinline__ void stores_written() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Ordinary accesses before are complete when bulk copies and wgmma after begin.
__device__ __forceinline__ void fence_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
__device__ __forceinline__ void fence_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- register tiles to and from memory; OFFSET is part of the instruction, so that no address is kept for each

template <int OFFSET>
__device__ __forceinline__ void global_load(const void* from, float* v) {
  asm volatile("ld.global.cg.v4.f32 {%0, %1, %2, %3}, [%4+%5];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "l"(from), "n"(OFFSET) : "memory");
}

template <int OFFSET>
__device__ __forceinline__ void shared_store(u32 to, const float* v) {
  asm volatile("st.shared.v4.f32 [%0+%5], {%1, %2, %3, %4};" ::"r"(to), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]),
               "n"(OFFSET) : "memory");
}

template <int OFFSET>
__device__ __forceinline__ void shared_load(u32 from, float* v) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4+%5];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3]) : "r"(from), "n"(OFFSET) : "memory");
}

__device__ __forceinline__ void shared_write(u32 to, int a, int b, int c, int d) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

__device__ __forceinline__ int shared_read(u32 from) {
  int value;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
  return value;
}

__device__ __forceinline__ void store_matrices(u32 to, float a, float b, float c, float d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(__float_as_uint(a)),
               "r"(__float_as_uint(b)), "r"(__float_as_uint(c)), "r"(__float_as_uint(d)) : "memory");
}

template <class T>
constexpr bool kIsHalf = false;
#ifdef __CUDA_FP16_TYPES_EXIST__
template <>
constexpr bool kIsHalf<__half> = true;
#endif

// Two values as one register of 16-bit numbers, the first in the lower half.
[[maybe_unused]] __device__ __forceinline__ float packed_half(float low, float high) {
  u32 both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return __uint_as_float(both);
}
template <class T>
__device__ __forceinline__ float packed(float low, float high) {
  if constexpr (kIsHalf<T>) return packed_half(low, high);
  u32 both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return __uint_as_float(both);
}

// ---- tensor cores

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Matrix descriptors of tiles in shared memory with the 128-byte swizzle; addresses are in units of 16 bytes, so that
// an offset can be added, and without the number of the block in its cluster, which stands above the 18th bit. Rows of
// 64 elements along the depth.
__device__ __forceinline__ u64 by_rows(u32 address) {
  return static_cast<u64>((address & 0x3FFFF) >> 4) | static_cast<u64>(1024 >> 4) << 32 | 1ull << 62;
}

// Rows across the depth: chunks of 64 columns, `pitch` bytes apart, each of rows of 128 bytes.
__device__ __forceinline__ u64 by_columns(u32 address, u32 pitch) {
  return by_rows(address) | static_cast<u64>(pitch >> 4) << 16;
}

}  // namespace
