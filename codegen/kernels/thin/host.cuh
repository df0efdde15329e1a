// The C entry points of thin products: arguments, the rule for tiles, how the kernel is loaded and queued.
#include <cmath>
#include <new>

#include "encode.cuh"
#include "queue.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

constexpr int kMostSplit = 16, kPortableSplit = 8;
constexpr int64_t kLargest = INT64_C(1) << 30, kMostGroups = 65535, kMostTiles = 65535;

// One tile, compiled for up to 8 rows [0] and up to 16 [1]: a register tile, or a streamed one, which has a box.
struct Compiled {
  void (*registers[2])(Task);
  void (*streamed[2])(TensorMap, Task);
  int threads, columns, depth, shared[2];  // depth: of which each warp of a block takes a piece, or fills its ring
  Box box;

  const void* kernel(int more) const {
    return streamed[more] ? reinterpret_cast<const void*>(streamed[more]) : reinterpret_cast<const void*>(registers[more]);
  }
};

template <class T, bool WHOLE = true>
constexpr Compiled compiled() {
  return {{thin<T, 8, WHOLE>, thin<T, 16, WHOLE>}, {}, T::threads, Shape<T, 8>::columns,
          T::depth_warps * Shape<T, 8>::Part::depth, {Shape<T, 8>::shared_bytes, Shape<T, 16>::shared_bytes}, {}};
}

template <class T>
constexpr Compiled compiled_streamed() {
  return {{}, {streamed<T, 8>, streamed<T, 16>}, T::threads, T::columns, T::warps * T::depth * T::slots,
          {Ring<T, 8>::shared_bytes, Ring<T, 16>::shared_bytes}, Ring<T, 8>::box};
}

// The last one is for operands that do not lie on 16-byte boundaries.
const Compiled kCompiled[] = {SUBCUBIC_TILES, compiled<Tile<1, 8, kTransposedB ? 1 : 4, 1>, false>()};
constexpr int kTileCount = sizeof(kCompiled) / sizeof(kCompiled[0]) - 1;

struct Handle {
  int multiprocessors, shared;  // bytes of shared memory that a block may have
  bool clusters, wide_clusters, wide_streams, early;
  Encoder encoder;  // null where there are no streamed tiles
};

// Blocks of a tile that the device can run together; a part of a device may have fewer than the whole.
int widest_cluster(const Compiled& tile, int more) {
  const void* kernel = tile.kernel(more);
  int widest = kPortableSplit;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(kMostSplit);
  config.blockDim = dim3(tile.threads);
  config.dynamicSmemBytes = tile.shared[more];
  if (cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1) ||
      cudaOccupancyMaxPotentialClusterSize(&widest, kernel, &config))
    widest = kPortableSplit;
  cudaGetLastError();  // to be asked is no error
  return widest;
}

