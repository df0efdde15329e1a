// Tiles that several clusters have worked on, each over a part of the depth: the last one to be done adds what all have
// left in memory, in the order of the parts, so the result does not depend on who that is. Nobody waits for anybody.
#include "making.cuh"
#include "tile.cuh"

namespace {

// Two neighbours of a block of C, the first in an even column, as far as they exist.
#ifdef SUBCUBIC_EPILOGUE
// They have been through the steps.
__device__ __forceinline__ void write_pair(const Problem& p, int block, int row, int column, float a, float b) {
  const i64 i = static_cast<i64>(block / kBlocksN) * p.M + row, j = static_cast<i64>(block % kBlocksN) * p.N + column;
  if (row >= p.M || column >= p.N || i >= p.rows || j >= p.columns) return;
  Output* to = static_cast<Output*>(p.C) + i * p.ldc + j;
  if (column + 1 < p.N && j + 1 < p.columns)
    *reinterpret_cast<float*>(to) = packed<Output>(a, b);
  else
    *to = static_cast<Output>(a);
}
#else  // SUBCUBIC_EPILOGUE
__device__ __forceinline__ void write_pair(const Problem& p, int block, int row, int column, float a, float b) {
  const i64 i = static_cast<i64>(block / kBlocksN) * p.M + row, j = static_cast<i64>(block % kBlocksN) * p.N + column;
  if (row >= p.M || column >= p.N || i >= p.rows || j >= p.columns) return;
  Output* to = static_cast<Output*>(p.C) + i * p.ldc + j;
  a = unscaled_at(p.scale * a, p, i, j);
  note_unless(finite(a), p.header);
  if (column + 1 < p.N && j + 1 < p.columns) {
    b = unscaled_at(p.scale * b, p, i, j + 1);
    note_unless(finite(b), p.header);
    *reinterpret_cast<float*>(to) = packed<Output>(a, b);
  } else {
    *to = static_cast<Output>(a);
  }
}
#endif  // SUBCUBIC_EPILOGUE

// Called by a warpgroup whose shares are in memory, for the same rows of both blocks of the cluster apart.
template <int TILE_N>
__device__ __forceinline__ void combine(const Problem& p, int tile, int group, int thread) {
  using T = Tile<TILE_N>;
  constexpr int rows = T::sum_bytes / kRowOfThreads / 2;  // of float4s of each thread at once: half of a tile
  const int shared = tile - p.rounds * (gridDim.x / 2), first = p.sharers[shared].first, count = p.sharers[shared].count;
  bool last = false;
  if (thread == 0) {
    u32* counter = p.header + kShared + 2 * (2 * shared + cluster_rank()) + group;
    __threadfence();
    last = atomicAdd(counter, 1) == static_cast<u32>(count - 1);
    __threadfence();
    if (last) *counter = 0;
  }
  if (!group_any(group, last)) return;
  __threadfence();
  int row, column;
  Raster<TILE_N>(p).place(tile, row, column);
  row += cluster_rank() * kTileM + group * 64 + (thread >> 5) * 16 + ((thread & 31) >> 2);
  column += (thread & 3) * 2;
#pragma unroll 1
  for (int i = 0; i < 2 * kBlocksM * kBlocksN; ++i) {
    const int block = i / 2, half = i % 2;
    float sums[T::sums / 2];
#pragma unroll
    for (int j = 0; j < T::sums / 2; ++j) sums[j] = 0.f;
#pragma unroll 1
    for (int share = first; share < first + count; ++share) {
      const i64 place = 2 * (static_cast<i64>(share) * (kBlocksM * kBlocksN) + block) + cluster_rank();
      const char* left = static_cast<const char*>(p.sums) + place * T::slot_bytes + group * T::group_bytes;
      const char* from = left + half * rows * kRowOfThreads + thread * 16;
      float more[4 * rows];
      unrolled<0, rows>([&](auto J) { global_load<decltype(J)::value * kRowOfThreads>(from, &more[4 * decltype(J)::value]); });
      if constexpr (T::narrow) {
        const Widener widen(bound_left<T>(left, thread) - kTop);
#pragma unroll
        for (int j = 0; j < 4 * rows; ++j) {
          float low, high;
          widen(more[j], low, high);
          sums[2 * j] += low;
          sums[2 * j + 1] += high;
        }
      } else {
#pragma unroll
        for (int j = 0; j < 4 * rows; ++j) sums[j] += more[j];
      }
    }
#ifdef SUBCUBIC_EPILOGUE
    const int from_row = block / kBlocksN * p.M + row, from_column = block % kBlocksN * p.N + column + half * T::sums;
    Operands<0> operands(p, from_row, from_column);
    bool fine = true;
    // All of them before any is written, also what is beyond the edge and counts for a guard then: no branch stands between the
    // steps of several.
#pragma unroll
    for (int j = 0; j < T::sums / 2; ++j) {
      float sum = p.scale * sums[j];
      if constexpr (kScaled)
        sum = unscaled_at(sum, p, min(from_row + 8ll * (j / 2 % 2), p.rows - 1),
                          min(from_column + 8ll * (j / 4) + j % 2, p.columns - 1));
      if constexpr (kGuarded) fine &= finite(sum);
      sums[j] = operands.applied(j, sum);
    }
    note_unless(fine, p.header);
#endif  // SUBCUBIC_EPILOGUE
#pragma unroll
    for (int j = 0; j < T::sums / 4; ++j)
      write_pair(p, block, row + 8 * (j % 2), column + 8 * (half * T::sums / 8 + j / 2), sums[2 * j], sums[2 * j + 1]);
  }
}

}  // namespace
