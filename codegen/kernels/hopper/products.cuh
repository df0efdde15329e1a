// The kernel: every block of a persistent grid takes tiles, and for each runs through all products in chain order.
// Warpgroup 0 has one thread that keeps the copy engine busy; warpgroups 1 and 2 multiply, 64 rows each. Two blocks
// form a cluster over neighbouring rows and share what they read of B.
#include "making.cuh"
#include "ring.cuh"
#include "sharing.cuh"

namespace {

constexpr int kThreads = 384, kProducerRegisters = 40, kConsumerRegisters = 232;

// Turns of a phase; with one phase all are in the second one.
__device__ __forceinline__ int first_turn(int phase) { return phase ? kBoundary : 0; }
__device__ __forceinline__ int end_of_turns(int phase) { return phase ? kTurnCount : kBoundary; }
constexpr int kFirstPhase = kBoundary > 0 ? 0 : 1;

__device__ __forceinline__ bool begins_with_planes(const Problem& p) {
  return kBoundary > 0 && p.units > 0 && static_cast<int>(blockIdx.x / 2) >= p.workers;
}

// The barrier that says that both blocks of a cluster need the ring for planes no more.
template <int TILE_N>
__device__ __forceinline__ u32 ring_free(u32 shared) {
  return shared + Tile<TILE_N>::barriers + 16 * Tile<TILE_N>::stages + 16 * kGroups;
}

// Pieces of work in one tile: so long a cluster with a tile less than the others can make planes.
template <int TILE_N>
__device__ __forceinline__ u32 pieces_of_tile(const Problem& p) {
  return (Tile<TILE_N>::steps(p.K) * Tile<TILE_N>::depth + kPaceDepth - 1) / kPaceDepth * kTurnCount;
}

// Where a factor begins in its map: along the rows of A or the columns of B, which run through all blocks of a matrix as it
// lies, and which block along the depth. Planes and copies lie one after the other: rows of them follow each other, but
// where memory has the depth in its rows each is a block of its own.
struct Corner {
  int along, block;
};

template <bool BY_COLUMNS>
__device__ __forceinline__ Corner corner(const Factor& factor, bool copied, int size) {
  const bool apart = factor.plane || copied;
  if (BY_COLUMNS) return {apart ? 0 : factor.column * size, apart ? factor.index : factor.row};
  return {(apart ? factor.index : factor.row) * size, apart ? 0 : factor.column};
}

template <int TILE_N, bool DIRECT>
__device__ __forceinline__ void produce(const Maps& maps, const Problem& p, u32 shared) {
  using T = Tile<TILE_N>;
  const Raster<TILE_N> raster(p);
  const int rank = cluster_rank();
  Ring<T> ring(shared);
  if (begins_with_planes(p)) barrier_wait(ring_free<TILE_N>(shared), 0);
  Pace pace(p.header);
#pragma unroll 1
  for (int phase = kFirstPhase; phase < 2; ++phase) {
    if (kBoundary > 0 && phase == 1) wait_for_planes(p);
#pragma unroll 1
    for (int number = 0;; ++number) {
      const Job job = job_of<TILE_N, DIRECT>(p, number);
      if (job.steps == 0) break;
      int m, n;
      raster.place(job.tile, m, n);
      m += rank * kTileM;
#pragma unroll 1
      for (int r = first_turn(phase); r < end_of_turns(phase); ++r) {
        const Factor a = kLeft[r], b = kRight[r];
        const TensorMap* map_a = a.plane ? &maps.planes_a : &maps.a;
        const TensorMap* map_b = b.plane ? &maps.planes_b : &maps.b;
        const Corner from_a = corner<kTransposedA>(a, p.copied_a, p.M), from_b = corner<!kTransposedB>(b, p.copied_b, p.N);
#pragma unroll 1
        for (int k = job.from; k < job.from + job.steps; ++k) {
          if (k % (kPaceDepth / T::depth) == 0) pace.step();
          barrier_wait(ring.empty(ring.stage()), ring.parity() ^ 1);
          const u32 full = ring.full(), to_a = shared + ring.stage() * T::stage_bytes, to_b = to_a + T::bytes_a;
          barrier_expect(full, T::stage_bytes);
          if (kTransposedA)
            load_4d(to_a, map_a, 0, k * T::depth, (from_a.along + m) / 64, from_a.block, full);
          else
            load_3d(to_a, map_a, k * T::depth, from_a.along + m, from_a.block, full);
          // Each block of the cluster fetches one half for both.
          const u32 half_b = to_b + rank * (T::bytes_b / 2);
          if (kTransposedB)
            load_3d_both(half_b, map_b, k * T::depth, from_b.along + n + rank * (TILE_N / 2), from_b.block, full);
          else
            load_4d_both(half_b, map_b, 0, k * T::depth + rank * (T::depth / 2), (from_b.along + n) / 64, from_b.block,
                         full);
          ring.advance();
        }
        if (lends<T>(kTurns[r].count, shares<DIRECT>(p, number))) ring.skip();
      }
    }
  }
}

// Adds to sums the products of what lies in a stage, or begins them anew. `a`, `b`: descriptors of what comes first there.
template <class Element, int TILE_N, int DEPTH>
__device__ __forceinline__ void multiply_stage(float (&sums)[TILE_N / 2], u64 a, u64 b, bool add) {
  wgmma_fence();
#pragma unroll
  for (int j = 0; j < DEPTH / 16; ++j) {
    // Of B each block of the cluster fetched one half.
    const int to_a = kTransposedA ? j * 2048 : j * 32;
    const int to_b = kTransposedB ? j * 32 : j / 2 * (TILE_N * DEPTH) + j % 2 * 2048;
    wgmma<Element>(sums, a + (to_a >> 4), b + (to_b >> 4), add || j > 0);
  }
  wgmma_commit();
}

// One consumer warpgroup: its sums, its place in the ring, what it still has to publish.
template <int TILE_N, bool DIRECT>
struct Consumer {
  using T = Tile<TILE_N>;

