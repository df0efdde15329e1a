// One warpgroup's part of a tile: 64 rows of accumulators, and what is published from them.
//
// The tensor cores wait while accumulators are published, since the next product goes on with them. So right after a
// product they are only copied: into spare registers (the window) and, what does not fit there, into shared memory. The
// copy leaves for memory one piece after each step of the next product, while the tensor cores work, and a partial sum
// that is going to be added comes in during the last steps.
#include "narrow.cuh"
#ifdef SUBCUBIC_EPILOGUE
#include "finish.cuh"
#endif  // SUBCUBIC_EPILOGUE

namespace {

// 16 registers of packed numbers of each thread of a group as a box of C.
__device__ __forceinline__ void write_box(u32 to, int thread, const float* packs) {
  // stmatrix: lanes 0-7, 8-15, 16-23, 24-31 give the rows of four 8 x 8 matrices: rows 0-7 and 8-15 of the warp's 16
  // rows in columns 0-7, then both in columns 8-15. Chunks of 8 columns are swizzled with the row.
  const u32 row = to + ((thread >> 5) * 16 + ((thread >> 3) & 1) * 8 + (thread & 7)) * 128;
  const u32 chunk = ((thread >> 4) & 1) ^ (thread & 7);
  unrolled<0, 4>([&](auto I) {
    constexpr int i = decltype(I)::value;
    store_matrices(row + ((chunk ^ (2 * i)) << 4), packs[4 * i], packs[4 * i + 1], packs[4 * i + 2], packs[4 * i + 3]);
  });
}

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
  Bounds<T::narrow> bounds;
  int job;      // that the publication is of
  int now;      // number of the publication
  int calls;    // that are still to come: of send(), or if negative of receive()
  u32 phases;   // of the two barriers of what comes

  __device__ __forceinline__ Publisher(const TensorMap* map, const Problem& problem, u32 shared, u32 phases, int group,
                                       int thread)
      : map(map), problem(problem), shared(shared), group(group), thread(thread), job(0), now(0), calls(0), phases(phases) {
#pragma unroll
    for (int i = 0; i < T::window; ++i) window[i] = 0.f;
  }

  __device__ __forceinline__ int kind() const { return kPublications[now].kind; }
  __device__ __forceinline__ bool resumes() const { return kResumes > 0 && kind() == kResume; }
  __device__ __forceinline__ bool adds() const { return kPartialSums && (kind() == kAdd || kind() == kFinish || resumes()); }
  __device__ __forceinline__ bool pending() const { return kPartialSums && (kind() == kPark || kind() == kAdd); }
  __device__ __forceinline__ bool shared_tile() const { return shares<DIRECT>(problem, job); }
  __device__ __forceinline__ bool partial() const { return pending() || shared_tile(); }
  // Whether the tile is pending between the phases, so that another publisher goes on with it.
  __device__ __forceinline__ bool carried() const { return kCarried > 0 && kPublications[now].slot < kCarried; }
  __device__ __forceinline__ bool leaving() const { return calls > 0; }
  __device__ __forceinline__ bool coming() const { return kPartialSums && calls < 0; }
  // This group's buffers in shared memory, the barrier of what comes (0) or of the fourth box (1), this group's part
  // of the pending tile.
  __device__ __forceinline__ u32 staging() const {
    return shared + T::stages * T::stage_bytes + group * T::buffers * kBoxBytes;
  }
  __device__ __forceinline__ u32 arrived(int which) const {
    return shared + T::barriers + 16 * T::stages + 16 * group + 8 * which;
  }
  __device__ __forceinline__ char* slot() const { return slot(kPublications[now].slot, job); }
  __device__ __forceinline__ char* slot(int number, int job) const {
    // What is carried from the first phase to the second one has a slot for each tile.
    i64 place = number;
    if constexpr (kCarried > 0) {
      const int clusters = gridDim.x / 2, rounds = (Raster<TILE_N>(problem).count() + clusters - 1) / clusters;
      place = place < kCarried ? place * rounds + job : place + kCarried * (rounds - 1);
    }
    place = place * gridDim.x + blockIdx.x;
    return static_cast<char*>(problem.scratch) + place * T::slot_bytes + group * T::group_bytes;
  }
  // Where the thread that stores has noted of a job: row and column of this group's corner, number of the share, steps.
  __device__ __forceinline__ u32 note(int job) const { return shared + T::notes + 16 * (2 * group + job % 2); }
  __device__ __forceinline__ int steps(int job) const { return shared_read(note(job) + 12); }
  __device__ __forceinline__ void begin(int job) const {
    if (thread == 0) {
      const Job found = job_of<TILE_N, DIRECT>(problem, job);
      int row, column;
      Raster<TILE_N>(problem).place(found.tile, row, column);
      shared_write(note(job), row + cluster_rank() * kTileM + group * 64, column, found.share, found.steps);
    }
    group_sync(group);
  }
  // The bounds of what the first phase has left for the second one, of a job.
  __device__ __forceinline__ void recall(int job) {
    if constexpr (T::narrow && kCarried > 0)
      if (thread % 32 < kCarried) bounds.own = bound_left<T>(slot(thread % 32, job), thread);
  }

