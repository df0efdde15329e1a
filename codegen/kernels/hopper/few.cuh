// A plain product with few tiles: one or two for each pair of blocks, of widths that leave hardly any pair idle. Nothing of it
// is shared over the depth, since adding what is shared takes longer than a short product.
#include "products.cuh"

namespace {

// Columns of the first tile of a pair and of the second one, if there is one.
template <int WIDE, int NARROW>
struct Few {
  static_assert(NARROW <= WIDE && WIDE % 64 == 0 && NARROW % 64 == 0, "tiles are stored in boxes of 64 columns, the wider first");
  static constexpr int depth = 64, stages = WIDE == 128 ? 6 : WIDE == 192 && NARROW == 0 ? 5 : 4;
  static constexpr int buffers = NARROW > 0 ? 2 : 0;  // of a group, for a tile that another one follows
  static constexpr int bytes_a = kTileM * depth * 2, bytes_b = WIDE * depth * 2, stage_bytes = bytes_a + bytes_b;
  static constexpr int barriers = stages * stage_bytes + kGroups * buffers * kBoxBytes, vectors = barriers + 16 * stages;
#ifdef SUBCUBIC_EPILOGUE
  static constexpr int shared_bytes = 1024 + vectors + Steps::vectors * WIDE * (Steps::vectors == 1 ? 4 : 2);
#else  // SUBCUBIC_EPILOGUE
  static constexpr int shared_bytes = 1024 + vectors;
#endif  // SUBCUBIC_EPILOGUE
  static_assert(shared_bytes <= 227 * 1024, "there is no room for so many vectors");
  // Of a product, so that no group is a whole tile behind the other.
  static constexpr int least = 2 * stages;

  static __host__ __device__ constexpr int steps(int k) { return (k + depth - 1) / depth; }
};

struct FewMaps {
  Maps all;
  TensorMap narrow;  // B, in the boxes of the second tile
};
static_assert(sizeof(FewMaps) + sizeof(Problem) <= 4096, "they are passed by value");

// Where a pair's tiles lie. Pairs of neighbouring rows are neighbours, so that what runs at the same time reads B once.
template <int WIDE, int NARROW>
struct Places {
  int row, column;

  __device__ __forceinline__ explicit Places(const Problem& p) {
    const int rows = (p.M + 2 * kTileM - 1) / (2 * kTileM), pair = blockIdx.x / 2;
    row = (2 * (pair % rows) + cluster_rank()) * kTileM;
    column = pair / rows * (WIDE + NARROW);
  }
  // Whether there is a second tile.
  __device__ __forceinline__ bool two(const Problem& p) const { return NARROW > 0 && column + WIDE < p.N; }
};

// The kernel before has ended and what it has written is there; the next one may be brought to the device.
__device__ __forceinline__ void wait_for_before() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
__device__ __forceinline__ void let_next_come() { asm volatile("griddepcontrol.launch_dependents;"); }

// Brings a map to the device, and to L2 what it says of memory.
__device__ __forceinline__ void ask_for_map(const TensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
__device__ __forceinline__ void ask_for_3d(const TensorMap* map, int x, int y) {
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(0)
               : "memory");
}
__device__ __forceinline__ void ask_for_4d(const TensorMap* map, int x, int y, int c) {
  asm volatile("cp.async.bulk.prefetch.tensor.4d.L2.global.tile [%0, {%1, %2, %3, %4}];" ::"l"(map), "r"(x), "r"(y), "r"(c),
               "r"(0) : "memory");
}

// Where a block's half of B begins in a step, in the coordinates of its map.
struct Half {
  int across, along;  // in rows of memory: which one, and how far
};
template <class T, int TILE_N>
__device__ __forceinline__ Half half_of_b(int k, int column) {
  const int rank = cluster_rank(), down = k * T::depth;
  if (kTransposedB) return {column + rank * (TILE_N / 2), down};
  return {down + rank * (T::depth / 2), column};
}

// Asks L2 for the first steps of B, which mostly come from memory, as soon as a block is there. That is right whoever still
// writes it. What more is asked for keeps the copy engine from the loads.
template <class T, int TILE_N>
__device__ __forceinline__ void ask_for_b(const TensorMap& b, int column) {
#pragma unroll
  for (int k = 0; k < 2; ++k) {
    const Half half = half_of_b<T, TILE_N>(k, column);
    kTransposedB ? ask_for_3d(&b, half.along, half.across) : ask_for_4d(&b, 0, half.across, half.along / 64);
  }
}

template <class T, int TILE_N>
__device__ __forceinline__ void produce_tile(const Maps& maps, const TensorMap& b, const Problem& p, int row, int column,
                                             Ring<T>& ring) {
#pragma unroll 1
  for (int k = 0; k < T::steps(p.K); ++k) {
    barrier_wait(ring.empty(ring.stage()), ring.parity() ^ 1);
    barrier_expect(ring.full(), T::bytes_a + TILE_N * T::depth * 2);
    // Each block of the pair fetches one half of B for both.
    const u32 full = ring.full(), to = ring.shared + ring.stage() * T::stage_bytes;
    const u32 to_b = to + T::bytes_a + cluster_rank() * (TILE_N * T::depth);
    const Half half = half_of_b<T, TILE_N>(k, column);
    if (kTransposedB)
      load_3d_both(to_b, &b, half.along, half.across, 0, full);
    else
      load_4d_both(to_b, &b, 0, half.across, half.along / 64, 0, full);
    if (kTransposedA)
      load_4d(to, &maps.a, 0, k * T::depth, row / 64, 0, full);
    else
      load_3d(to, &maps.a, k * T::depth, row, 0, full);
    ring.advance();
  }
}

template <int WIDE, int NARROW>
__device__ __forceinline__ void produce_few(const FewMaps& maps, const Problem& p, u32 shared) {
  using T = Few<WIDE, NARROW>;
  const Places<WIDE, NARROW> places(p);
  Ring<T> ring(shared);
  wait_for_before();
  produce_tile<T, WIDE>(maps.all, maps.all.b, p, places.row, places.column, ring);
  if constexpr (NARROW > 0)
    if (places.two(p)) produce_tile<T, NARROW>(maps.all, maps.narrow, p, places.row, places.column + WIDE, ring);
}

template <class T>
struct FewConsumer {
  // A group stays so many steps behind the other at the end of a tile: those the other one multiplies at up to twice the
  // pace, and so the tensor cores have work while either of them writes.
  static constexpr int behind = 3;

