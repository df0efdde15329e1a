// Sizes of the sm_80 kernel, the walk over tiles, and where a product's factors lie.
#include "fused_work.cuh"
#include "ptx.cuh"

namespace {

constexpr int kTileM = 128, kTileN = 128, kTileK = 32;
// 8 warps, 2 x 4 of them over a tile, 64 x 32 each; two CTAs share a multiprocessor, so a thread has 128 registers.
// Three stages of 16 KB let two CTAs share even the 100 KB of sm_86, sm_89 and sm_120.
constexpr int kThreads = 256, kCtasPerMultiprocessor = 2, kStages = 3;
constexpr int kBytesA = kTileM * kTileK * 2, kStageBytes = kBytesA + kTileK * kTileN * 2;
constexpr int kMaxCtas = 384;  // more than any device of these architectures runs at once
constexpr int kFragmentsM = 4, kFragmentsN = 4;  // of 16 x 8, in a warp
#ifndef __CUDACC_RTC__  // host code
template <class Map, bool BY_COLUMNS>
bool in_place(const Side&) {
  return true;
}

inline size_t scratch_bytes(int64_t m, int64_t n, int64_t) {
  const int64_t tiles = (m + kTileM - 1) / kTileM * ((n + kTileN - 1) / kTileN);
  return size_t(kSlots) * kTileM * kTileN * sizeof(float) * (tiles < kMaxCtas ? tiles : kMaxCtas);
}
#endif

struct Tile {
  int row, column;  // first element inside a block of C
};

// Tiles that run at the same time lie in a near-square, so that they share rows of A and columns of B in L2.
__device__ __forceinline__ Tile tile_at(int index, int tiles_m, int tiles_n) {
  constexpr int kBand = 16;
  const int band = index / (kBand * tiles_n), inside = index - band * kBand * tiles_n;
  const int height = min(kBand, tiles_m - band * kBand);
  return {(band * kBand + inside % height) * kTileM, inside / height * kTileN};
}

// A factor of a product: a row-major matrix, zero beyond rows x columns, which may be negative.
struct Factor {
  const char* data;
  int64_t ld;  // bytes
  int rows, columns;
};

template <class Blocks>
__device__ __forceinline__ Factor factor(const Side& side, int source) {
  const int64_t size = side.block_rows * side.block_columns;
  const int rows = static_cast<int>(side.block_rows), columns = static_cast<int>(side.block_columns);
  if (source >= Blocks::count)
    return {reinterpret_cast<const char*>(side.planes + (source - Blocks::count) * size), 2 * side.block_columns, rows, columns};
  if (side.copies)
    return {reinterpret_cast<const char*>(side.copies + source * size), 2 * side.block_columns, rows, columns};
  const int place = Blocks::at(source);
  const int64_t row = place / Blocks::columns * side.block_rows, column = place % Blocks::columns * side.block_columns;
  return {reinterpret_cast<const char*>(side.matrix + row * side.ld + column), 2 * side.ld,
          static_cast<int>(min(side.block_rows, side.rows - row)),
          static_cast<int>(min(side.block_columns, side.columns - column))};
}

}  // namespace
