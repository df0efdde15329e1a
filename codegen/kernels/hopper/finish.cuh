// The operands of an epilogue for a thread's part of a tile. The tensor cores wait while sums go through its steps, so vectors
// are brought to shared memory before, a residual into L2, and the operands of several pairs are fetched at once.
#include "jobs.cuh"

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
      if (!(Steps::matrices >> i & 1)) pairs[vector++] = __ldg(reinterpret_cast<const u32*>(extra_at(p.extras, i, 0, pair)));
  }
  __device__ __forceinline__ void put(u32 to, int thread) const {
    if (2 * thread >= TILE_N) return;
#pragma unroll
    for (int i = 0; i < Steps::vectors; ++i) {
      if constexpr (Tile<TILE_N>::wide) {
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
          with[j].of[i].word[0] = __ldg(reinterpret_cast<const Unit*>(rows[i][pair & 1] + offset));
        else if (kWide)
          wide[j] = j % 2 ? wide[j - 1] : near_wide(near + 32 * (pair >> 1));
        else
          word = j % 2 ? reinterpret_cast<u32&>(with[j - 1].of[i].word[0]) : near_pair(near + vector++ * TILE_N * 2 + 16 * (pair >> 1));
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
        const float2 two = kWide && !matrix ? wide[place] : both_of(reinterpret_cast<const u32&>(with[place].of[operand].word[0]));
        return sum % 2 ? two.y : two.x;
      });
    });
  }
};

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
