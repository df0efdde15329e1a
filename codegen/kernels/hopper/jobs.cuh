// The shape of a tile, where the tiles lie, and which of them a cluster works on.
#include "ptx.cuh"

namespace {

constexpr int kTileM = 128, kGroups = 2;
constexpr int kRasterRows = 8;  // clusters of neighbouring rows that walk through the columns together
constexpr int kBoxBytes = 64 * 64 * 2;   // what one bulk store writes: 64 rows of 64 16-bit numbers
constexpr int kRowOfThreads = 128 * 16;  // bytes of one float4 of each thread of a warpgroup
constexpr bool kPartialSums = kSlots > 0;

constexpr int kDirectTile = 128;  // columns where C is not stored in bulk

// A box is 64 of a tile's columns: 32 accumulators of a thread. The registers beside 256 columns hold two more boxes,
// those beside fewer columns a whole tile; of the others one is staged in the buffers, one in a stage that the ring lends
// for the time between two products. Pending tiles of 16 bits fit into the registers.
template <int TILE_N>
struct Tile {
  static constexpr int boxes = TILE_N / 64, sums = TILE_N / 2;
  static constexpr bool narrow = kPendingBits == 16 && TILE_N != kDirectTile;  // pending tiles have 16 bits
  static constexpr bool staged = TILE_N == 256 && !narrow;
  static constexpr int window = staged || narrow ? sums / 2 : sums, pieces = window / 16;
  static constexpr int depth = 64, stages = TILE_N == 256 ? 4 : TILE_N == 192 ? 5 : 6;
  static constexpr int buffers = TILE_N == 192 ? 1 : 2;
  // A partial sum comes in parts, each as large as the buffers, every other step.
  static constexpr int part = buffers * kBoxBytes / kRowOfThreads, parts = window / 4 / part + staged;
  // Steps in which everything leaves and comes.
  static constexpr int least = (kPartialSums ? 4 + pieces + 2 * parts : 2 + pieces) + buffers - 1;
  static_assert(!staged || stages == 4, "the stage that is lent is used in the last step but three, and comes next");
  static constexpr int bytes_a = kTileM * depth * 2, bytes_b = TILE_N * depth * 2, stage_bytes = bytes_a + bytes_b;
  static constexpr int barriers = stages * stage_bytes + kGroups * buffers * kBoxBytes;  // after stages and buffers
  static constexpr int notes = barriers + 16 * stages + 16 * kGroups + 16;  // of jobs, two for each group
#ifdef SUBCUBIC_EPILOGUE
  // A tile's columns of each vector of an epilogue: one of them is wide, in FP32, for which more leave no room.
  static constexpr int vectors = notes + 2 * kGroups * 16;
  static constexpr bool wide = Steps::vectors == 1;
  static constexpr int shared_bytes = 1024 + vectors + (sizeof(Extra) == 2 ? Steps::vectors * TILE_N * (wide ? 4 : 2) : 0);
  static_assert(shared_bytes <= 227 * 1024, "there is no room for so many vectors");
  static_assert(TILE_N == kDirectTile || least - 2 >= stages, "vectors are put two steps before the end of a product, when the "
                                                              "other group has begun it");
#else  // SUBCUBIC_EPILOGUE
  static constexpr int shared_bytes = 1024 + notes + 2 * kGroups * 16;      // 1024 to align the stages
#endif  // SUBCUBIC_EPILOGUE
  // What a group has of a pending tile: its sums, and if they are narrow a bound for each warp, in a line of its own.
  static constexpr int sum_bytes = kTileM / kGroups * TILE_N * (narrow ? 2 : 4), group_bytes = sum_bytes + (narrow ? 128 : 0);
  static constexpr int slot_bytes = kGroups * group_bytes;

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

// Whether a job of a cluster is a share of a tile: several clusters work on it, each over a part of the depth. Tiles that
// would leave most clusters idle are shared, at the end.
template <bool DIRECT>
__device__ __forceinline__ bool shares(const Problem& p, int job) {
  return !DIRECT && kBoundary == 0 && job >= p.rounds;
}

// What a cluster does one after the other: whole tiles, then at most two shares.
template <int TILE_N, bool DIRECT>
__device__ __forceinline__ Job job_of(const Problem& p, int number) {
  const int cluster = blockIdx.x / 2, clusters = gridDim.x / 2, tile = cluster + number * clusters;
  if (!shares<DIRECT>(p, number)) return {tile, 0, tile < Raster<TILE_N>(p).count() ? Tile<TILE_N>::steps(p.K) : 0, 0};
  if (number - p.rounds > 1) return {0, 0, 0, 0};
  return p.shares[cluster][number - p.rounds];
}

}  // namespace
