// The steps of an epilogue on a thread's part of a tile, and their operands. The tensor cores wait meanwhile, so vectors are
// brought to shared memory before, a residual into L2, and the operands of several pairs are fetched at once.
#include "narrow.cuh"

namespace {

constexpr int kPairsAtOnce = 8;
using Unit = Raw<2, Extra>::Unit;  // of a pair

// A store that does not happen, since no size is negative, which the compiler cannot know. It would put off packing to the end
// and keep what is not packed, and then the steps of one sum at a time have registers.
__device__ __forceinline__ void packed_by_now(u32 place, int size, float a, float b, float c, float d) {
  asm volatile("{\n.reg .pred p;\nsetp.lt.s32 p, %5, 0;\n@p st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n}" ::"r"(place), "f"(a),
               "f"(b), "f"(c), "f"(d), "r"(size)
               : "memory");
}

// A part of an operand. Where a kernel may come before the one before has ended, what it reads is not constant as long as it is
// there.
template <class T>
__device__ __forceinline__ T read_extra(const T* from) {
#ifdef SUBCUBIC_FEW
  return *from;
#else  // SUBCUBIC_FEW
  return __ldg(from);
#endif  // SUBCUBIC_FEW
}

// A pair of neighbours of 16 bits as numbers.
__device__ __forceinline__ float2 both_of(u32 pair) {
  Raw<2, Extra> raw;
  reinterpret_cast<u32&>(raw.word[0]) = pair;
  float2 two;
  if constexpr (kCoarse)  // BF16 is the upper half of FP32
    two = {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  else
    widen(raw.element[0], two.x), widen(raw.element[1], two.y);
  return two;
}

// A pair of each vector, on its way to shared memory. A group takes a pair for each thread from memory, and some steps later
// puts it there; both groups put the same to the same place, so nobody minds which of them was first.
template <int TILE_N>
struct Vectors {
  u32 pairs[Steps::vectors ? Steps::vectors : 1];

  // `column`: of the tile's first one in C. What is beyond C is its last pair.
  __device__ __forceinline__ void fetch(const Problem& p, i64 column, int thread) {
    const i64 pair = min(column + 2 * min(thread, TILE_N / 2 - 1), p.columns - 2);
    int vector = 0;
#pragma unroll
    for (int i = 0; i < Steps::operands; ++i)
      if (!(Steps::matrices >> i & 1)) pairs[vector++] = read_extra(reinterpret_cast<const u32*>(extra_at(p.extras, i, 0, pair)));
  }
  __device__ __forceinline__ void put(u32 to, int thread) const {
    if (2 * thread >= TILE_N) return;
#pragma unroll
    for (int i = 0; i < Steps::vectors; ++i) {
      if constexpr (Steps::vectors == 1) {
        const float2 two = both_of(pairs[i]);
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to + 8 * thread), "f"(two.x), "f"(two.y) : "memory");
      } else {
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(to + i * TILE_N * 2 + 4 * thread), "r"(pairs[i]) : "memory");
      }
    }
  }
};

__device__ __forceinline__ u32 near_pair(u32 from) {
  u32 pair;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(pair) : "r"(from));
  return pair;
}
[[maybe_unused]] __device__ __forceinline__ float2 near_wide(u32 from) {
  float2 two;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(two.x), "=f"(two.y) : "r"(from));
  return two;
}

// Those of a thread's sums of a block of C, or of a half of them. Where a tile reaches beyond C they are of its last elements.
// Vectors lie in shared memory, unless TILE_N is 0, and then in C's columns.
template <int TILE_N>
struct Operands {
  static constexpr bool kNear = TILE_N > 0, kWide = kNear && Steps::vectors == 1;
  const Extras& extras;
  const char* rows[kExtraPlaces][2];  // of vectors both the same
  int column, last_column;            // of pairs
  u32 near;                           // where the first vector begins
  Fetched<2> with[kPairsAtOnce];
  float2 wide[kPairsAtOnce];  // of the only vector
  int batch;  // known to the compiler, since the loops over sums are unrolled

