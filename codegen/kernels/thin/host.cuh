// The C entry points of thin products: arguments, and how the kernel is queued.
#include <new>

#include "choose.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

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
  if (Status wrong = encode(handle.encoder, p, with.box, map)) {
    if (p.tile >= 0) return wrong;
    Handle without = handle;  // nobody has asked for bulk copies
    without.encoder = nullptr;
#ifdef SUBCUBIC_EPILOGUE
    return launch(without, stream, p, given);
#else  // SUBCUBIC_EPILOGUE
    return launch(without, stream, p);
#endif  // SUBCUBIC_EPILOGUE
  }
  // Blocks that stay: each does one tile of columns after the other.
  const int64_t places = handle.places(split), turns = tiles * p.groups;
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
