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

// Several packs of every plane by one thread, whose loads are all under way at once. Blocks tile the matrix exactly.
template <class Map, int COUNT>
__device__ __forceinline__ void make_packs(const PlaneJob& job, u64 first, u64 total) {
  constexpr int V = Map::width;
  Blocks<V, Input, Map::rows * Map::columns> x[COUNT];
  i64 offset[COUNT];
#pragma unroll
  for (int u = 0; u < COUNT; ++u) {
    const u64 item = min(first + static_cast<u64>(u) * kMakers, total - 1);  // the last one again rather than none
    const Place at = place(item, job.plane_ld / V, total, V);
    offset[u] = at.row * job.plane_ld + at.column;
    const Input* corner = job.matrix + at.row * job.ld + at.column;
    Map::load([&](int i, int j) { return load_raw<V>(corner + i * job.block_rows * job.ld + j * job.block_columns); }, x[u]);
  }
#pragma unroll
  for (int u = 0; u < COUNT; ++u) Map::combine(x[u], Slots<V, Plane>{job.planes + offset[u], job.stride});
}

template <class Map>
__device__ __forceinline__ void make_unit(const PlaneJob& job, u32 unit, int thread) {
  if constexpr (Map::planes > 0) {
    constexpr int registers = Map::rows * Map::columns * Map::width * static_cast<int>(sizeof(Input)) / 4;
    constexpr int count = registers >= 64 ? 1 : registers >= 32 ? 2 : 4;
    const u64 total = packs_of<Map>(job), begin = static_cast<u64>(unit) * kUnitPacks;
#pragma unroll 1
    for (u32 i = 0; i < kUnitPacks; i += kMakers * count)
      if (begin + i < total) make_packs<Map, count>(job, begin + i + thread, total);
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