  Ring<T> ring;
  Publisher<TILE_N, DIRECT> publisher;
  float sums[T::sums];
  u64 base_a, base_b;  // descriptors in stage 0
  int group;

  __device__ __forceinline__ Consumer(const Maps& maps, const Problem& p, u32 shared, int place, u32 phases, int group,
                                      int thread)
      : ring(shared, place), publisher(&maps.c, p, shared, phases, group, thread), group(group) {
    const u32 a = shared + group * (T::bytes_a / kGroups), b = shared + T::bytes_a;
    base_a = kTransposedA ? by_columns(a, 0) : by_rows(a);
    base_b = kTransposedB ? by_rows(b) : by_columns(b, T::depth / 2 * 128);
#pragma unroll
    for (int i = 0; i < T::sums; ++i) sums[i] = 0.f;
  }

  // `publication`: any one, or -1 where there is none.
  __device__ __forceinline__ bool lends_after(int publication, int job) const {
    return lends<T>(publication + 1, shares<DIRECT>(publisher.problem, job));
  }

  __device__ __forceinline__ void release(int stage) {
    // One thread for each block of the cluster.
    if (publisher.thread < 2) barrier_arrive(ring.empty(stage), publisher.thread);
  }

  template <class Element>
  __device__ __forceinline__ void step(int stage, bool add) {
    const int at = stage * (T::stage_bytes >> 4);
    multiply_stage<Element, TILE_N, T::depth>(sums, base_a + at, base_b + at, add);
  }