  const Maps& maps;
  const Problem& p;
  Ring<T> ring;
  u64 base_a;
  int group, thread;

  __device__ __forceinline__ FewConsumer(const Maps& maps, const Problem& p, u32 shared, int group, int thread)
      : maps(maps), p(p), ring(shared), group(group), thread(thread) {
    const u32 a = shared + group * (T::bytes_a / kGroups);
    base_a = kTransposedA ? by_columns(a, 0) : by_rows(a);
  }

  template <int TILE_N>
  __device__ __forceinline__ void step(float (&sums)[TILE_N / 2], u64 base_b, bool add) {
    const int at = ring.stage() * (T::stage_bytes >> 4);
    multiply_stage<Input, TILE_N, T::depth>(sums, base_a + at, base_b + at, add);
  }

  // One thread for each block of the pair; but nobody waits for the stages that are read last.
  __device__ __forceinline__ void release(bool last, int left) {
    if (thread < 2 && !(last && left < T::stages)) barrier_arrive(ring.empty(ring.before(1)), thread);
  }

  template <int TILE_N>
  __device__ __forceinline__ void multiply(float (&sums)[TILE_N / 2], bool last) {
    const u32 b = ring.shared + T::bytes_a;
    const u64 base_b = kTransposedB ? by_rows(b) : by_columns(b, T::depth / 2 * 128);
    const int steps = T::steps(p.K);
    // The same in a whole warp, which the compiler only believes after a shuffle.
    ring.place = __shfl_sync(~0u, ring.place, 0);
#pragma unroll
    for (int i = 0; i < TILE_N / 2; ++i) sums[i] = 0.f;
    barrier_wait(ring.full(), ring.parity());
    step<TILE_N>(sums, base_b, false);
    ring.advance();
#pragma unroll 1
    for (int left = steps - 1; left > 0; --left) {
      if (left == behind && group == 0) wait_for_reader(1);
      barrier_wait(ring.full(), ring.parity());
      step<TILE_N>(sums, base_b, true);
      if (left == 1 && group == 1) tell_read(1);
      wgmma_wait<1>();
      release(last, left);
      ring.advance();
    }
    wgmma_wait<0>();
    release(last, 0);
    // From here on the accumulators are ordinary registers, which the compiler cannot know.
#pragma unroll
    for (int i = 0; i < TILE_N / 2; ++i) asm volatile("" : "+f"(sums[i])::"memory");
  }