Status open_device(Handle& handle) {
  int device = 0, major = 0, driver = 0;
  cudaError_t code = cudaGetDevice(&device);
  if (!code) code = cudaDriverGetVersion(&driver);
  if (!code) code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (!code) code = cudaDeviceGetAttribute(&handle.multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (!code) code = cudaDeviceGetAttribute(&handle.shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  if (Status status = checked(code, "asking for the device")) return status;
  if (major < 8) return report(kMissing, "the device has compute capability %d.x, 8.0 or later is needed", major);
  handle.clusters = handle.wide_clusters = handle.wide_streams = major >= 9;
  for (const Compiled& tile : kCompiled)
    for (int more = 0; more < 2; ++more) {
      const void* kernel = tile.kernel(more);
      cudaFuncAttributes attributes;
      code = cudaFuncGetAttributes(&attributes, kernel);
      if (code)
        return report(kMissing, "the file was built for another architecture than this device's: %s",
                      cudaGetErrorString(code));
      // What the driver made of PTX for an earlier architecture has no clusters, and would not wait for what is before it.
      if (attributes.ptxVersion < 90) handle.clusters = false;
      if (tile.streamed[more] && tile.shared[more] > handle.shared) continue;  // this device has not got it
      code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, tile.shared[more]);
      if (Status status = checked(code, "loading a kernel")) return status;
      // More than 8 blocks in a cluster is more than every device promises; without it there are 8. Blocks that fill a
      // multiprocessor may find fewer places together than others.
      if (handle.clusters && widest_cluster(tile, more) < kMostSplit)
        (tile.streamed[more] ? handle.wide_streams : handle.wide_clusters) = false;
    }
  handle.encoder = handle.clusters ? find_encoder() : nullptr;
  // Earlier drivers refuse in a capture what a launch may do while the kernel before it ends.
  handle.early = handle.clusters && driver >= 12030;
  return kDone;
}

int most_split(const Handle& handle) {
  return !handle.clusters ? 1 : handle.wide_clusters ? kMostSplit : kPortableSplit;
}

int most_split(const Handle& handle, const Compiled& tile) {
  return tile.streamed[0] && !handle.wide_streams ? (handle.clusters ? kPortableSplit : 1) : most_split(handle);
}

// Whether the device has a tile, and a map can say how B lies: its distances are below 2^40 bytes.
bool has(const Handle& handle, const SCHEME_product& p, const Compiled& tile) {
  if (!tile.streamed[0]) return true;
  const int64_t most = (INT64_C(1) << 40) / static_cast<int64_t>(sizeof(Input)), lines = kTransposedB ? p.N : p.K;
  return handle.encoder && tile.shared[p.M > 8] <= handle.shared && p.stride_b < most && lines < most / p.ldb;
}

int64_t over(int64_t value, int64_t by) { return (value + by - 1) / by; }

// As bytes that a multiprocessor could read meanwhile: what the blocks of a cluster take to come together, and for each of
// them to tell the others its sums; what it takes to bring a sum from the warps to C; what streamed tiles take longer to
// begin with. A streamed tile keeps memory so much busier that its bytes count less.
constexpr double kClusterBytes = 30000, kMemberBytes = 1000, kSumBytes = 64, kStreamBytes = 16000, kStreamed = 0.8;

// What the busiest multiprocessor reads: of B, and for each block of A, which the cache has, at half the price. A block of
// a streamed tile reads on while sums meet, so that this counts once, for the last of them.
double most_read(const Handle& handle, const SCHEME_product& p, const Compiled& tile, int split) {
  const int64_t blocks = over(p.N, tile.columns) * p.groups * split, turns = over(blocks, handle.multiprocessors);
  const double rows = p.M < 16 ? p.M : 16;
  const double of_block = (tile.columns + rows / 2) * sizeof(Input) * p.K / split;
  const double of_sums = (split > 1 ? kClusterBytes + split * kMemberBytes : 0) + kSumBytes * rows * tile.columns;
  return tile.streamed[0] ? kStreamBytes + kStreamed * turns * of_block + of_sums : turns * (of_block + of_sums);
}

// The rule: the tile and the blocks on the depth with which the busiest multiprocessor reads the least. No warp is without
// a piece, nor its ring of a streamed tile longer than what it reads of a column; of tiles that are alike the first is taken.
void choose(const Handle& handle, const SCHEME_product& p, int& tile, int& split) {
  const int given_tile = tile, given_split = split;
  double least = HUGE_VAL;
  for (int i = 0; i < kTileCount; ++i) {
    const Compiled& one = kCompiled[i];
    if (given_tile >= 0 ? i != given_tile : over(p.N, one.columns) > kMostTiles || !has(handle, p, one)) continue;
    const int least_split = given_tile < 0 && one.streamed[0] ? 1 : 2;  // from which on there has to be depth for all
    for (int by = 1; by <= most_split(handle, one); by *= 2) {
      if (given_split >= 1 ? by != given_split : by >= least_split && by * one.depth > p.K) continue;
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
    if (!kCompiled[i].streamed[0] && std::fabs(kCompiled[i].columns - side) < std::fabs(kCompiled[tile].columns - side)) tile = i;
  const int64_t blocks = over(p.N, kCompiled[tile].columns) * p.groups;
  while (2 * split <= most_split(handle) && split * blocks < handle.multiprocessors &&
         2 * split * kCompiled[tile].depth <= p.K)
    split *= 2;
}

bool known(int tile, int split) {
  return tile >= -1 && tile < kTileCount && split >= 0 && split <= kMostSplit && (split & (split - 1)) == 0;
}

// Whether rows and groups all start on 16-byte boundaries.
template <class T>
bool aligned(const T* pointer, int64_t ld, int64_t stride) {
  return row_aligned(pointer, ld) && stride * sizeof(T) % 16 == 0;
}

Status check(const SCHEME_product& p) {
  if (p.groups < 1 || p.groups > kMostGroups)
    return report(kMisuse, "groups is %lld; it must be 1..%lld", (long long)p.groups, (long long)kMostGroups);
  for (int64_t size : {p.M, p.N, p.K})
    if (size < 1 || size > kLargest)
      return report(kMisuse, "a size is %lld; it must be 1..%lld", (long long)size, (long long)kLargest);
  for (int64_t distance : {p.lda, p.ldb, p.ldc})
    if (distance > kLargest)
      return report(kMisuse, "a leading dimension is %lld; it must be at most %lld", (long long)distance, (long long)kLargest);
  if (!p.A || !p.B || !p.C) return report(kMisuse, "A, B and C must not be null");
  const int64_t least_b = kTransposedB ? p.K : p.N;
  if (p.lda < p.K || p.ldb < least_b || p.ldc < p.N)
    return report(kMisuse, "leading dimensions are %lld, %lld and %lld; they must be at least %lld, %lld and %lld",
                  (long long)p.lda, (long long)p.ldb, (long long)p.ldc, (long long)p.K, (long long)least_b,
                  (long long)p.N);
  if (p.stride_a < 0 || p.stride_b < 0 || p.stride_c < 0)
    return report(kMisuse, "distances of groups must not be negative");
  if (p.stride_vectors < 0) return report(kMisuse, "the distance of the vectors of groups must not be negative");
  if (p.groups > 1 && !p.offsets && p.stride_c < (p.M - 1) * p.ldc + p.N)
    return report(kMisuse, "groups of C are %lld apart and overlap; %lld is the least", (long long)p.stride_c,
                  (long long)((p.M - 1) * p.ldc + p.N));
  if (p.early < 0 || p.early > 2) return report(kMisuse, "early is %d; it must be 0, 1 or 2", p.early);
  if (!known(p.tile, p.split))
    return report(kMisuse, "tile %d and split %d are not there; tile is -1..%d, split 0, 1, 2, 4, 8 or 16", p.tile,
                  p.split, kTileCount - 1);
  return kDone;
}

#ifdef SUBCUBIC_EPILOGUE
Status launch(const Handle& handle, cudaStream_t stream, const SCHEME_product& p, const SCHEME_extras* given) {
#else  // SUBCUBIC_EPILOGUE
Status launch(const Handle& handle, cudaStream_t stream, const SCHEME_product& p) {
#endif  // SUBCUBIC_EPILOGUE
  int tile = p.tile, split = p.split;
  choose(handle, p, tile, split);
  const Input *A = static_cast<const Input*>(p.A), *B = static_cast<const Input*>(p.B);
  // Loads of whole 16 bytes: rows start there, and none ends inside one.
  const bool whole = aligned(A, p.lda, p.offsets ? 0 : p.stride_a) && aligned(B, p.ldb, p.stride_b) &&
                     p.K % 8 == 0 && (kTransposedB || p.N % 8 == 0);
  const Compiled& with = kCompiled[whole ? tile : kTileCount];
  const int more = p.M > 8, most = most_split(handle, with);
  if (!has(handle, p, with))
    return report(kMisuse, "tile %d is for bulk copies of B, which this device has not, or not with such distances", tile);
  if (split > most) return report(kMisuse, "split is %d; this device has clusters of at most %d blocks", split, most);
  const int64_t tiles = over(p.N, with.columns);
  if (tiles > kMostTiles) return report(kMisuse, "C has %lld columns, too many for tile %d", (long long)p.N, tile);
  Task task = {A, B, static_cast<Output*>(p.C), p.lda, p.ldb, p.ldc, p.stride_a, p.stride_b, p.stride_c,
               p.offsets, static_cast<int>(p.groups), static_cast<int>(p.M), static_cast<int>(p.N), static_cast<int>(p.K),
               static_cast<float>(p.alpha), static_cast<float>(p.beta), p.early};
#ifdef SUBCUBIC_EPILOGUE
  if (Status wrong = take_extras(given, p.N, task.extras)) return wrong;
  task.stride_vectors = p.stride_vectors;
#endif  // SUBCUBIC_EPILOGUE
  const bool early = p.early && handle.early;
  const dim3 grid(split, static_cast<unsigned>(tiles), static_cast<unsigned>(p.groups));
  if (!with.streamed[more])
    return checked(queue(with.registers[more], grid, with.threads, with.shared[more], stream, early, task), "the thin kernel");
  TensorMap map;
  if (Status wrong = encode(handle.encoder, p, with.box, map)) return wrong;
  // Blocks that stay: each does one tile of columns after the other.
  const int64_t places = handle.multiprocessors < split ? 1 : handle.multiprocessors / split, turns = tiles * p.groups;
  const dim3 staying(split, static_cast<unsigned>(turns < places ? turns : places));
  return checked(queue(with.streamed[more], staying, with.threads, with.shared[more], stream, early, map, task),
                 "the thin kernel");
}

}  // namespace

extern "C" {

int SCHEME_open(void** handle) {
  if (!handle) return report(kMisuse, "handle must not be null");
  *handle = nullptr;
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess || devices == 0)
    return report(kMissing, "no usable CUDA device: %s", cudaGetErrorString(code));
  Handle found = {};
  if (Status status = open_device(found)) return status;
  *handle = new (std::nothrow) Handle(found);
  return *handle ? kDone : report(kFailed, "out of host memory");
}

int SCHEME_tiles(void) { return kTileCount; }

int SCHEME_columns(int tile) { return tile >= 0 && tile < kTileCount ? kCompiled[tile].columns : 0; }

int SCHEME_most_split(void* handle) { return handle ? most_split(*static_cast<Handle*>(handle)) : 0; }

int SCHEME_choose(void* handle, const SCHEME_product* product, int32_t* tile, int32_t* split) {
  if (!handle || !product) return report(kMisuse, "handle and product must not be null");
  if (Status status = check(*product)) return status;
  *tile = product->tile, *split = product->split;
  choose(*static_cast<Handle*>(handle), *product, *tile, *split);
  return kDone;
}

int SCHEME_square(void* handle, const SCHEME_product* product, int32_t* tile, int32_t* split) {
  if (!handle || !product) return report(kMisuse, "handle and product must not be null");
  if (Status status = check(*product)) return status;
  square(*static_cast<Handle*>(handle), *product, *tile, *split);
  return kDone;
}

#ifdef SUBCUBIC_EPILOGUE
int SCHEME_launch(void* handle, void* stream, const SCHEME_product* product, const SCHEME_extras* extras) {
#else  // SUBCUBIC_EPILOGUE
int SCHEME_launch(void* handle, void* stream, const SCHEME_product* product) {
#endif  // SUBCUBIC_EPILOGUE
  if (!handle || !product) return report(kMisuse, "handle and product must not be null");
  if (Status status = check(*product)) return status;
#ifdef SUBCUBIC_EPILOGUE
  return launch(*static_cast<Handle*>(handle), static_cast<cudaStream_t>(stream), *product, extras);
#else  // SUBCUBIC_EPILOGUE
  return launch(*static_cast<Handle*>(handle), static_cast<cudaStream_t>(stream), *product);
#endif  // SUBCUBIC_EPILOGUE
}

void SCHEME_close(void* handle) { delete static_cast<Handle*>(handle); }

const char* SCHEME_error(void) { return last_error; }
}
#endif
