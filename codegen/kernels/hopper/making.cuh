// Planes made by the kernel that multiplies them. Its first phase runs the products that need none; where some blocks of
// the grid have a tile less than the others, they make planes meanwhile, in the time in which they would have nothing to
// do at the end. What is left when a block comes to the second phase it helps to make.
//
// The work is handed out in units by a counter. A block only ever waits for units that running blocks have taken, and
// these wait for nobody, so the wait ends however few blocks run at the same time.
#include "ptx.cuh"

namespace {

constexpr int kMakers = 256;      // threads of a block that make planes: all that multiply
constexpr u32 kUnitPacks = 16384;  // of a unit of work

template <class Map>
__host__ __device__ constexpr u64 packs_of(const PlaneJob& job) {
  return static_cast<u64>(job.block_rows) * (job.plane_ld / Map::width);
}

// Several packs of all blocks in one thread, kMakers packs apart. Blocks tile the matrix exactly.
template <class Map>
struct Packs {
  static constexpr int V = Map::width, registers = Map::rows * Map::columns * V * static_cast<int>(sizeof(Input)) / 4;
  static constexpr int count = registers >= 64 ? 1 : registers >= 32 ? 2 : 4;

  Blocks<V, Input, Map::rows * Map::columns> x[count];
  Plane* to[count];

  // From (row, column) on, in packs, which moves on.
  __device__ __forceinline__ void load(const PlaneJob& job, u32& row, u32& column) {
    const u32 packs = static_cast<u32>(job.plane_ld / V), rows = static_cast<u32>(job.block_rows);
#pragma unroll
    for (int u = 0; u < count; ++u) {
      const u32 at = min(row, rows - 1);  // the last row again rather than none
      to[u] = job.planes + at * job.plane_ld + column * V;
      const Input* corner = job.matrix + at * job.ld + column * V;
      Map::load([&](int i, int j) { return load_raw<V>(corner + i * job.block_rows * job.ld + j * job.block_columns); }, x[u]);
      column += kMakers;
      while (column >= packs) {
        column -= packs;
        ++row;
      }
    }
  }

  __device__ __forceinline__ void store(const PlaneJob& job) const {
#pragma unroll
    for (int u = 0; u < count; ++u) Map::combine(x[u], Slots<V, Plane>{to[u], job.stride});
  }
};

// Packs are loaded while others are stored: so few blocks of the grid need all the loads under way that they can have.
template <class Map>
__device__ __forceinline__ void make_unit(const PlaneJob& job, u32 unit, int thread) {
  if constexpr (Map::planes > 0) {
    const u64 begin = static_cast<u64>(unit) * kUnitPacks + thread;
    const u32 packs = static_cast<u32>(job.plane_ld / Map::width);
    u32 row = static_cast<u32>(begin / packs), column = static_cast<u32>(begin % packs);
    Packs<Map> next;
    next.load(job, row, column);
#pragma unroll 1
    for (u32 i = kMakers * Packs<Map>::count; i <= kUnitPacks; i += kMakers * Packs<Map>::count) {
      const Packs<Map> loaded = next;
      if (i < kUnitPacks) next.load(job, row, column);
      loaded.store(job);
    }
  }
}

// Takes units until there are none left; called by all threads that multiply. `ticket`: a word of shared memory.
__device__ __forceinline__ void make_planes(const Problem& p, u32 ticket) {
  const int thread = threadIdx.x - 128;
#pragma unroll 1
  while (true) {
    if (thread == 0) {
      const u32 taken = p.units ? atomicAdd(p.header + 2, 1) : 0;
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(ticket), "r"(taken) : "memory");
    }
    consumers_sync();
    u32 unit;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(unit) : "r"(ticket) : "memory");
    if (unit >= p.units) break;
    if (unit < p.units_a)
      make_unit<MapA>(p.make_a, unit, thread);
    else
      make_unit<MapB>(p.make_b, unit - p.units_a, thread);
    // Bulk copies of other blocks are going to read what was stored.
    asm volatile("fence.proxy.async;" ::: "memory");
    __threadfence();
    consumers_sync();
    if (thread == 0) atomicAdd(p.header + 3, 1);
  }
  consumers_sync();  // the ticket has been read
}

// Until all planes are made; called by the thread that copies them.
__device__ __forceinline__ void wait_for_planes(const Problem& p) {
  u32 made;
  do
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(made) : "l"(p.header + 3) : "memory");
  while (made < p.units);
  asm volatile("fence.proxy.async;" ::: "memory");
}

}  // namespace