  // Where a box is put on its way to C: in the group's buffers, or after the last product in its rows of A, which nobody else
  // reads and where nothing comes any more.
  __device__ __forceinline__ u32 place(int box, bool last) const {
    if (last) return ring.shared + box * T::stage_bytes + group * (T::bytes_a / kGroups);
    return ring.shared + T::stages * T::stage_bytes + (T::buffers * group + box % 2) * kBoxBytes;
  }

  // 64 columns of a tile.
  template <int BOX, class Value>
  __device__ __forceinline__ void write(int row, int column, bool last, Value&& value) {
    float packs[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) packs[i] = packed<Output>(value(32 * BOX + 2 * i), value(32 * BOX + 2 * i + 1));
    const u32 to = place(BOX, last);
    if (!last) {
      if (thread == 0) stores_read<(BOX > 0)>();  // the box before the one before has left
      group_sync(group);
    }
    write_box(to, thread, packs);
    fence_shared();
    group_sync(group);
    if (thread == 0) {
      // What lies behind the last rows and columns is not in the map.
      if (row < p.M && column + 64 * BOX < p.N) store_2d(&maps.c, to, column + 64 * BOX, row);
      stores_commit();
    }
  }

  template <int TILE_N>
  __device__ __forceinline__ void tile(int row, int column, bool last) {
    row += group * (kTileM / kGroups);
    float sums[TILE_N / 2];
#ifdef SUBCUBIC_EPILOGUE
    Vectors<TILE_N> vectors;
    vectors.fetch(p, column, thread);
    if (Steps::matrices && thread < 64) ask_for<TILE_N>(p, row + thread, column);
#endif  // SUBCUBIC_EPILOGUE
    multiply<TILE_N>(sums, last);
#ifdef SUBCUBIC_EPILOGUE
    if (Steps::vectors > 0) {
      vectors.put(ring.shared + T::vectors, thread);
      group_sync(group);
    }
    Operands<TILE_N> operands(p, row + (thread >> 5) * 16 + ((thread & 31) >> 2), column + (thread & 3) * 2,
                              ring.shared + T::vectors, thread % 4 * 2);
    const auto value = [&](int i) { return operands.applied(i, p.scale * sums[i]); };
#else  // SUBCUBIC_EPILOGUE
    const auto value = [&](int i) { return p.scale * sums[i]; };
#endif  // SUBCUBIC_EPILOGUE
    unrolled<0, TILE_N / 64>([&](auto B) { write<decltype(B)::value>(row, column, last, value); });
  }
};

template <int WIDE, int NARROW>
__device__ __forceinline__ void consume_few(const FewMaps& maps, const Problem& p, u32 shared) {
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1;
  const Places<WIDE, NARROW> places(p);
  FewConsumer<Few<WIDE, NARROW>> consumer(maps.all, p, shared, group, threadIdx.x % 128);
  const bool two = places.two(p);
  wait_for_before();
  consumer.template tile<WIDE>(places.row, places.column, !two);
  if constexpr (NARROW > 0)
    if (two) consumer.template tile<NARROW>(places.row, places.column + WIDE, true);
  if (consumer.thread == 0) stores_read<0>();
}

// A block ends as soon as it is done: it has waited for all signals that the other one of its pair sends it.
template <int WIDE, int NARROW>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    few(const __grid_constant__ FewMaps maps, const __grid_constant__ Problem problem) {
  using T = Few<WIDE, NARROW>;
  extern __shared__ unsigned char memory[];
  const u32 shared = (shared_address(memory) + 1023) & ~1023u;
  if (threadIdx.x == 32) {
    ask_for_b<T, WIDE>(maps.all.b, Places<WIDE, NARROW>(problem).column);
    ask_for_map(&maps.all.a);
    ask_for_map(&maps.all.c);
  }
  if (threadIdx.x == 0) {
    for (int s = 0; s < T::stages; ++s) {
      barrier_init(shared + T::barriers + 8 * s, 1);
      barrier_init(shared + T::barriers + 8 * (T::stages + s), 2 * kGroups);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncwarp();  // the barrier is one of whole warps
  // Barriers are all that the blocks of a pair have to know of each other. With .release, which is what an arrival is without
  // a word, all threads would wait for a fence of the device.
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
  let_next_come();
  cluster_wait();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (threadIdx.x == 0) produce_few<WIDE, NARROW>(maps, problem, shared);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    consume_few<WIDE, NARROW>(maps, problem, shared);
  }
}

}  // namespace
