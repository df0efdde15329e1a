// Planes: one pass that reads every needed block of A and B once and writes every plane once. A thread owns the same V
// elements of all blocks of its side, so the whole linear map runs in registers. Blocks stay packed there as they lie in
// memory and are widened where a sum needs them: sixteen of them take 64 registers in 16-byte packs of any type.
//
// The text around it defines Input, Plane and Accumulator and, for each side, a struct with
//   rows, columns           blocks of the matrix
//   planes, extras          how many there are; extras are written only on demand and in Input's type
//   width, scaled_width     elements of one access, without and with scaling
//   load(get, x)            x.raw[i] = get(row, column) for each block that the planes need
//   load_extras(get, x)     the same for the blocks that only the extras need
//   combine(x, put)         put(slot, sum) for each plane, slots ascending
//   combine_extras(x, put)  the same for the extras; put(slot, x.raw[i]) copies a block without any rounding
#include "ahead.cuh"
#include "host.cuh"

namespace {

constexpr int kPlaneThreads = 256;

// The work of one side. Slot s of planes or extras starts s * stride elements behind their pointer and has block_rows
// rows, plane_ld elements apart. The matrix reads as zero beyond its edges; what a row has between block_columns and
// plane_ld becomes zero. Planes and extras start on 16-byte boundaries, and so does each of their rows.
struct PlaneJob {
  const Input* matrix = nullptr;  // null: nothing to do on this side
  int64_t ld = 0, rows = 0, columns = 0;
  int64_t block_rows = 0, block_columns = 0;
  Plane* planes = nullptr;  // null: none are wanted
  Input* extras = nullptr;  // null: none are wanted
  int64_t plane_ld = 0, stride = 0;
  // With scaling, elements are first multiplied by 2 to the power of the exponent of their row or of their column, as
  // exponents.cuh finds them; exactly one of the two is given.
  const int* row_exponents = nullptr;
  const int* column_exponents = nullptr;
  bool aligned = false;  // set by make_planes: blocks can be read in whole packs
};

// 2 to a power for which that is a normal number.
template <class T>
__host__ __device__ __forceinline__ T power_of_two(int exponent) {
  constexpr bool wide = sizeof(T) == 8;
  union {
    uint32_t word[sizeof(T) / 4];
    T value;
  };
  word[0] = 0;
  word[sizeof(T) / 4 - 1] = static_cast<uint32_t>(exponent + (wide ? 1023 : 127)) << (wide ? 20 : 23);
  return value;
}

// An element of C, out of the powers of its row and its column. The two are added first: one of them alone could
// overflow what together stays in range. In halves, since their sum may be no normal number's exponent.
[[maybe_unused]] __host__ __device__ __forceinline__ Accumulator unscaled(Accumulator value, int row_exponent,
                                                                          int column_exponent) {
  const int exponent = -row_exponent - column_exponent, half = exponent >> 1;
  return value * power_of_two<Accumulator>(half) * power_of_two<Accumulator>(exponent - half);
}

// What is kept of a block: its elements as they lie in memory, or widened and scaled.
template <bool SCALED>
struct Kept {
  using type = Input;
  template <int V>
  static __device__ __forceinline__ Raw<V, Input> from(const Raw<V, Input>& raw, const PlaneJob&, int64_t, int64_t) {
    return raw;
  }
};

template <>
struct Kept<true> {
  using type = Accumulator;
  template <int V>
  static __device__ __forceinline__ Raw<V, Accumulator> from(const Raw<V, Input>& raw, const PlaneJob& job, int64_t row,
                                                             int64_t column) {
    Raw<V, Accumulator> result;
    const Pack<V> pack = widened(raw);
    const int of_row = job.row_exponents && row < job.rows ? job.row_exponents[row] : 0;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      const bool own = job.column_exponents && column + i < job.columns;
      result.element[i] = pack.v[i] * power_of_two<Accumulator>(own ? job.column_exponents[column + i] : of_row);
    }
    return result;
  }
};

template <int V, class T, int COUNT>
struct Blocks {
  Raw<V, T> raw[COUNT];
  __device__ __forceinline__ Pack<V> operator[](int i) const { return widened(raw[i]); }
};

// A block that is stored as it is kept, and one that was scaled.
template <int V, class T>
__device__ __forceinline__ void store_block(T* to, const Raw<V, T>& block) {
  store_raw<V>(to, block);
}

template <int V, class T, class Wide>
__device__ __forceinline__ void store_block(T* to, const Raw<V, Wide>& block) {
  store<V>(to, widened(block));
}

