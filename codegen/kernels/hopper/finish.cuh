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

// Brings a tile's columns of each vector to shared memory, by one group for itself: both bring the same to the same place,
// so nobody minds which of them was first. `column`: of the tile's first one in C.
template <int TILE_N>
[[maybe_unused]] __device__ __forceinline__ void bring_vectors(const Problem& p, u32 to, i64 column, int thread) {
  if (2 * thread >= TILE_N) return;
  const i64 pair = min(column + 2 * thread, p.columns - 2);
  int vector = 0;
#pragma unroll
  for (int i = 0; i < Steps::operands; ++i)
    if (!(Steps::matrices >> i & 1))
      asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to + vector++ * TILE_N * 2 + 4 * thread),
                   "l"(extra_at(p.extras, i, 0, pair))
                   : "memory");
}
[[maybe_unused]] __device__ __forceinline__ u32 near_pair(u32 from) {
  u32 pair;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(pair) : "r"(from));
  return pair;
}
[[maybe_unused]] __device__ __forceinline__ void vectors_came() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Those of a thread's sums of a block of C, or of a half of them. Where a tile reaches beyond C they are of its last elements.
// Vectors lie in shared memory, unless TILE_N is 0, and then in C's columns.
template <int TILE_N>
struct Operands {
  const Extras& extras;
  const char* rows[kExtraPlaces][2];  // of vectors both the same
  int column, last_column;            // of pairs
  u32 near;                           // where the first vector's pair for the first sum lies
  Fetched<2> with[kPairsAtOnce];
  int batch;  // known to the compiler, since the loops over sums are unrolled

  // `row`, `column`: of the first sum in C.
  __device__ __forceinline__ Operands(const Problem& problem, i64 row, i64 column, u32 near = 0)
      : extras(problem.extras), column(static_cast<int>(column)), last_column(static_cast<int>(problem.columns) - 2), near(near),
        batch(-1) {
#pragma unroll
    for (int i = 0; i < Steps::operands; ++i)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        rows[i][half] = reinterpret_cast<const char*>(extra_at(extras, i, min(row + 8 * half, problem.rows - 1), 0));
        if (Steps::matrices >> i & 1) asm("" : "+l"(rows[i][half]));  // else it is found again for each pair
      }
  }

  // Fetches, if a sum of this number is the first of its batch that is asked for.
  __device__ __forceinline__ void reach(int sum) {
    if (batch == sum / (2 * kPairsAtOnce)) return;
    batch = sum / (2 * kPairsAtOnce);
#pragma unroll
    for (int j = 0; j < kPairsAtOnce; ++j) {
      const int pair = batch * kPairsAtOnce + j, offset = min(column + 8 * (pair >> 1), last_column) * int(sizeof(Extra));
      int vector = 0;
#pragma unroll
      for (int i = 0; i < Steps::operands; ++i) {
        const bool is_near = TILE_N > 0 && !(Steps::matrices >> i & 1);
        if (!is_near)
          with[j].of[i].word[0] = __ldg(reinterpret_cast<const Unit*>(rows[i][pair & 1] + offset));
        else if (pair % 2 == 0 || j == 0)  // both rows of a pair have the same columns
          reinterpret_cast<u32&>(with[j].of[i].word[0]) = near_pair(near + vector * TILE_N * 2 + 16 * (pair >> 1));
        else
          with[j].of[i].word[0] = with[j - 1].of[i].word[0];
        vector += is_near;
      }
    }
  }

  // The steps on a sum as C would have it without them.
  __device__ __forceinline__ float applied(int sum, float x) {
    reach(sum);
    const auto& pair = with[sum / 2 % kPairsAtOnce];
    return finished_unless_spoiled(x, [&](float y) {
      return Steps::apply(y, extras.scale, [&](int operand) {
        float value;
        if constexpr (kCoarse) {  // BF16 is the upper half of FP32
          const u32 word = reinterpret_cast<const u32&>(pair.of[operand].word[0]);
          value = __uint_as_float(sum % 2 ? word & 0xffff0000u : word << 16);
        } else {
          widen(pair.of[operand].element[sum % 2], value);
        }
        return value;
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
