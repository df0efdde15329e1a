// One warpgroup's part of a tile: 64 rows of accumulators, and what is published from them.
//
// The tensor cores wait while accumulators are published, since the next product goes on with them. So right after a
// product they are only copied: into spare registers (the window) and, what does not fit there, into shared memory. The
// copy leaves for memory one piece after each step of the next product, while the tensor cores work, and the partial
// sum of a block that is about to be finished comes in during the last steps.
#include "ptx.cuh"

namespace {

constexpr int kTileM = 128, kGroups = 2;
constexpr int kRasterRows = 8;  // clusters of neighbouring rows that walk through the columns together
constexpr int kBoxBytes = 64 * 64 * 2;   // what one bulk store writes: 64 rows of 64 16-bit numbers
constexpr int kRowOfThreads = 128 * 16;  // bytes of one float4 of each thread of a warpgroup
constexpr bool kPartialSums = kSlots > 0;

// A box is 64 of a tile's columns: 32 accumulators of a thread. The registers beside 256 columns hold two more boxes,
// those beside fewer columns a whole tile; of the others one is staged in the buffers, one in a stage that the ring lends
// for the time between two products.
template <int TILE_N>
struct Tile {
  static constexpr int boxes = TILE_N / 64, sums = TILE_N / 2;
  static constexpr bool staged = TILE_N == 256;
  static constexpr int window = staged ? 64 : sums, pieces = window / 16;
  static constexpr int depth = 64, stages = TILE_N == 256 ? 4 : TILE_N == 192 ? 5 : 6;
  static constexpr int buffers = TILE_N == 192 ? 1 : 2;
  // A partial sum comes in parts, each as large as the buffers, every other step.
  static constexpr int part = buffers * kBoxBytes / kRowOfThreads, parts = window / 4 / part + staged;
  // Steps in which everything leaves and comes; with at least a ring of them no warpgroup is a product ahead.
  static constexpr int publishing = kPartialSums ? 4 + pieces + 2 * parts : 2 + boxes;
  static constexpr int least = publishing > stages ? publishing : stages;
  static_assert(!staged || stages == 4, "the stage that is lent is used in the last step but three, and comes next");
  static constexpr int bytes_a = kTileM * depth * 2, bytes_b = TILE_N * depth * 2, stage_bytes = bytes_a + bytes_b;
  static constexpr int barriers = stages * stage_bytes + kGroups * buffers * kBoxBytes;  // after stages and buffers
  static constexpr int shared_bytes = 1024 + barriers + 16 * stages + 16 * kGroups + 16;  // 1024 to align the stages
  static constexpr int slot_bytes = kTileM * TILE_N * 4, group_bytes = slot_bytes / kGroups;

  // Steps beyond the depth of the blocks read zeros.
  static __host__ __device__ constexpr int steps(int k) {
    const int needed = (k + depth - 1) / depth;
    return needed < least ? least : needed;
  }
};

// Where the clusters' tiles lie. Consecutive tiles form near-square patches, so that what runs at the same time reads
// few different rows of A and columns of B.
template <int TILE_N>
struct Raster {
  int rows, columns;

  __device__ __forceinline__ explicit Raster(const Problem& p)
      : rows((p.M + 2 * kTileM - 1) / (2 * kTileM)), columns((p.N + TILE_N - 1) / TILE_N) {}
  __device__ __forceinline__ int count() const { return rows * columns; }
  // First row, of the cluster's first block, and column.
  __device__ __forceinline__ void place(int tile, int& m, int& n) const {
    const int patch = tile / (kRasterRows * columns), first = patch * kRasterRows;
    const int height = min(rows - first, kRasterRows), rest = tile - patch * kRasterRows * columns;
    m = (first + rest % height) * 2 * kTileM;
    n = rest / height * TILE_N;
  }
};

// Few registers are left beside accumulators and window, so what can be found again quickly is not kept.
template <int TILE_N, bool DIRECT>
struct Publisher {
  using T = Tile<TILE_N>;
  static constexpr int kAll = T::parts + !T::staged;  // receive() is called so often

  const TensorMap* map;
  const Problem& problem;
  u32 shared;
  int group, thread;
  float window[T::window];
  int tile;     // that the publication is of
  int m, n;     // its corner, kept only where there are registers for it
  int now;      // number of the publication
  int leaving;  // pieces that still have to leave
  int came;     // calls of receive() that were; kAll when nothing has to come
  u32 phases;   // of the two barriers of what comes