// Writes sums, or blocks alone, to ascending slots, with one pointer that moves on instead of one address for each slot.
template <int V, class T>
struct Slots {
  T* to;
  int64_t stride;
  int slot = 0;
  __device__ __forceinline__ void operator()(int next, const Pack<V>& sum) {
    to += (next - slot) * stride;
    slot = next;
    store<V>(to, sum);
  }
  template <class Kept>
  __device__ __forceinline__ void operator()(int next, const Raw<V, Kept>& block) {
    to += (next - slot) * stride;
    slot = next;
    store_block<V>(to, block);
  }
};

// The V elements of every plane that begin at (row, column) of a plane. In every block they exist all or not at all, so
// that each block takes one access, which waits for no other.
template <class Map, int V, bool SCALED>
__device__ __forceinline__ void make_pack(const PlaneJob& job, int64_t row, int64_t column) {
  Blocks<V, typename Kept<SCALED>::type, Map::rows * Map::columns> x;
  const auto get = [&](int i, int j) {
    const int64_t at_row = i * job.block_rows + row, at_column = j * job.block_columns + column;
    const bool exists = at_row < job.rows && at_column < job.columns && column < job.block_columns;
    Raw<V, Input> raw = {};
    if (exists) raw = load_raw<V>(job.matrix + at_row * job.ld + at_column);
    return Kept<SCALED>::template from<V>(raw, job, at_row, at_column);
  };
  Map::load(get, x);
  if (job.extras) Map::load_extras(get, x);
  const int64_t offset = row * job.plane_ld + column;
  if (job.planes) Map::combine(x, Slots<V, Plane>{job.planes + offset, job.stride});
  if (job.extras) Map::combine_extras(x, Slots<V, Input>{job.extras + offset, job.stride});
}

// Whether the blocks of one thread wait in shared memory: more of them than registers hold for many threads, and no more
// than fit without asking the device for room.
constexpr int kAheadRoom = 48 << 10, kFewBlocks = 4;
template <class Map>
constexpr int kAheadBytes = Map::rows * Map::columns * Map::width * static_cast<int>(sizeof(Input)) * kPlaneThreads;
template <class Map, bool SCALED>
constexpr bool kFetched = !SCALED && sizeof(Input) == 2 && Map::width > 1 && Map::rows * Map::columns > kFewBlocks &&
                          kAheadBytes<Map> <= kAheadRoom;
template <class Map, bool SCALED>
constexpr int kRoom = kFetched<Map, SCALED> ? kAheadBytes<Map> : 16;

// The same as make_pack, also where the matrix ends inside a pack or is not aligned: then elements come one by one.
template <class Map, int V>
__device__ __forceinline__ void make_fetched_pack(const PlaneJob& job, int64_t row, int64_t column, bool whole,
                                                  unsigned char* shared) {
  constexpr int bytes = V * static_cast<int>(sizeof(Input));
  const Ahead<V, Input, kPlaneThreads * bytes> x{{shared + threadIdx.x * bytes}};
  Blocks<V, Input, Map::rows * Map::columns> unused;
  const auto get = [&](int i, int j) {
    const int64_t at_row = i * job.block_rows + row, at_column = j * job.block_columns + column;
    unsigned char* to = x.raw.place(i * Map::columns + j);
    const auto exists = [&](int k) {
      return at_row < job.rows && at_column + k < job.columns && column + k < job.block_columns;
    };
    const auto from = [&](int k) { return job.matrix + (exists(k) ? at_row * job.ld + at_column + k : 0); };
    if (whole) {
      fetch<V>(to, from(0), exists(0));
    } else {
#pragma unroll 1
      for (int k = 0; k < V; ++k) fetch<1>(to + k * sizeof(Input), from(k), exists(k));
    }
    return Raw<V, Input>{};
  };
  Map::load(get, unused);
  if (job.extras) Map::load_extras(get, unused);
  fetched();
  const int64_t offset = row * job.plane_ld + column;
  if (job.planes) Map::combine(x, Slots<V, Plane>{job.planes + offset, job.stride});
  if (job.extras) Map::combine_extras(x, Slots<V, Input>{job.extras + offset, job.stride});
}

template <class Map, bool SCALED>
__host__ __device__ constexpr int width_of() {
  return SCALED ? Map::scaled_width : Map::width;
}

// Elements of every plane that a thread makes.
template <class Map, bool SCALED>
__host__ __device__ int width_for(const PlaneJob& job) {
  return job.aligned || kFetched<Map, SCALED> ? width_of<Map, SCALED>() : 1;
}