  // `row`, `column`: of the first sum in C; `within`: the column in the tile.
  __device__ __forceinline__ Operands(const Problem& problem, i64 row, i64 column, u32 vectors = 0, int within = 0)
      : extras(problem.extras), column(static_cast<int>(column)), last_column(static_cast<int>(problem.columns) - 2),
        near(vectors + within * (kWide ? 4 : 2)), batch(-1) {
#pragma unroll
    for (int i = 0; i < Steps::operands; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows[i][half] = reinterpret_cast<const char*>(extra_at(extras, i, min(row + 8 * half, problem.rows - 1), 0));
        if (Steps::matrices >> i & 1) asm("" : "+l"(rows[i][half]));  // else it is found again for each pair
      }
  }

  // Fetches, if a sum of this number is the first of its batch that is asked for. Both rows of two pairs have the same columns.
  __device__ __forceinline__ void reach(int sum) {
    if (batch == sum / (2 * kPairsAtOnce)) return;
    batch = sum / (2 * kPairsAtOnce);
#pragma unroll
    for (int j = 0; j < kPairsAtOnce; ++j) {
      const int pair = batch * kPairsAtOnce + j, offset = min(column + 8 * (pair >> 1), last_column) * int(sizeof(Extra));
      int vector = 0;
#pragma unroll
      for (int i = 0; i < Steps::operands; ++i) {
        u32& word = reinterpret_cast<u32&>(with[j].of[i].word[0]);
        if (!kNear || Steps::matrices >> i & 1)
          with[j].of[i].word[0] = read_extra(reinterpret_cast<const Unit*>(rows[i][pair & 1] + offset));
        else if (kWide)
          wide[j] = j % 2 ? wide[j - 1] : near_wide(near + 32 * (pair >> 1));
        else
          word = j % 2 ? reinterpret_cast<u32&>(with[j - 1].of[i].word[0])
                       : near_pair(near + vector++ * TILE_N * 2 + 16 * (pair >> 1));
      }
    }
  }

  // The steps on a sum as C would have it without them.
  __device__ __forceinline__ float applied(int sum, float x) {
    reach(sum);
    const int place = sum / 2 % kPairsAtOnce;
    return finished_unless_spoiled(x, [&](float y) {
      return Steps::apply(y, extras.scale, [&](int operand) {
        const bool matrix = Steps::matrices >> operand & 1;
        const float2 two =
            kWide && !matrix ? wide[place] : both_of(reinterpret_cast<const u32&>(with[place].of[operand].word[0]));
        return sum % 2 ? two.y : two.x;
      });
    });
  }
};