  // All steps of a product.
  template <class Element>
  __device__ __forceinline__ void multiply(const Turn& turn, int job, int steps) {
    const int next = turn.count ? turn.first : -1;
    bool expected = next < 0;  // in two phases; in one it follows from what the publisher has turned to
    // The same in a whole warp, which the compiler only believes after a shuffle; then descriptors need no vector
    // registers.
    ring.place = __shfl_sync(~0u, ring.place, 0);
    barrier_wait(ring.full(), ring.parity());
    step<Element>(ring.stage(), !turn.clear);
    ring.advance();
#ifdef SUBCUBIC_EPILOGUE
    for (int i = 0; i < turn.count; ++i) publisher.foresee(turn.first + i, job);
    Vectors<TILE_N> vectors;
#endif  // SUBCUBIC_EPILOGUE
#pragma unroll 1
    for (int left = steps - 1; left > 0; --left) {
      barrier_wait(ring.full(), ring.parity());
      step<Element>(ring.stage(), true);
      if (T::staged && ring.place & Ring<T>::kLent) hand_back(ring.before(2));
      if (kPartialSums && !publisher.leaving() &&
          !(kBoundary > 0 ? expected : next < 0 || publisher.expects(next, job))) {
        publisher.expect(next, job);
        expected = true;
      } else {
        publisher.meanwhile(left);
      }
#ifdef SUBCUBIC_EPILOGUE
      // When they are put, nobody reads those of the publication before any more: the other group is at most as many steps
      // behind as the ring has stages, and a product has at least two more.
      if (left == 4 && next >= 0) publisher.fetch(vectors, next, job);
      if (left == 2 && next >= 0) publisher.put(vectors, next, job);
#endif  // SUBCUBIC_EPILOGUE
      if (left == 1 && lends_after(next, job)) {
        wait_for_reader(1 - group);
        if (publisher.adds()) publisher.receive_fourth(spare(ring.next()));
      }
      wgmma_wait<1>();
      if (left == 3 && lends_after(next, job))
        tell_read(group);
      else
        release(ring.before(1));
      ring.advance();
    }
    wgmma_wait<0>();
    release(ring.before(1));
    if (!kPartialSums && next >= 0) publisher.expect(next, job);
    // From here on the accumulators are ordinary registers, which the compiler cannot know.
#pragma unroll
    for (int i = 0; i < T::sums; ++i) asm volatile("" : "+f"(sums[i])::"memory");
  }

  // This warpgroup's half of the columns in a stage that is lent.
  __device__ __forceinline__ u32 spare(int stage) const {
    return ring.shared + stage * T::stage_bytes + T::bytes_a + group * (T::bytes_b / kGroups);
  }

  // After a product: the last publication leaves during the next product.
  __device__ __forceinline__ void publish(const Turn& turn, int job) {
#pragma unroll 1
    for (int i = 0; i < turn.count; ++i) {
      if (i > 0) {
        publisher.settle();
        publisher.expect(turn.first + i, job);
#ifdef SUBCUBIC_EPILOGUE
        if (Steps::vectors > 0 && publisher.finishes(turn.first + i, job)) {
          consumers_sync();  // both have read the vectors of the one before
          Vectors<TILE_N> vectors;
          publisher.fetch(vectors, turn.first + i, job);
          publisher.put(vectors, turn.first + i, job);
        }
#endif  // SUBCUBIC_EPILOGUE
        while (kMostAtOnce > 1 && publisher.coming()) publisher.receive();
        if (T::staged && publisher.adds()) publisher.receive_fourth(spare(ring.stage()));
      }
      publisher.publish(sums, spare(ring.stage()));
    }
    if (lends_after(turn.count - 1, job)) ring.lend();
  }

  // Everything leaves.
  __device__ __forceinline__ void finish() {
    publisher.settle();
    if (T::staged && ring.place & Ring<T>::kLent) hand_back(ring.before(1));
  }

