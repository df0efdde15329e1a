// The rule for tiles, and a second one to begin a search with.
#include <cmath>

#include "tiles.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

int most_split(const Handle& handle) {
  return !handle.clusters ? 1 : handle.wide_clusters ? kMostSplit : kPortableSplit;
}

int most_split(const Handle& handle, const Compiled& tile) {
  return tile.streamed[0] && !handle.wide_streams ? (handle.clusters ? kPortableSplit : 1) : most_split(handle);
}

// Whether the device has a tile, and a map can say how B lies: in rows of whole 16 bytes, at distances below 2^40 bytes.
bool has(const Handle& handle, const SCHEME_product& p, const Compiled& tile) {
  if (!tile.streamed[0]) return true;
  const int64_t most = (INT64_C(1) << 40) / static_cast<int64_t>(sizeof(Input)), lines = kTransposedB ? p.N : p.K;
  const bool whole = p.K % 8 == 0 && (kTransposedB || p.N % 8 == 0) && p.ldb % 8 == 0 && p.stride_b % 8 == 0;
  return handle.encoder && tile.shared[p.M > 8] <= handle.shared && whole && lines < most / p.ldb &&
         (p.groups == 1 || p.stride_b < most);
}

int64_t over(int64_t value, int64_t by) { return (value + by - 1) / by; }

// As bytes that a multiprocessor could read meanwhile: what the blocks of a cluster take to come together, and for each of
// them to tell the others its sums; what streamed tiles take longer to begin with, and to bring each of the last sums to C.
// What they read counts less, since they keep memory so much busier.
constexpr double kClusterBytes = 30000, kMemberBytes = 1000, kStreamBytes = 16000, kSumBytes = 64, kStreamed = 0.8;

// What the busiest multiprocessor reads: of B, and for each block of A, which the cache has, at half the price. While sums of
// a register tile meet, other blocks read, and while those of a streamed tile do, the block itself does, but for the last.
double most_read(const Handle& handle, const SCHEME_product& p, const Compiled& tile, int split) {
  const int64_t tiles = over(p.N, tile.columns) * p.groups;
  const double rows = p.M < 16 ? p.M : 16;
  const double of_block = (tile.columns + rows / 2) * sizeof(Input) * p.K / split;
  const double of_cluster = split > 1 ? kClusterBytes + split * kMemberBytes : 0;
  if (!tile.streamed[0]) return over(tiles * split, handle.multiprocessors) * (of_block + of_cluster);
  const double turns = over(tiles, handle.places(split));
  return kStreamBytes + turns * (kStreamed * of_block + of_cluster) + kSumBytes * rows * tile.columns;
}

// The rule: the tile and the blocks on the depth with which the busiest multiprocessor reads the least. No warp is without
// a piece, and that of a streamed tile reads at least as much of its columns as its ring holds; of tiles that are alike the
// first is taken.
void choose(const Handle& handle, const SCHEME_product& p, int& tile, int& split) {
  const int given_tile = tile, given_split = split;
  double least = HUGE_VAL;
  for (int i = 0; i < kTileCount; ++i) {
    const Compiled& one = kCompiled[i];
    if (given_tile >= 0 ? i != given_tile : over(p.N, one.columns) > kMostTiles || !has(handle, p, one)) continue;
    const bool full = given_tile < 0 && one.streamed[0];
    for (int by = 1; by <= most_split(handle, one); by *= 2) {
      if (given_split >= 1 && by != given_split) continue;
      if (by * one.depth > p.K && (full || (given_split < 1 && by > 1))) continue;
      const double read = most_read(handle, p, one, by);
      if (read < least) least = read, tile = i, split = by;
    }
  }
  // What there is not is left to the launch, which says so.
  if (tile < 0) tile = 0;
  if (split < 1) split = 1;
}

// A second rule, which other libraries go by: a tile whose side is what shared memory would hold of two square operands,
// narrower in proportion to the rows that are missing to 16, and blocks on the depth that fill the device once. Of register
// tiles, which every device has.
void square(const Handle& handle, const SCHEME_product& p, int& tile, int& split) {
  const double side = std::sqrt(0.7 * handle.shared / (2 * sizeof(Input))) * (p.M < 16 ? p.M : 16) / 16;
  tile = 0, split = 1;
  for (int i = 1; i < kTileCount; ++i)
    if (!kCompiled[i].streamed[0] && std::fabs(kCompiled[i].columns - side) < std::fabs(kCompiled[tile].columns - side))
      tile = i;
  const int64_t blocks = over(p.N, kCompiled[tile].columns) * p.groups;
  while (2 * split <= most_split(handle) && split * blocks < handle.multiprocessors &&
         2 * split * kCompiled[tile].depth <= p.K)
    split *= 2;
}

}  // namespace
#endif