  __device__ __forceinline__ Publisher(const TensorMap* map, const Problem& problem, u32 shared, u32 phases, int group,
                                       int thread)
      : map(map), problem(problem), shared(shared), group(group), thread(thread), tile(0), m(0), n(0), now(0), leaving(0),
        came(kAll), phases(phases) {
#pragma unroll
    for (int i = 0; i < T::window; ++i) window[i] = 0.f;
  }

  __device__ __forceinline__ int kind() const { return kPublications[now].kind; }
  __device__ __forceinline__ bool resumes() const { return kBoundary > 0 && kind() == kResume; }
  __device__ __forceinline__ bool adds() const { return kPartialSums && (kind() == kAdd || kind() == kFinish || resumes()); }
  __device__ __forceinline__ bool partial() const { return kPartialSums && (kind() == kPark || kind() == kAdd); }
  __device__ __forceinline__ bool coming() const { return kPartialSums && came < kAll; }
  // This group's buffers in shared memory, the barrier of what comes (0) or of the fourth box (1), this thread's sums
  // in the pending tile.
  __device__ __forceinline__ u32 staging() const {
    return shared + T::stages * T::stage_bytes + group * T::buffers * kBoxBytes;
  }
  __device__ __forceinline__ u32 arrived(int which) const {
    return shared + T::barriers + 16 * T::stages + 16 * group + 8 * which;
  }
  __device__ __forceinline__ char* slot() const {
    // What is carried from the first phase to the second one has a slot for each tile.
    i64 place = kPublications[now].slot;
    if constexpr (kCarried > 0) {
      const int clusters = gridDim.x / 2, rounds = (Raster<TILE_N>(problem).count() + clusters - 1) / clusters;
      place = place < kCarried ? place * rounds + tile / clusters : place + kCarried * (rounds - 1);
    }
    place = place * gridDim.x + blockIdx.x;
    return static_cast<char*>(problem.scratch) + place * T::slot_bytes + group * T::group_bytes + thread * 16;
  }

  // ---- the window leaves

  __device__ __forceinline__ void send() {
    if (partial()) {
      // The buffers are not in a hurry, unlike the stage, so they leave now.
      if (T::staged && thread == 0 && leaving == T::pieces) staged_to_slot(16, staging());
      unrolled<0, T::pieces>([&](auto P) {
        constexpr int p = decltype(P)::value;
        if (leaving == T::pieces - p) to_slot<4 * p, 4 * p + 4>(&window[16 * p]);
      });
    } else {
      unrolled<0, T::boxes>([&](auto B) {
        constexpr int b = decltype(B)::value;
        if (leaving == T::boxes - b) write_box<b>(&window[16 * b]);
      });
    }
    --leaving;
  }

  // Rows FROM to TO of float4s to the slot.
  template <int FROM, int TO>
  __device__ __forceinline__ void to_slot(const float* v) {
    char* to = slot();
    unrolled<FROM, TO>([&](auto I) {
      constexpr int i = decltype(I)::value;
      global_store<i * kRowOfThreads>(to, v + 4 * (i - FROM));
    });
  }
  // Eight of them, a box, by one thread.
  __device__ __forceinline__ void staged_to_slot(int row, u32 from) {
    store_bytes(slot() + row * kRowOfThreads, from, 2 * kBoxBytes);
    stores_commit();
  }

  // 16 registers of packed numbers as a box of C.
  template <int BOX>
  __device__ __forceinline__ void write_box(const float* packs) {
    const u32 buffer = staging() + BOX % T::buffers * kBoxBytes;
    if (thread == 0) {
      // Nothing is stored from the buffer any more. What was staged took all of them.
      if (BOX == 0)
        stores_read<0>();
      else
        stores_read<T::buffers - 1>();
    }
    group_sync(group);
    // stmatrix: lanes 0-7, 8-15, 16-23, 24-31 give the rows of four 8 x 8 matrices: rows 0-7 and 8-15 of the warp's 16
    // rows in columns 0-7, then both in columns 8-15. Chunks of 8 columns are swizzled with the row.
    const u32 row = buffer + ((thread >> 5) * 16 + ((thread >> 3) & 1) * 8 + (thread & 7)) * 128;
    const u32 chunk = ((thread >> 4) & 1) ^ (thread & 7);
    unrolled<0, 4>([&](auto I) {
      constexpr int i = decltype(I)::value;
      store_matrices(row + ((chunk ^ (2 * i)) << 4), packs[4 * i], packs[4 * i + 1], packs[4 * i + 2], packs[4 * i + 3]);
    });
    fence_shared();
    group_sync(group);
    if (thread == 0) {
      int row, column;
      corner(row, column);
      store_4d(map, buffer, column + 64 * BOX, row, kPublications[now].block % kBlocksN, kPublications[now].block / kBlocksN);
      stores_commit();
    }
  }