  // This group's part of a block of C as a share has it.
  __device__ __forceinline__ char* share_of(int share) const {
    const int block = kPublications[now].row * kBlocksN + kPublications[now].column;
    const i64 place = static_cast<i64>(share) * (kBlocksM * kBlocksN) + block;
    return static_cast<char*>(problem.sums) + (2 * place + cluster_rank()) * T::slot_bytes + group * T::group_bytes;
  }

  // ---- the window leaves

  // One call for each piece, and with two buffers one more: a piece is stored while the next one is written.
  static constexpr int kCalls = T::buffers - 1;

  __device__ __forceinline__ void send() {
    if (partial())
      unrolled<0, T::pieces + kCalls>([&](auto P) {
        constexpr int p = decltype(P)::value;
        if (calls == T::pieces + kCalls - p) move<p, T::pieces>([&] { write_rows(buffer(p), &window[16 * p]); },
                                                                  [&](int piece) { store_rows(piece); });
      });
    else if (!DIRECT)
      unrolled<0, T::boxes + kCalls>([&](auto P) {
        constexpr int p = decltype(P)::value;
        if (calls == T::boxes + kCalls - p) move<p, T::boxes>([&] { write_box(buffer(p), thread, &window[16 * p]); },
                                                                [&](int piece) { store_box(piece); });
      });
    --calls;
  }

  __device__ __forceinline__ u32 buffer(int piece) const { return staging() + piece % T::buffers * kBoxBytes; }

  // The PIECEth call of COUNT and perhaps one more. All threads write to a buffer, one of them stores it.
  template <int PIECE, int COUNT, class Write, class Store>
  __device__ __forceinline__ void move(Write&& write, Store&& store) {
    if (thread == 0) stores_read<0>();
    group_sync(group);
    if (T::buffers > 1 && PIECE > 0 && thread == 0) store(PIECE - 1);
    if constexpr (PIECE < COUNT) {
      write();
      fence_shared();
    }
    if constexpr (T::buffers == 1) {
      group_sync(group);
      if (thread == 0) store(PIECE);
    }
  }

  // Where the window goes that is not a part of C yet.
  __device__ __forceinline__ char* kept() const {
    return shared_tile() && !pending() ? share_of(shared_read(note(job) + 8)) : slot();
  }
  // Float4s of all threads, from a row of them on, to the pending tile; by one thread.
  __device__ __forceinline__ void to_slot(int row, u32 from, u32 bytes) const {
    store_bytes(kept() + row * kRowOfThreads, from, bytes);
    stores_commit();
  }

