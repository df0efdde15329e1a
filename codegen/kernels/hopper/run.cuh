// The host's part of the kernel: tensor maps, the choice of a tile, the launch.
#include <cuda.h>
#include <dlfcn.h>

#include "products.cuh"

#ifdef __CUDACC_RTC__  // where nothing launches them, templates have to be asked for
namespace {
template __global__ void products<kDirectTile, true>(const __grid_constant__ Maps, const __grid_constant__ Problem);
#ifdef SUBCUBIC_BULK
template __global__ void products<192, false>(const __grid_constant__ Maps, const __grid_constant__ Problem);
template __global__ void products<256, false>(const __grid_constant__ Maps, const __grid_constant__ Problem);
#endif
}  // namespace
#else
namespace {

// Whether bulk copies can take blocks from where they lie. Along the depth the blocks tile the matrix exactly, since what
// comes after a block has to count as zero; columns are whole chunks. Rows and columns of C that are none of the block's own
// may come along: nobody stores them. They count in the power of two of a pending tile of 16 bits, and for a guard.
template <class Map, bool BY_COLUMNS>
bool in_place(const Side& from) {
  if (BY_COLUMNS) return from.rows == Map::rows * from.block_rows && from.columns % 64 == 0;
  return from.columns == Map::columns * from.block_columns;
}

[[maybe_unused]] constexpr int kTileN = 64;  // of the self-test's sizes
constexpr double kNarrowCost = 1.03;  // of 192 columns, for each product
constexpr int kMaxCtas = 2 * kMaxClusters;

constexpr size_t kSlotBytes = Tile<256>::slot_bytes;  // the largest that is shared
constexpr int kMostShares = 8;  // of one tile
// Of one launch: two for each cluster, but no more than take 256 MB.
constexpr int kMuch = (1 << 28) / (2 * static_cast<int>(kSlotBytes) * kBlocksM * kBlocksN);
constexpr int kAllShares = kMuch < kMaxCtas ? kMuch : kMaxCtas;

int64_t tiles_of(int64_t m, int64_t n, int columns) { return up(m, 2 * kTileM) / (2 * kTileM) * (up(n, columns) / columns); }

// Whether tiles may be shared at all, see Deal.
bool may_share(int64_t k) {
  return sizeof(Output) == 2 && kBoundary == 0 && kSharing && k > Tile<256>::depth * (2 * Tile<256>::least - 1);
}

// A slot for each block of the grid, and where slots are carried to the second phase one for each tile.
template <int COLUMNS>
size_t slots_of(int64_t m, int64_t n, int64_t k) {
  const int64_t tiles = 2 * tiles_of(m, n, COLUMNS), blocks = may_share(k) ? kMostShares * tiles : tiles;
  const int64_t slots = (kSlots - kCarried) * (blocks < kMaxCtas ? blocks : kMaxCtas) + kCarried * (tiles + kMaxCtas);
  return static_cast<size_t>(slots) * Tile<COLUMNS>::slot_bytes;
}

// Of any tile.
size_t slot_bytes(int64_t m, int64_t n, int64_t k) {
  const size_t few = slots_of<kDirectTile>(m, n, k), some = slots_of<192>(m, n, k), many = slots_of<256>(m, n, k);
  return up(few > some ? few > many ? few : many : some > many ? some : many, 256);
}

// After the slots the shares of tiles that several clusters work on.
size_t scratch_bytes(int64_t m, int64_t n, int64_t k) {
  const int64_t most = kMostShares * tiles_of(m, n, 192), shares = most < kAllShares ? most : kAllShares;
  return slot_bytes(m, n, k) + (may_share(k) ? kSlotBytes * 2 * (kBlocksM * kBlocksN) * shares : 0);
}

using EncodeTiled = decltype(&cuTensorMapEncodeTiled);

struct Machine {
  int clusters;  // that run at the same time
  EncodeTiled encode;
};

template <class T>
constexpr CUtensorMapDataType kMapType =
    kIsHalf<T> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

// A map of a matrix of blocks whose elements have 2 bytes; strides are in elements, the first one is 1.
template <class T, int RANK>
Status encode(const Machine& machine, TensorMap& map, const T* base, const int64_t (&sizes)[RANK],
              const int64_t (&strides)[RANK - 1], const int (&box)[RANK]) {
  cuuint64_t dims[RANK], steps[RANK];
  cuuint32_t boxes[RANK], ones[RANK];
  for (int i = 0; i < RANK; ++i) {
    dims[i] = sizes[i];
    boxes[i] = box[i];
    ones[i] = 1;
    if (i) steps[i - 1] = strides[i - 1] * 2;
  }
  const CUresult code = machine.encode(
      reinterpret_cast<CUtensorMap*>(&map), kMapType<T>, RANK, const_cast<T*>(base), dims, steps, boxes, ones,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return code == CUDA_SUCCESS ? kDone : report(kFailed, "cuTensorMapEncodeTiled failed with code %d", int(code));
}

// Blocks of a factor, `down` elements apart along the depth. With the depth in the rows of memory (BY_COLUMNS): chunks of
// 64 columns, of all blocks beside each other, for each block along the depth. Else rows of 64 elements along the depth,
// of all blocks below each other.
template <bool BY_COLUMNS, class T>
Status encode_factor(const Machine& machine, TensorMap& map, int chunks, int box_rows, const T* base, int64_t ld,
                     int64_t along, int64_t depth, int64_t blocks, int64_t down) {
  // Coordinates have 32 bits, and a tile may reach beyond the last row.
  if (along > INT32_MAX - 2 * kTileM)
    return report(kMisuse, "blocks or planes one below the other have %lld rows, more than a bulk copy can count",
                  (long long)along);
  if (BY_COLUMNS)
    return encode<T, 4>(machine, map, base, {64, depth, along / 64, blocks}, {ld, 64, down}, {64, box_rows, chunks, 1});
  return encode<T, 3>(machine, map, base, {depth, along, blocks}, {ld, down}, {64, box_rows, 1});
}

// `plain`, `planes`: how many blocks are read as they are, and how many planes.
template <class Map, bool BY_COLUMNS>
Status encode_side(const Machine& machine, const Side& s, int chunks, int box_rows, int plain, int planes, TensorMap& map,
                   TensorMap& map_of_planes) {
  const int64_t depth = BY_COLUMNS ? s.block_rows : s.block_columns, stride = s.block_rows * s.block_columns;
  const auto apart = [&](TensorMap& into, const auto* base, int count) {
    const int64_t along = BY_COLUMNS ? s.block_columns : count * s.block_rows;
    return encode_factor<BY_COLUMNS>(machine, into, chunks, box_rows, base, s.block_columns, along, depth,
                                     BY_COLUMNS ? count : 1, stride);
  };
  Status status = kDone;
  if (plain && s.copies)
    status = apart(map, s.copies, plain);
  else if (plain)
    status = encode_factor<BY_COLUMNS>(machine, map, chunks, box_rows, s.matrix, s.ld, BY_COLUMNS ? s.columns : s.rows,
                                       depth, BY_COLUMNS ? Map::rows : Map::columns,
                                       BY_COLUMNS ? s.block_rows * s.ld : s.block_columns);
  return planes && !status ? apart(map_of_planes, s.planes, planes) : status;
}

template <int TILE_N>
Status encode_all(const Machine& machine, const Work& w, Maps& maps) {
  constexpr int depth = Tile<TILE_N>::depth, box_a = kTransposedA ? depth : kTileM, box_b = kTransposedB ? TILE_N / 2 : depth / 2;
  Status status = encode_side<MapA, kTransposedA>(machine, w.a, kTileM / 64, box_a, kPlainA, kPlanesA, maps.a, maps.planes_a);
  if (!status)
    status = encode_side<MapB, !kTransposedB>(machine, w.b, TILE_N / 64, box_b, kPlainB, kPlanesB, maps.b, maps.planes_b);
  return status;
}

// Bulk stores write whole 16 bytes.
bool bulk_stores(const Work& w) {
  if (sizeof(Output) != 2 || w.beta != 0 || w.N % 8) return false;
#ifdef SUBCUBIC_EPILOGUE
  if (w.extras.alignment < 2 * static_cast<int>(sizeof(Output))) return false;  // operands are read in pairs
#endif  // SUBCUBIC_EPILOGUE
  return reinterpret_cast<uintptr_t>(w.C) % 16 == 0 && w.ldc % 8 == 0;
}

template <class Map>
u32 units_of(const PlaneJob& job) {
  return job.matrix && job.planes ? static_cast<u32>((packs_of<Map>(job) + kUnitPacks - 1) / kUnitPacks) : 0;
}

// Clusters that begin with products: those that have a tile more than the others. Too few of these could not make the
// planes in time, so then all begin with planes.
int workers(int64_t tiles, int clusters) {
  const int more = static_cast<int>(tiles % clusters);
  return more && (clusters - more) * 10 >= clusters ? more : 0;
}

// How the tiles are dealt out: so many whole ones to each cluster, and the rest whole as well or shared. Then each of the
// first so many of them is cut into equal shares, one for a cluster, and after that each of the others. Clusters that have
// the same part of the depth read the same rows and columns at the same time, which shares of any length would not.
struct Deal {
  int rounds, tiles[2], shares[2];
  double time;  // in tiles, one after the other
};

// A share costs about three steps of each product for publishing again and is read once for each block of C, and fewer
// clusters that read the same rows and columns cost a tenth of a tile.
template <int TILE_N>
Deal deal(int64_t tiles, int clusters, int k) {
  using T = Tile<TILE_N>;
  const int rounds = static_cast<int>(tiles / clusters), rest = static_cast<int>(tiles % clusters), steps = T::steps(k);
  Deal best = {kNeverShared, {0, 0}, {0, 0}, double(rounds + (rest > 0))};
  if (kBoundary > 0 || !kSharing) return best;
  const auto most = [&](int among) {  // shares of each tile
    const int fit = clusters / among, long_enough = steps / T::least, all = fit < long_enough ? fit : long_enough;
    return all < kMostShares ? all : kMostShares;
  };
  const double reading = 2.5 * kBlocksM * kBlocksN / kTurnCount;
  const auto time = [&](int shares) { return (double(steps) / shares + 3 + reading * shares) / steps + 0.1; };
  for (int first = 1; first <= rest; ++first)
    for (int a = 2; a <= most(first); ++a)
      for (int b = first < rest ? 2 : 1; b <= (first < rest ? most(rest - first) : 1); ++b) {
        if (first * a + (rest - first) * b > kAllShares) continue;
        const double total = rounds + time(a) + (first < rest ? time(b) : 0);
        if (total < best.time - 0.05) best = {rounds, {first, rest - first}, {a, b}, total};
      }
  return best;
}

int most_shares(const Deal& dealt) {
  const int first = dealt.tiles[0] * dealt.shares[0], second = dealt.tiles[1] * dealt.shares[1];
  return first > second ? first : second;
}

template <int TILE_N>
void share_out(const Deal& dealt, int clusters, Problem& p) {
  const int steps = Tile<TILE_N>::steps(p.K);
  int tile = 0, number = 0;
  for (int wave = 0; wave < 2; ++wave) {
    const int count = dealt.shares[wave];
    for (int i = 0; i < dealt.tiles[wave]; ++i, ++tile, number += count) {
      p.sharers[tile] = {static_cast<short>(number), static_cast<short>(count)};
      for (int part = 0; part < count; ++part) {
        const int from = steps * part / count, to = steps * (part + 1) / count;
        Job(&jobs)[2] = p.shares[part * dealt.tiles[wave] + i];
        jobs[jobs[0].steps > 0] = {dealt.rounds * clusters + tile, from, to - from, number + part};
      }
    }
  }
}

template <int TILE_N, bool DIRECT>
Status launch(const Machine& machine, cudaStream_t stream, const Work& w) {
  Maps maps = {};
  Status status = encode_all<TILE_N>(machine, w, maps);
  if constexpr (!DIRECT) {
    if (!status) status = encode<Output, 2>(machine, maps.c, w.C, {w.N, w.M}, {w.ldc}, {64, 64});
  }
  if (status) return status;
  const int64_t tiles = tiles_of(w.m, w.n, TILE_N);
  const Deal dealt = DIRECT ? Deal{kNeverShared, {}, {}, 0} : deal<TILE_N>(tiles, machine.clusters, static_cast<int>(w.k));
  const int64_t busy = dealt.tiles[0] ? most_shares(dealt) : tiles;  // clusters, if there is less than a tile for each
  const int clusters = static_cast<int>(tiles >= machine.clusters || busy > machine.clusters ? machine.clusters : busy);
  Problem problem = {static_cast<int>(w.m), static_cast<int>(w.n), static_cast<int>(w.k), w.a.copies != nullptr,
                     w.b.copies != nullptr, w.M, w.N, w.C, w.ldc, w.alpha / kDivisor, w.beta, w.scratch, w.counters,
                     w.make_a, w.make_b};
  if constexpr (!DIRECT) {
    problem.units_a = units_of<MapA>(w.make_a);
    problem.units = problem.units_a + units_of<MapB>(w.make_b);
  }
  problem.workers = problem.units ? workers(tiles, clusters) : 0;
  problem.rounds = dealt.rounds;
  problem.row_exponents = w.row_exponents;
  problem.column_exponents = w.column_exponents;
#ifdef SUBCUBIC_EPILOGUE
  problem.extras = w.extras;
#endif  // SUBCUBIC_EPILOGUE
  problem.sums = reinterpret_cast<char*>(w.scratch) + slot_bytes(w.m, w.n, w.k);
  if (dealt.tiles[0]) share_out<TILE_N>(dealt, clusters, problem);
  products<TILE_N, DIRECT><<<2 * clusters, kThreads, Tile<TILE_N>::shared_bytes, stream>>>(maps, problem);
  return checked(cudaGetLastError(), "the fused kernel");
}

template <int TILE_N, bool DIRECT>
Status load_kernel() {
  return checked(cudaFuncSetAttribute(products<TILE_N, DIRECT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      Tile<TILE_N>::shared_bytes),
                 "loading the kernel");
}

#ifdef SUBCUBIC_FEW
Status load_few();
// The quickest launch of what is for few tiles, if that is quicker than any tile of the other kernel; else null. `others`: the
// time of that, as time_of counts.
Status (*few_tiles(const Machine& machine, const Work& w, double others))(const Machine&, cudaStream_t, const Work&);

#endif  // SUBCUBIC_FEW
Status open_machine(Machine& machine) {
  int device = 0, major = 0, minor = 0, multiprocessors = 0;
  cudaError_t code = cudaGetDevice(&device);
  if (!code) code = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (!code) code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (!code) code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (Status status = checked(code, "asking for the device")) return status;
  if (major != 9 || minor != 0)
    return report(kMissing, "the kernel is for compute capability 9.0, the device has %d.%d", major, minor);
  machine.clusters = (multiprocessors < kMaxCtas ? multiprocessors : kMaxCtas) / 2;
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  machine.encode = driver ? reinterpret_cast<EncodeTiled>(dlsym(driver, "cuTensorMapEncodeTiled")) : nullptr;
  if (!machine.encode) return report(kMissing, "the driver has no cuTensorMapEncodeTiled");
  Status status = load_kernel<kDirectTile, true>();
  if constexpr (sizeof(Output) == 2) {
    if (!status) status = load_kernel<192, false>();
    if (!status) status = load_kernel<256, false>();
  }
#ifdef SUBCUBIC_FEW
  if (!status) status = load_few();
#endif  // SUBCUBIC_FEW
  return status;
}

// How long the tiles of a width take. Narrower tiles move more bytes for each product.
template <int COLUMNS>
double time_of(const Machine& machine, const Work& w, double cost) {
  const int k = static_cast<int>(w.k);
  return deal<COLUMNS>(tiles_of(w.m, w.n, COLUMNS), machine.clusters, k).time * COLUMNS * Tile<COLUMNS>::steps(k) * cost;
}

Status run(const Machine& machine, cudaStream_t stream, const Work& w) {
  if constexpr (sizeof(Output) == 2) {
    if (bulk_stores(w)) {
      const double some = time_of<192>(machine, w, kNarrowCost), many = time_of<256>(machine, w, 1);
#ifdef SUBCUBIC_FEW
      if (const auto launched = few_tiles(machine, w, some < many ? some : many)) return launched(machine, stream, w);
#endif  // SUBCUBIC_FEW
      if (some < many) return launch<192, false>(machine, stream, w);
      return launch<256, false>(machine, stream, w);
    }
  }
  if (kBoundary > 0) {
    if (Status status = make_planes<MapA, MapB>(stream, w.make_a, w.make_b)) return status;
  }
  return launch<kDirectTile, true>(machine, stream, w);
}

}  // namespace
#endif