  // ---- a partial sum comes

  // First row and column of this warpgroup's part of the tile.
  __device__ __forceinline__ void corner(int& row, int& column) const {
    row = m;
    column = n;
    if constexpr (kPartialSums) find_corner(row, column);
  }
  __device__ __forceinline__ void find_corner(int& row, int& column) const {
    Raster<TILE_N>(problem).place(tile, row, column);
    row += cluster_rank() * kTileM + group * 64;
  }

  // Turns to the next publication, whose predecessor must have left.
  __device__ __forceinline__ void expect(int next, int of_tile) {
    now = next;
    tile = of_tile;
    if constexpr (!kPartialSums) find_corner(m, n);
    came = adds() ? 0 : kAll;
  }

  // Takes the part that has come out of the buffers into the window and sends for the next one. What the buffers of 256
  // columns get last stays there. Ordinary loads would not do: the compiler waits for them before any loop, also one
  // that polls a barrier.
  __device__ __forceinline__ void receive() {
    if (came > 0) {
      wait_for(0);
      unrolled<1, kAll>([&](auto P) {
        constexpr int p = decltype(P)::value;
        if (came == p)
          unrolled<0, T::part>([&](auto I) {
            constexpr int i = decltype(I)::value;
            shared_load<i * kRowOfThreads>(staging() + thread * 16, &window[4 * ((p - 1) * T::part + i)]);
          });
      });
      group_sync(group);
    }
    if (came == 0) {
      // What every thread has written there is seen by the copies of one of them, and nobody reads the buffers any more.
      __threadfence();
      fence_global();
      group_sync(group);
    }
    if (thread == 0 && came < T::parts) {
      // So is what was stored in bulk, and nothing is stored from the buffers any more.
      if (came == 0) stores_written();
      barrier_expect(arrived(0), T::buffers * kBoxBytes);
      load_bytes(staging(), slot() + came * T::part * kRowOfThreads, T::buffers * kBoxBytes, arrived(0));
    }
    ++came;
  }

  __device__ __forceinline__ void wait_for(int which) {
    barrier_wait(arrived(which), phases >> which & 1);
    phases ^= 1 << which;
  }

  // The fourth box, to `spare`.
  __device__ __forceinline__ void receive_fourth(u32 spare) {
    if (thread == 0) {
      barrier_expect(arrived(1), 2 * kBoxBytes);
      load_bytes(spare, slot() + 24 * kRowOfThreads, 2 * kBoxBytes, arrived(1));
    }
  }

  // One piece of what leaves or comes, while a product has so many steps to go.
  __device__ __forceinline__ void meanwhile(int steps) {
    if (leaving > 0)
      send();
    else if (coming() && steps % 2)
      receive();
  }

  __device__ __forceinline__ void settle() {
#pragma unroll 1
    while (leaving > 0) send();
  }

  // ---- publishing

  // `spare`: where the fourth box has come to, or where it leaves from.
  __device__ __forceinline__ void publish(float (&sums)[T::sums], u32 spare) {
    const float c = kPublications[now].coefficient;
    if (resumes()) {
      resume(sums, c, spare);
    } else if (partial()) {
      leaving = T::pieces;
      if (adds())
        park<true>(sums, c, spare);
      else
        park<false>(sums, c, spare);
    } else if (DIRECT) {
      write_direct(sums, c);
    } else {
      leaving = T::boxes;
      if (adds())
        pack<true>(sums, c, spare);
      else
        pack<false>(sums, c * problem.scale, spare);
    }
  }

  // The row of float4s of the sums number A and after it, after adding what has come, back to where that lies.
  template <bool ADD, int A>
  __device__ __forceinline__ void stage(const float (&sums)[T::sums], float c, u32 spare) {
    constexpr int offset = (A - T::window) / 4 % 8 * kRowOfThreads;
    const u32 place = (A < T::window + 32 ? staging() : spare) + thread * 16;
    float v[4] = {0.f, 0.f, 0.f, 0.f};
    if constexpr (ADD) shared_load<offset>(place, v);
#pragma unroll
    for (int j = 0; j < 4; ++j) v[j] += c * sums[A + j];
    shared_store<offset>(place, v);
  }