  // 16 registers of the pending tile. Ordinary stores would need a fence before bulk copies read them.
  __device__ __forceinline__ void write_rows(u32 to, const float* sums) const {
    unrolled<0, 4>([&](auto I) {
      constexpr int i = decltype(I)::value;
      shared_store<i * kRowOfThreads>(to + thread * 16, sums + 4 * i);
    });
  }
  __device__ __forceinline__ void store_rows(int piece) const { to_slot(4 * piece, buffer(piece), kBoxBytes); }

  __device__ __forceinline__ void store_box(int box) const {
    const int row = shared_read(note(job)), column = shared_read(note(job) + 4) + 64 * box;
    // Blocks end where boxes do. What lies behind the last ones is not in the map.
    if (row < problem.M && column < problem.N)
      store_2d(map, buffer(box), kPublications[now].column * problem.N + column, kPublications[now].row * problem.M + row);
    stores_commit();
  }

  // ---- a partial sum comes

  __device__ __forceinline__ bool expects(int publication, int of_job) const { return now == publication && job == of_job; }

  // Turns to the next publication, whose predecessor must have left.
  __device__ __forceinline__ void expect(int next, int of_job) {
    now = next;
    job = of_job;
    calls = adds() ? -kAll : 0;
  }

  // Takes the part that has come out of the buffers into the window and sends for the next one. What the buffers of 256
  // columns get last stays there. Ordinary loads would not do: the compiler waits for them before any loop, also one
  // that polls a barrier.
  __device__ __forceinline__ void receive() {
    const int came = kAll + calls;  // calls that were
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
      // Bulk copies do not wait for loads that are under way, nor does a barrier of threads.
      fence_shared();
    }
    group_sync(group);  // nobody reads the buffers any more
    if (thread == 0 && came < T::parts) {
      if (came == 0) {
        // The same thread has stored what it now loads, and from the buffers, and that is through.
        stores_written();
        fence_global();
      }
      barrier_expect(arrived(0), T::buffers * kBoxBytes);
      load_bytes(staging(), slot() + came * T::part * kRowOfThreads, T::buffers * kBoxBytes, arrived(0));
    }
    ++calls;
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

#ifdef SUBCUBIC_EPILOGUE
  static constexpr int kTileN = TILE_N;
  // Whether a publication completes a block whose elements go through the steps as they are packed.
  __device__ __forceinline__ bool finishes(int publication, int of_job) const {
    const int kind = kPublications[publication].kind;
    return !DIRECT && (kind == kFinish || kind == kWhole) && !shares<DIRECT>(problem, of_job);
  }
  // Fetches the vectors that a publication needs, and puts them to shared memory.
  __device__ __forceinline__ void fetch(Vectors<TILE_N>& vectors, int publication, int of_job) const {
    if (Steps::vectors == 0 || !finishes(publication, of_job)) return;
    const i64 column = static_cast<i64>(kPublications[publication].column) * problem.N + shared_read(note(of_job) + 4);
    vectors.fetch(problem, column, thread);
  }
  __device__ __forceinline__ void put(const Vectors<TILE_N>& vectors, int publication, int of_job) const {
    if (Steps::vectors > 0 && finishes(publication, of_job)) vectors.put(shared + T::vectors, thread);
  }
  // A publication after the product that begins now may need a part of a residual.
  __device__ __forceinline__ void foresee(int publication, int of_job) const {
    if (Steps::matrices == 0 || !finishes(publication, of_job)) return;
    const i64 row = static_cast<i64>(kPublications[publication].row) * problem.M + shared_read(note(of_job)) + thread;
    const i64 column = static_cast<i64>(kPublications[publication].column) * problem.N + shared_read(note(of_job) + 4);
    if (thread < 64) ask_for<TILE_N>(problem, row, column);
  }

#endif  // SUBCUBIC_EPILOGUE
  // One piece of what leaves or comes, while a product has so many steps to go.
  __device__ __forceinline__ void meanwhile(int steps) {
    if (leaving())
      send();
    else if (coming() && steps % 2 == 1)
      receive();
  }

  __device__ __forceinline__ void settle() {
#pragma unroll 1
    while (leaving()) send();
  }

  // ---- publishing