// Two sums of a publisher in a register of its window, after adding what has come and the steps. The tensor cores wait
// meanwhile, and the steps of one sum depend on each other, so registers are needed for several at once.
template <bool ADD, class Publisher, int COUNT>
__device__ __forceinline__ void pack_finished(Publisher& p, float (&sums)[COUNT], float c, u32 spare) {
  using T = typename Publisher::T;
  // The next product may go on with the sums, and with the window they leave few registers for the steps. Some wait in the
  // buffers, unless those hold what has come: so many float4s of each thread, half of what fits.
  constexpr bool kSomeAside = kPartialSums && (T::narrow || !ADD);
  constexpr int kAside = T::buffers * kBoxBytes / kRowOfThreads / 2;
  const int row = shared_read(p.note(p.job)), column = shared_read(p.note(p.job) + 4);
  bool fine = true;
  if constexpr (ADD && T::staged) {
    p.wait_for(0);
    p.wait_for(1);
  }
  if constexpr (kSomeAside)
    if (p.thread == 0) stores_read<0>();
  if constexpr (Steps::vectors > 0 || kSomeAside) group_sync(p.group);
  Operands<Publisher::kTileN> operands(p.problem, p.row_of(row, 0), p.column_of(column, 0), p.shared + T::vectors,
                                       p.thread % 4 * 2);
  const auto value = [&](int i, float own, float came) {
    float sum = ADD ? p.problem.scale * (c * own + came) : c * own;
    // Where C is a single block, tiles reach beyond its edge.
    if constexpr (kScaled)
      sum = unscaled_at(sum, p.problem, min(p.row_of(row, i), p.problem.rows - 1),
                        min(p.column_of(column, i), p.problem.columns - 1));
    if constexpr (kGuarded) fine &= finite(sum);
    return operands.applied(i, sum);
  };
  const auto two = [&](int i, float own, float next, float came, float came_next) {
    p.window[i] = packed<Output>(value(2 * i, own, came), value(2 * i + 1, next, came_next));
  };
  if constexpr (kSomeAside) {
    const Widener widen(T::narrow && ADD ? p.bounds.of(kPublications[p.now].slot) - kTop : 0);
    const auto added = [&](int i, float own, float next) {
      float low = 0.f, high = 0.f;
      if constexpr (ADD) widen(p.window[i], low, high);
      two(i, own, next, low, high);
    };
    const auto four = [&](int i, const float* own) {  // numbers i and i + 1 of the window
      added(i, own[0], own[1]);
      added(i + 1, own[2], own[3]);
      if (i % 4 == 2)
        packed_by_now(p.staging(), p.problem.K, p.window[i - 2], p.window[i - 1], p.window[i], p.window[i + 1]);
    };
    const u32 aside = p.staging() + p.thread * 16;
    unrolled<0, kAside>([&](auto I) { shared_store<decltype(I)::value * kRowOfThreads>(aside, &sums[4 * decltype(I)::value]); });
#pragma unroll
    for (int i = 2 * kAside; i < T::sums / 2; i += 2) four(i, &sums[2 * i]);
    unrolled<0, kAside>([&](auto I) {
      float own[4];
      shared_load<decltype(I)::value * kRowOfThreads>(aside, own);
      four(2 * decltype(I)::value, own);
    });
    unrolled<0, kAside>([&](auto I) { shared_load<decltype(I)::value * kRowOfThreads>(aside, &sums[4 * decltype(I)::value]); });
  } else {
#pragma unroll
    for (int i = 0; i < T::window / 2; ++i) {
      two(i, sums[2 * i], sums[2 * i + 1], ADD ? p.window[2 * i] : 0.f, ADD ? p.window[2 * i + 1] : 0.f);
      if (ADD && i % 4 == 3)
        packed_by_now(p.staging(), p.problem.K, p.window[i - 3], p.window[i - 2], p.window[i - 1], p.window[i]);
    }
    unrolled<0, (T::sums - T::window) / 4>([&](auto I) {
      constexpr int i = decltype(I)::value, a = T::window + 4 * i;
      float v[4] = {0.f, 0.f, 0.f, 0.f};
      if constexpr (ADD && T::staged) shared_load<i % 8 * kRowOfThreads>((i < 8 ? p.staging() : spare) + p.thread * 16, v);
      two(a / 2, sums[a], sums[a + 1], v[0], v[1]);
      two(a / 2 + 1, sums[a + 2], sums[a + 3], v[2], v[3]);
      if (ADD && i % 2 == 1)
        packed_by_now(p.staging(), p.problem.K, p.window[a / 2 - 2], p.window[a / 2 - 1], p.window[a / 2], p.window[a / 2 + 1]);
    });
  }
  note_unless(fine, p.problem.header);
}

// Asks for a row of each matrix, from a place that is aligned like a tile.
template <int TILE_N>
[[maybe_unused]] __device__ __forceinline__ void ask_for(const Problem& p, i64 row, i64 column) {
  if (p.extras.alignment < 16 || row >= p.rows || column >= p.columns) return;
  const u32 bytes = static_cast<u32>(sizeof(Extra)) * static_cast<u32>(min(static_cast<i64>(TILE_N), p.columns - column));
#pragma unroll
  for (int i = 0; i < Steps::operands; ++i)
    if (Steps::matrices >> i & 1)
      asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(extra_at(p.extras, i, row, column)), "r"(bytes));
}

}  // namespace