  // To the pending tile, with what had been there before. Adding there instead would be shorter, but such additions were
  // seen to be missing from what was read later.
  template <bool ADD>
  __device__ __forceinline__ void park(const float (&sums)[T::sums], float c, u32 spare) {
    if constexpr (T::staged) {
      if constexpr (ADD) {
        wait_for(0);
        wait_for(1);
      } else {
        if (thread == 0) stores_read<0>();
        group_sync(group);
      }
      unrolled<T::window / 4, T::sums / 4>([&](auto I) { stage<ADD, 4 * decltype(I)::value>(sums, c, spare); });
      fence_shared();
      group_sync(group);
      if (thread == 0) staged_to_slot(24, spare);
    }
#pragma unroll
    for (int i = 0; i < T::window; ++i) window[i] = c * sums[i] + (ADD ? window[i] : 0.f);
  }

  // What has come is added to the sums, which go on from there.
  __device__ __forceinline__ void resume(float (&sums)[T::sums], float c, u32 spare) {
#pragma unroll
    for (int i = 0; i < T::window; ++i) sums[i] += c * window[i];
    if constexpr (T::staged) {
      wait_for(0);
      unrolled<0, 16>([&](auto I) {
        constexpr int i = decltype(I)::value, a = T::window + 4 * i;
        if constexpr (i == 8) wait_for(1);
        float v[4];
        shared_load<i % 8 * kRowOfThreads>((i < 8 ? staging() : spare) + thread * 16, v);
#pragma unroll
        for (int j = 0; j < 4; ++j) sums[a + j] += c * v[j];
      });
    }
  }

  // Two sums in a register of the window, after adding what has come.
  template <bool ADD>
  __device__ __forceinline__ void pack(const float (&sums)[T::sums], float c, u32 spare) {
    const auto value = [&](float sum, float came) { return ADD ? problem.scale * (c * sum + came) : c * sum; };
#pragma unroll
    for (int i = 0; i < T::window / 2; ++i)
      window[i] = packed<Output>(value(sums[2 * i], window[2 * i]), value(sums[2 * i + 1], window[2 * i + 1]));
    if (ADD && T::staged) wait_for(0);
    unrolled<0, (T::sums - T::window) / 4>([&](auto I) {
      constexpr int i = decltype(I)::value, a = T::window + 4 * i;
      if constexpr (ADD && i == 8) wait_for(1);
      float v[4] = {0.f, 0.f, 0.f, 0.f};
      if constexpr (ADD) shared_load<i % 8 * kRowOfThreads>((i < 8 ? staging() : spare) + thread * 16, v);
      window[a / 2] = packed<Output>(value(sums[a], v[0]), value(sums[a + 1], v[1]));
      window[a / 2 + 1] = packed<Output>(value(sums[a + 2], v[2]), value(sums[a + 3], v[3]));
    });
  }

  // The ways that bulk stores cannot go: any leading dimension and edge, beta, FP32 results.
  __device__ __forceinline__ void write_direct(const float (&sums)[T::sums], float c) {
    static_assert(!DIRECT || !T::staged || !kPartialSums, "the window holds the whole partial sum");
    const bool add = adds();
    int row, column;
    corner(row, column);
    const int lane = thread & 31;
    row += (thread >> 5) * 16 + (lane >> 2);
    column += (lane & 3) * 2;
#pragma unroll
    for (int i = 0; i < T::sums; ++i)
      write_element(row + 8 * ((i >> 1) & 1), column + 8 * (i >> 2) + (i & 1),
                    problem.scale * (c * sums[i] + (add ? window[i % T::window] : 0.f)));
  }

  __device__ __forceinline__ void write_element(int row, int column, float value) {
    const i64 i = static_cast<i64>(kPublications[now].block / kBlocksN) * problem.M + row;
    const i64 j = static_cast<i64>(kPublications[now].block % kBlocksN) * problem.N + column;
    if (row >= problem.M || column >= problem.N || i >= problem.rows || j >= problem.columns) return;
    Output* to = static_cast<Output*>(problem.C) + i * problem.ldc + j;
    if (problem.beta != 0.f) value += problem.beta * static_cast<float>(*to);
    *to = static_cast<Output>(value);
  }
};

}  // namespace