  // A fifth of the time to compile a kernel would be for what its table has none of.
  static constexpr bool kParksMore = kAdds > 0 || (kPartialSums && !DIRECT && kBoundary == 0), kPacksFirst = kWholes > 0;

  // `spare`: where the fourth box has come to, or where it leaves from.
  __device__ __forceinline__ void publish(float (&sums)[T::sums], u32 spare) {
    const float c = kPublications[now].coefficient;
    if (resumes()) {
      resume(sums, c, spare);
    } else if (partial()) {
      calls = T::pieces + kCalls;
      if (!adds())
        park<false>(sums, c, spare);
      else if (kParksMore)
        park<kParksMore>(sums, c, spare);
    } else if (DIRECT) {
      write_direct(sums, c);
    } else {
      calls = T::boxes + kCalls;
#ifdef SUBCUBIC_EPILOGUE
      if (adds())
        pack_finished<true>(*this, sums, c, spare);
      else if (kPacksFirst)
        pack_finished<!kPacksFirst>(*this, sums, c * problem.scale, spare);
#else  // SUBCUBIC_EPILOGUE
      if (adds())
        pack<true>(sums, c, spare);
      else if (kPacksFirst)
        pack<!kPacksFirst>(sums, c * problem.scale, spare);
#endif  // SUBCUBIC_EPILOGUE
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

  // To the pending tile, with what had been there before.
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
      if (thread == 0) {
        to_slot(24, spare, 2 * kBoxBytes);
        to_slot(16, staging(), 2 * kBoxBytes);
      }
    }
    if constexpr (T::narrow) {
      park_narrow<ADD>(sums, c);
    } else {
#pragma unroll
      for (int i = 0; i < T::window; ++i) window[i] = c * sums[i] + (ADD ? window[i] : 0.f);
    }
  }

  template <bool ADD>
  __device__ __forceinline__ void park_narrow(const float (&sums)[T::sums], float c) {
    static_assert(!T::narrow || kSlots <= 32, "a lane keeps the scale of one slot");
    const int slot = kPublications[now].slot, before = bounds.of(slot);
    int bound = bound_of(sums, c);
    if (ADD) bound = max(bound, before) + 1;
    bound = min(max(bound, kLeastBound), kMostBound);
    if (pending()) bounds.set(slot, bound);
    if (!pending() || carried()) leave_bound<T>(kept(), thread, bound);
    const float factor = c * power(kTop - bound);
    const Widener widen(max(before - bound, kLeastPower));
#pragma unroll
    for (int i = 0; i < T::sums / 2; ++i) {
      float low = 0.f, high = 0.f;
      if (ADD) widen(window[i], low, high);
      window[i] = packed_half(factor * sums[2 * i] + low, factor * sums[2 * i + 1] + high);
    }
  }

  // What has come is added to the sums, which go on from there.
  __device__ __forceinline__ void resume(float (&sums)[T::sums], float c, u32 spare) {
    if constexpr (T::narrow) {
      const Widener widen(bounds.of(kPublications[now].slot) - kTop);
#pragma unroll
      for (int i = 0; i < T::sums / 2; ++i) {
        float low, high;
        widen(window[i], low, high);
        sums[2 * i] += c * low;
        sums[2 * i + 1] += c * high;
      }
    } else {
#pragma unroll
      for (int i = 0; i < T::window; ++i) sums[i] += c * window[i];
    }
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
    fence_shared();  // nothing leaves after it, and what comes next may come at once
  }

