// The operands of an epilogue for a thread's part of a tile that several clusters have shared. Nothing else is left to do
// then, so the operands of several pairs are fetched at once. Other tiles go the way of handover.cuh.
#include "jobs.cuh"

namespace {

constexpr int kPairsAtOnce = 8;
using Unit = Raw<2, Extra>::Unit;  // of a pair

// Those of a thread's sums of a block of C, or of a half of them. Where a tile reaches beyond C they are of its last elements.
struct Operands {
  const Extras& extras;
  const char* rows[kExtraPlaces][2];  // of vectors both the same
  int column, last_column;            // of pairs
  Fetched<2> with[kPairsAtOnce];
  int batch;  // known to the compiler, since the loops over sums are unrolled

  // `row`, `column`: of the first sum in C.
  __device__ __forceinline__ Operands(const Problem& problem, i64 row, i64 column)
      : extras(problem.extras), column(static_cast<int>(column)), last_column(static_cast<int>(problem.columns) - 2), batch(-1) {
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
#pragma unroll
      for (int i = 0; i < Steps::operands; ++i)
        with[j].of[i].word[0] = __ldg(reinterpret_cast<const Unit*>(rows[i][pair & 1] + offset));
    }
  }

  // The steps on a sum as C would have it without them.
  __device__ __forceinline__ float applied(int sum, float x) {
    reach(sum);
    return finished_unless_spoiled(x, [&](float y) { return finished(y, extras, with[sum / 2 % kPairsAtOnce], sum % 2); });
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
