// The tiles of a text, and what a device has of them.
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
  int clusters_at_once[5];  // of 1, 2, 4, 8 and 16 blocks that stay, each on a multiprocessor of its own

  int places(int split) const {
    int number = 0;
    while (1 << number < split) ++number;
    return clusters_at_once[number];
  }
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
  for (int i = 0; i < 5; ++i) {
    const int size = 1 << i;
    int& count = handle.clusters_at_once[i] = handle.multiprocessors < size ? 1 : handle.multiprocessors / size;
    // Parts of a device whose multiprocessors are no multiple of the cluster leave some alone. All streamed tiles are alike
    // in that, so the first one is asked for.
    for (const Compiled& tile : kCompiled)
      if (size > 1 && handle.encoder && tile.streamed[0] && tile.shared[0] <= handle.shared) {
        const int known = clusters_at_once(tile.kernel(0), tile.threads, tile.shared[0], size);
        if (known >= 1 && known < count) count = known;
        break;
      }
  }
  // Earlier drivers refuse in a capture what a launch may do while the kernel before it ends.
  handle.early = handle.clusters && driver >= 12030;
  return kDone;
}

}  // namespace
#endif