template <class Map, bool SCALED>
__device__ __forceinline__ void make_side(const PlaneJob& job, uint64_t block, unsigned char* shared) {
  constexpr int V = width_of<Map, SCALED>();
  const int width = width_for<Map, SCALED>(job);
  const uint64_t packs = job.plane_ld / width, total = job.block_rows * packs;
  const uint64_t item = block * kPlaneThreads + threadIdx.x;
  if (item >= total) return;
  const Place at = place(item, packs, total, width);
  // Where the matrix ends inside a pack of some block, elements come one by one.
  bool ends = !job.aligned;
#pragma unroll
  for (int j = 0; j < Map::columns; ++j) {
    const int64_t left = job.columns - j * job.block_columns - at.column;
    ends = ends || (left > 0 && left < V);
  }
  if constexpr (kFetched<Map, SCALED>) {
    make_fetched_pack<Map, V>(job, at.row, at.column, !ends, shared);
  } else {
    if (!ends) return make_pack<Map, V, SCALED>(job, at.row, at.column);
#pragma unroll 1
    for (int i = 0; i < width; ++i) make_pack<Map, 1, SCALED>(job, at.row, at.column + i);
  }
}

// Thread blocks that share a multiprocessor at least. Blocks of 16-bit elements grow as sums widen them, for which the
// compiler would take registers beyond the half. 0 leaves the others alone: they get by with fewer, or would spill.
template <class Map, bool SCALED>
constexpr bool kWidens = !SCALED && sizeof(Input) == 2 && !kFetched<Map, SCALED> &&
                         Map::rows * Map::columns * Map::width <= 64;
template <class A, class B, bool SCALED>
constexpr int kTogether = kWidens<A, SCALED> && kWidens<B, SCALED> ? 2 : 0;

// The first blocks_of_a thread blocks work on A, the others on B. Each side gets one thread for each pack, so both take
// their part of the device in proportion to their bytes.
template <class A, class B, bool SCALED>
__global__ void __launch_bounds__(kPlaneThreads, kTogether<A, B, SCALED>)
    planes_kernel(const PlaneJob a, const PlaneJob b, unsigned blocks_of_a) {
  alignas(16) __shared__ unsigned char shared[kRoom<A, SCALED> > kRoom<B, SCALED> ? kRoom<A, SCALED> : kRoom<B, SCALED>];
  if (blockIdx.x < blocks_of_a)
    make_side<A, SCALED>(a, blockIdx.x, shared);
  else
    make_side<B, SCALED>(b, blockIdx.x - blocks_of_a, shared);
}

#ifndef __CUDACC_RTC__  // host code
// Completes a job and counts its thread blocks.
template <class Map, bool SCALED>
Status prepare(PlaneJob& job, int64_t& blocks) {
  blocks = 0;
  const bool wanted = (Map::planes > 0 && job.planes) || (Map::extras > 0 && job.extras);
  if (!job.matrix || !wanted) return kDone;
  if (job.plane_ld < job.block_columns || !row_aligned(job.planes, job.plane_ld) ||
      !row_aligned(job.planes, job.stride) || !row_aligned(job.extras, job.plane_ld) ||
      !row_aligned(job.extras, job.stride))
    return report(kMisuse, "rows of planes must start on 16-byte boundaries, not %lld elements apart in slots of %lld",
                  (long long)job.plane_ld, (long long)job.stride);
  job.aligned = row_aligned(job.matrix, job.ld) && row_aligned(job.matrix, job.block_columns);
  const int64_t packs = job.block_rows * (job.plane_ld / width_for<Map, SCALED>(job));
  blocks = up(packs, kPlaneThreads) / kPlaneThreads;
  return kDone;
}

// Queues the pass over both sides; each may be absent.
template <class A, class B, bool SCALED = false>
Status make_planes(cudaStream_t stream, PlaneJob a, PlaneJob b) {
  int64_t blocks_of_a, blocks_of_b;
  Status status = prepare<A, SCALED>(a, blocks_of_a);
  if (!status) status = prepare<B, SCALED>(b, blocks_of_b);
  if (status) return status;
  const int64_t blocks = blocks_of_a + blocks_of_b;
  if (blocks > INT32_MAX)
    return report(kMisuse, "blocks of %lld x %lld and %lld x %lld elements are too large", (long long)a.block_rows,
                  (long long)a.block_columns, (long long)b.block_rows, (long long)b.block_columns);
  if (blocks == 0) return kDone;
  const auto kernel = planes_kernel<A, B, SCALED>;
  kernel<<<static_cast<unsigned>(blocks), kPlaneThreads, 0, stream>>>(a, b, static_cast<unsigned>(blocks_of_a));
  return checked(cudaGetLastError(), "the kernel that makes planes");
}

// Loads the kernel now: modules load lazily, which must not happen while a graph is being captured.
template <class A, class B, bool SCALED = false>
Status load_planes() {
  cudaFuncAttributes attributes;
  const void* kernel = reinterpret_cast<const void*>(planes_kernel<A, B, SCALED>);
  return checked(cudaFuncGetAttributes(&attributes, kernel), "loading the kernels");
}
#endif

}  // namespace
