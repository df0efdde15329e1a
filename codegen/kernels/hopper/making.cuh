// Planes made by the kernel that multiplies them. Its first phase runs the products that need none; where some blocks of
// the grid have a tile less than the others, they make planes meanwhile, in the time in which they would have nothing to
// do at the end. What is left when a block comes to the second phase it helps to make.
//
// The work is handed out in units by a counter. A block only ever waits for units that running blocks have taken, and
// these wait for nobody, so the wait ends however few blocks run at the same time.
#include "ptx.cuh"

namespace {

constexpr int kMakers = 256;       // threads of a block that make planes: all that multiply
constexpr int kMakingBytes = 192 << 10;  // of shared memory
constexpr u32 kUnitPacks = 16384;  // of a unit of work

template <class Map>
__host__ __device__ constexpr u64 packs_of(const PlaneJob& job) {
  return static_cast<u64>(job.block_rows) * (job.plane_ld / Map::width);
}

template <int BYTES>
__device__ __forceinline__ void copy_async(u32 to, const void* from) {
  if constexpr (BYTES == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

// A thread makes one pack of every plane after the other. Those of the blocks come through shared memory, where all that
// fits is under way at once: so few blocks of the grid need all the copies that they can have. Each thread reads only
// what it has copied itself. Blocks tile the matrix exactly.
template <class Map>
struct Maker {
  static constexpr int V = Map::width, bytes = V * static_cast<int>(sizeof(Input)), blocks = Map::rows * Map::columns;
  static constexpr int depth = kMakingBytes / (kMakers * blocks * bytes);
  static_assert(depth >= 2, "the packs of all blocks fit into shared memory twice");

  const PlaneJob& job;
  u32 shared;  // this thread's part of it
  u32 packs, row, column;

  __device__ __forceinline__ Maker(const PlaneJob& job, u32 shared, u64 first)
      : job(job), shared(shared), packs(static_cast<u32>(job.plane_ld / V)), row(static_cast<u32>(first / packs)),
        column(static_cast<u32>(first % packs)) {}

  // Past the last row that one is taken again, rather than none.
  __device__ __forceinline__ i64 offset(i64 ld) const {
    return min(row, static_cast<u32>(job.block_rows) - 1) * ld + column * V;
  }
  __device__ __forceinline__ void advance() {
    column += kMakers;
    while (column >= packs) {
      column -= packs;
      ++row;
    }
  }
  static __device__ __forceinline__ u32 place(u32 slot, int i, int j) {
    return (slot * blocks + i * Map::columns + j) * kMakers * bytes;
  }

  __device__ __forceinline__ void fetch(u32 slot) {
    const Input* corner = job.matrix + offset(job.ld);
    Blocks<V, Input, blocks> unused;
    Map::load(
        [&](int i, int j) {
          copy_async<bytes>(shared + place(slot, i, j), corner + i * job.block_rows * job.ld + j * job.block_columns);
          return Raw<V, Input>{};
        },
        unused);
  }

  __device__ __forceinline__ void make(u32 slot) {
    Blocks<V, Input, blocks> x;
    Map::load(
        [&](int i, int j) {
          return *static_cast<const Raw<V, Input>*>(__cvta_shared_to_generic(shared + place(slot, i, j)));
        },
        x);
    Map::combine(x, Slots<V, Plane>{job.planes + offset(job.plane_ld), job.stride});
  }
};

template <class Map>
__device__ __forceinline__ void make_unit(const PlaneJob& job, u32 unit, int thread, u32 shared) {
  if constexpr (Map::planes > 0) {
    using M = Maker<Map>;
    constexpr u32 count = kUnitPacks / kMakers;
    M fetching(job, shared + thread * M::bytes, static_cast<u64>(unit) * kUnitPacks + thread), making = fetching;
#pragma unroll 1
    for (u32 i = 0, slot = 0; i < count + M::depth - 1; ++i) {
      if (i < count) {
        fetching.fetch(slot);
        fetching.advance();
      }
      copies_commit();
      slot = slot + 1 == M::depth ? 0 : slot + 1;
      if (i < M::depth - 1) continue;
      copies_wait<M::depth - 1>();  // the oldest, whose slot is the next one
      making.make(slot);
      making.advance();
    }
  }
}

// Counters of a launch in the header, beside those of fused_work.cuh: of units that were taken, of units that are made, of blocks that are through, and
// of the shares of each shared tile that are done.
enum Counter { kTaken = 2, kMade = 3, kThrough = 4, kShared = 16 };
static_assert(kThrough < kSpoiledWord && kRepairedWord < kShared, "each counter has a word of its own");

// Takes units until there are none left, or until the blocks at work have done so many pieces each, see Pace; called by
// all threads that multiply, while nothing is in the ring. `ticket`: a word of shared memory.
__device__ __forceinline__ void make_planes(const Problem& p, u32 shared, u32 ticket, u32 pieces) {
  const int thread = threadIdx.x - 128;
#pragma unroll 1
  while (true) {
    if (thread == 0) {
      u32 taken = p.units;
      u64 done;
      asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(done) : "l"(p.header) : "memory");
      const u64 enough = (done >> 32) * pieces;
      if (p.units && (enough == 0 || static_cast<u32>(done) < enough)) taken = atomicAdd(p.header + kTaken, 1);
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(ticket), "r"(taken) : "memory");
    }
    consumers_sync();
    u32 unit;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(unit) : "r"(ticket) : "memory");
    if (unit >= p.units) break;
    if (unit < p.units_a)
      make_unit<MapA>(p.make_a, unit, thread, shared);
    else
      make_unit<MapB>(p.make_b, unit - p.units_a, thread, shared);
    // Bulk copies of other blocks are going to read what was stored.
    asm volatile("fence.proxy.async;" ::: "memory");
    __threadfence();
    consumers_sync();
    if (thread == 0) atomicAdd(p.header + kMade, 1);
  }
  consumers_sync();  // the ticket has been read
}

// Until all planes are made; called by the thread that copies them.
__device__ __forceinline__ void wait_for_planes(const Problem& p) {
  u32 made;
  do
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(made) : "l"(p.header + kMade) : "memory");
  while (made < p.units);
  asm volatile("fence.proxy.async;" ::: "memory");
}

// The last block leaves zeros behind.
__device__ __forceinline__ void count_out(const Problem& p) {
  __threadfence();
  if (atomicAdd(p.header + kThrough, 1) == gridDim.x - 1) p.header[kTaken] = p.header[kMade] = p.header[kThrough] = 0;
}

}  // namespace