  // Where in C a thread's sum of this number lies, from the corner of its group's part of the tile.
  __device__ __forceinline__ i64 row_of(int corner, int i) const {
    return static_cast<i64>(kPublications[now].row) * problem.M + corner + (thread >> 5) * 16 + ((thread & 31) >> 2) +
           8 * ((i >> 1) & 1);
  }
  __device__ __forceinline__ i64 column_of(int corner, int i) const {
    return static_cast<i64>(kPublications[now].column) * problem.N + corner + (thread & 3) * 2 + 8 * (i >> 2) + (i & 1);
  }

#ifdef SUBCUBIC_EPILOGUE
#else  // SUBCUBIC_EPILOGUE
  // Two sums in a register of the window, after adding what has come.
  template <bool ADD>
  __device__ __forceinline__ void pack(const float (&sums)[T::sums], float c, u32 spare) {
    const int row = kScaled ? shared_read(note(job)) : 0, column = kScaled ? shared_read(note(job) + 4) : 0;
    bool fine = true;
    const auto value = [&](int i, float came) {
      float sum = ADD ? problem.scale * (c * sums[i] + came) : c * sums[i];
      // Where C is a single block, tiles reach beyond its edge.
      if constexpr (kScaled)
        sum = unscaled_at(sum, problem, min(row_of(row, i), problem.rows - 1), min(column_of(column, i), problem.columns - 1));
      if constexpr (kGuarded) fine &= finite(sum);
      return sum;
    };
    if constexpr (T::narrow && ADD) {
      const Widener widen(bounds.of(kPublications[now].slot) - kTop);
#pragma unroll
      for (int i = 0; i < T::sums / 2; ++i) {
        float low, high;
        widen(window[i], low, high);
        window[i] = packed<Output>(value(2 * i, low), value(2 * i + 1, high));
      }
    } else {
#pragma unroll
      for (int i = 0; i < T::window / 2; ++i)
        window[i] = packed<Output>(value(2 * i, ADD ? window[2 * i] : 0.f), value(2 * i + 1, ADD ? window[2 * i + 1] : 0.f));
      if (ADD && T::staged) wait_for(0);
      unrolled<0, (T::sums - T::window) / 4>([&](auto I) {
        constexpr int i = decltype(I)::value, a = T::window + 4 * i;
        if constexpr (ADD && i == 8) wait_for(1);
        float v[4] = {0.f, 0.f, 0.f, 0.f};
        if constexpr (ADD) shared_load<i % 8 * kRowOfThreads>((i < 8 ? staging() : spare) + thread * 16, v);
        window[a / 2] = packed<Output>(value(a, v[0]), value(a + 1, v[1]));
        window[a / 2 + 1] = packed<Output>(value(a + 2, v[2]), value(a + 3, v[3]));
      });
    }
    note_unless(fine, problem.header);
  }
#endif  // SUBCUBIC_EPILOGUE

  // The ways that bulk stores cannot go: any leading dimension and edge, beta, FP32 results.
  __device__ __forceinline__ void write_direct(const float (&sums)[T::sums], float c) {
    static_assert(!DIRECT || !T::staged || !kPartialSums, "the window holds the whole partial sum");
    const bool add = adds();
    const int lane = thread & 31, row = shared_read(note(job)) + (thread >> 5) * 16 + (lane >> 2),
              column = shared_read(note(job) + 4) + (lane & 3) * 2;
#pragma unroll
    for (int i = 0; i < T::sums; ++i)
      write_element(row + 8 * ((i >> 1) & 1), column + 8 * (i >> 2) + (i & 1),
                    problem.scale * (c * sums[i] + (add ? window[i % T::window] : 0.f)));
  }

  __device__ __forceinline__ void write_element(int row, int column, float value) {
    const i64 i = static_cast<i64>(kPublications[now].row) * problem.M + row;
    const i64 j = static_cast<i64>(kPublications[now].column) * problem.N + column;
    if (row >= problem.M || column >= problem.N || i >= problem.rows || j >= problem.columns) return;
    Output* to = static_cast<Output*>(problem.C) + i * problem.ldc + j;
    value = unscaled_at(value, problem, i, j);
    if (problem.beta != 0.f) value += problem.beta * static_cast<float>(*to);
    note_unless(finite(value), problem.header);
#ifdef SUBCUBIC_EPILOGUE
    value = finished_unless_spoiled(value, [&](float x) { return finished(x, problem.extras, i, j); });
#endif  // SUBCUBIC_EPILOGUE
    *to = static_cast<Output>(value);
  }
};

}  // namespace