  // What lay in the stage has been read by this warpgroup, by ordinary loads too, and by its stores.
  __device__ __forceinline__ void hand_back(int stage) {
    if (publisher.thread == 0) stores_read<0>();
    fence_shared();
    group_sync(group);
    release(stage);
    ring.place &= ~Ring<T>::kLent;
  }
};

template <int TILE_N, bool DIRECT>
__device__ __forceinline__ void consume(const Maps& maps, const Problem& p, u32 shared) {
  // The same in a whole warp, which the compiler only believes after a shuffle.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0) - 1;
  const u32 ticket = ring_free<TILE_N>(shared) + 8;
  int place = 0;
  u32 phases = 0;
#ifdef SUBCUBIC_EPILOGUE
  // The steps make it long, and a call would cost registers in all products.
  const auto run = [&](int phase) __attribute__((always_inline)) {
#else  // SUBCUBIC_EPILOGUE
  const auto run = [&](int phase) {
#endif  // SUBCUBIC_EPILOGUE
    if (!DIRECT && kBoundary > 0 && (phase == 1 || begins_with_planes(p))) {
      make_planes(p, shared, ticket, phase == 0 && p.workers > 0 ? pieces_of_tile<TILE_N>(p) : ~0u);
      if (phase == 0 && threadIdx.x == 128) {
        barrier_arrive(ring_free<TILE_N>(shared), 0);
        barrier_arrive(ring_free<TILE_N>(shared), 1);
      }
    }
    // Its registers are free for planes between the phases.
    Consumer<TILE_N, DIRECT> consumer(maps, p, shared, place, phases, group, threadIdx.x % 128);
#pragma unroll 1
    for (int job = 0;; ++job) {
      consumer.publisher.begin(job);
      const int steps = consumer.publisher.steps(job);
      if (steps == 0) break;
      if (phase == 1) consumer.publisher.recall(job);
#pragma unroll 1
      for (int r = first_turn(phase); r < end_of_turns(phase); ++r) {
        const Turn& turn = kTurns[r];
        if (kConverted && !turn.plain)
          consumer.template multiply<Plane>(turn, job, steps);
        else
          consumer.template multiply<Input>(turn, job, steps);
        consumer.publish(turn, job);
      }
    }
    consumer.finish();
    if (kBoundary > 0) group_sync(group);  // all have read the last note
    place = consumer.ring.place;
    phases = consumer.publisher.phases;
  };
  if constexpr (kBoundary > 0) {
#pragma unroll 1
    for (int phase = 0; phase < 2; ++phase) run(phase);
  } else {
    run(1);
  }
  if (threadIdx.x % 128 == 0) stores_written();
  if (!DIRECT && kBoundary == 0 && p.rounds < kNeverShared) {
    for (int second = 0; second < 2; ++second) {
      const Job job = p.shares[blockIdx.x / 2][second];
      if (job.steps) combine<TILE_N>(p, job.tile, group, threadIdx.x % 128);
    }
  }
}

static_assert(sizeof(Maps) + sizeof(Problem) <= 4096, "they are passed by value");
static_assert(4 * (kShared + 4 * kMaxClusters) <= 4096, "counters of shared tiles have their place in the header");

template <int TILE_N, bool DIRECT>
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads, 1)
    products(const __grid_constant__ Maps maps, const __grid_constant__ Problem problem) {
  using T = Tile<TILE_N>;
  extern __shared__ unsigned char memory[];
  const u32 shared = (shared_address(memory) + 1023) & ~1023u;
  if (threadIdx.x == 0) {
    for (int s = 0; s < T::stages; ++s) {
      barrier_init(shared + T::barriers + 8 * s, 1);
      barrier_init(shared + T::barriers + 8 * (T::stages + s), 2 * kGroups);
    }
    for (int g = 0; g < 2 * kGroups; ++g) barrier_init(shared + T::barriers + 16 * T::stages + 8 * g, 1);
    barrier_init(ring_free<TILE_N>(shared), 2);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kProducerRegisters));
    if (threadIdx.x == 0) {
      produce<TILE_N, DIRECT>(maps, problem, shared);
      if (kBoundary > 0) count_out(problem);
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kConsumerRegisters));
    consume<TILE_N, DIRECT>(maps, problem, shared);
  }
  // The other block of the cluster may still signal here.
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}

}  // namespace
