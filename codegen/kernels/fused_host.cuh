// The C entry points of a fused kernel: arguments, workspace, planes. Nothing here depends on the architecture, whose
// file comes before this one and defines
//   in_place<Map, BY_COLUMNS>(side)   whether blocks can be read where they lie, if rows are aligned. BY_COLUMNS: the depth
//                                     runs down the rows of memory, so rows or columns of C are columns there
//   scratch_bytes(m, n, k)   bytes of pending tiles and the like for blocks of that size
//   Machine                  what open_machine finds out about the current device and run needs to know
//   Status open_machine(Machine&)                                  loads the kernel; kMissing: not for this device
//   Status run(const Machine&, cudaStream_t, const Work&)          queues the products
#include <new>

#include "fused_work.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

struct Handle {
  Machine machine;
};

constexpr size_t kCounterBytes = 4096;

// Rows or columns of a block, of `count` that share `size`.
int64_t part(int64_t size, int count, int64_t unit) { return up(up(size, count) / count, unit); }

size_t bytes_of(int sources, int64_t rows, int64_t columns, size_t element) {
  return up(static_cast<int64_t>(element) * sources * rows * columns, 256);
}

// Of exponents, one for each of `count` rows or columns.
size_t exponent_bytes(int64_t count) { return kScaled ? up(static_cast<int64_t>(sizeof(int)) * count, 256) : 0; }

// Block sizes and the parts of a workspace, of which some may not be needed.
struct Layout {
  int64_t m, n, k;
  size_t scratch, planes_a, planes_b, copies_a, copies_b, exponents_a, exponents_b, total;

  Layout(int64_t M, int64_t N, int64_t K, bool make_a, bool make_b, bool copy_a, bool copy_b)
      : m(part(M, kBlocksM, kUnitM)), n(part(N, kBlocksN, kUnitN)), k(part(K, kBlocksK, kUnitK)) {
    scratch = kCounterBytes;
    planes_a = scratch + up(scratch_bytes(m, n, k), 256);
    planes_b = planes_a + (make_a ? bytes_of(kPlanesA, m, k, sizeof(Plane)) : 0);
    copies_a = planes_b + (make_b ? bytes_of(kPlanesB, k, n, sizeof(Plane)) : 0);
    copies_b = copies_a + (copy_a ? bytes_of(kPlainA, m, k, sizeof(Input)) : 0);
    exponents_a = copies_b + (copy_b ? bytes_of(kPlainB, k, n, sizeof(Input)) : 0);
    exponents_b = exponents_a + (make_a ? exponent_bytes(M) : 0);
    total = exponents_b + (make_b ? exponent_bytes(N) : 0);
  }
};

// Largest size and leading dimension: the bytes of a row of a block, rounded up, are counted in 31 bits.
constexpr int64_t kLargest = (INT64_C(1) << 30) - 1024;

// The second condition keeps every byte count far from overflow.
bool fits(int64_t M, int64_t N, int64_t K) {
  if (M < 1 || N < 1 || K < 1 || M > kLargest || N > kLargest || K > kLargest) return false;
  return (double(M) * K + double(K) * N + double(M) * N) * kTurnCount < double(INT64_C(1) << 50);
}

Side side(const void* matrix, int64_t ld, int64_t rows, int64_t columns, const void* planes, int64_t block_rows,
          int64_t block_columns) {
  return {static_cast<const Input*>(matrix), ld,         rows,         columns, nullptr,
          static_cast<const Plane*>(planes), block_rows, block_columns};
}

// A and B as they lie in memory, which may be transposed.
Side side_a(const void* A, int64_t lda, int64_t M, int64_t K, const void* planes) {
  const int64_t m = part(M, kBlocksM, kUnitM), k = part(K, kBlocksK, kUnitK);
  return kTransposedA ? side(A, lda, K, M, planes, k, m) : side(A, lda, M, K, planes, m, k);
}

Side side_b(const void* B, int64_t ldb, int64_t N, int64_t K, const void* planes) {
  const int64_t n = part(N, kBlocksN, kUnitN), k = part(K, kBlocksK, kUnitK);
  return kTransposedB ? side(B, ldb, N, K, planes, n, k) : side(B, ldb, K, N, planes, k, n);
}

// Bytes of the planes of one side, behind which lie its exponents.
size_t planes_of_a(int64_t M, int64_t K) {
  return bytes_of(kPlanesA, part(M, kBlocksM, kUnitM), part(K, kBlocksK, kUnitK), sizeof(Plane));
}
size_t planes_of_b(int64_t N, int64_t K) {
  return bytes_of(kPlanesB, part(K, kBlocksK, kUnitK), part(N, kBlocksN, kUnitN), sizeof(Plane));
}
template <class P>
int* behind(P* planes, size_t bytes) {
  return reinterpret_cast<int*>(const_cast<char*>(reinterpret_cast<const char*>(planes)) + bytes);
}

// Queues what finds the exponents of one side, by the columns of what lies in memory or by its rows.
Status queue_exponents(cudaStream_t stream, const Side& from, bool by_columns, int* exponents) {
#ifdef SUBCUBIC_SCALED
  const auto find = by_columns ? find_exponents<true> : find_exponents<false>;
  return find(stream, from.matrix, from.ld, from.rows, from.columns, exponents);
#else
  return kDone;
#endif
}

void scale(PlaneJob& job, bool by_columns, const int* exponents) {
  if (kScaled) (by_columns ? job.column_exponents : job.row_exponents) = exponents;
}

// Which of A's and B's rows and columns in memory are those of C.
constexpr bool kColumnsOfA = kTransposedA, kColumnsOfB = !kTransposedB;

// Whether blocks cannot be read where they lie.
template <class Map, bool BY_COLUMNS>
bool must_copy(const Side& from) {
  return kScaled || !row_aligned(from.matrix, from.ld) || !in_place<Map, BY_COLUMNS>(from);
}

template <class Map>
bool tiled_exactly(const Side& from) {
  return from.rows == Map::rows * from.block_rows && from.columns == Map::columns * from.block_columns;
}

// The work of the pass over one side; neither planes nor copies: nothing.
PlaneJob job_of(const Side& from, void* planes, void* copies) {
  PlaneJob job;
  if (!planes && !copies) return job;
  job.matrix = from.matrix;
  job.ld = from.ld;
  job.rows = from.rows;
  job.columns = from.columns;
  job.block_rows = from.block_rows;
  job.block_columns = job.plane_ld = from.block_columns;
  job.stride = from.block_rows * from.block_columns;
  job.planes = static_cast<Plane*>(planes);
  job.extras = static_cast<Input*>(copies);
  return job;
}

// Whether the planes of one constant operand can be made.
Status check_pack(const void* handle, const Side& from, const void* planes, size_t planes_bytes, size_t needed) {
  if (!handle) return report(kMisuse, "the handle is null: open one first");
  if (!needed)
    return report(kMisuse, "sizes must be positive and addressable, not %lld x %lld", (long long)from.rows,
                  (long long)from.columns);
  if (!from.matrix || !planes) return report(kMisuse, "the matrix and its planes must not be null");
  if (from.ld < from.columns || from.ld > kLargest)
    return report(kMisuse, "the leading dimension must be at least %lld (row-major) and at most %lld, not %lld",
                  (long long)from.columns, (long long)kLargest, (long long)from.ld);
  if (planes_bytes < needed) return report(kMisuse, "the planes have %zu bytes, %zu are needed", planes_bytes, needed);
  if (reinterpret_cast<uintptr_t>(planes) % 256) return report(kMisuse, "the planes must be 256-byte aligned");
  return kDone;
}

// Makes the planes of a constant A, or else B, and behind `planes_only` bytes its exponents.
template <bool OF_A>
Status pack(const void* handle, void* stream, const Side& from, void* planes, size_t planes_bytes, size_t needed,
            size_t planes_only) {
  if (Status status = check_pack(handle, from, planes, planes_bytes, needed)) return status;
  const cudaStream_t queue = static_cast<cudaStream_t>(stream);
  constexpr bool by_columns = OF_A ? kColumnsOfA : kColumnsOfB;
  int* exponents = behind(static_cast<char*>(planes), planes_only);
  PlaneJob job = job_of(from, planes, nullptr);
  scale(job, by_columns, exponents);
  if (Status status = queue_exponents(queue, from, by_columns, exponents)) return status;
  return make_planes<MapA, MapB, kScaled>(queue, OF_A ? job : PlaneJob{}, OF_A ? PlaneJob{} : job);
}

// Makes the planes that were not given, and copies of the blocks that cannot be read where they lie. A kernel of two
// phases makes planes itself, if they are all that is missing and blocks tile the matrices exactly.
Status prepare_sides(cudaStream_t stream, char* workspace, const Layout& layout, bool copy_a, bool copy_b, size_t given_a,
                     size_t given_b, Work& work) {
  Side &a = work.a, &b = work.b;
  Plane* planes_a = a.planes ? nullptr : reinterpret_cast<Plane*>(workspace + layout.planes_a);
  Plane* planes_b = b.planes ? nullptr : reinterpret_cast<Plane*>(workspace + layout.planes_b);
  Input* copies_a = copy_a ? reinterpret_cast<Input*>(workspace + layout.copies_a) : nullptr;
  Input* copies_b = copy_b ? reinterpret_cast<Input*>(workspace + layout.copies_b) : nullptr;
  PlaneJob job_a = job_of(a, planes_a, copies_a), job_b = job_of(b, planes_b, copies_b);
  Status status = kDone;
  if (kScaled) {
    int* of_a = planes_a ? behind(workspace, layout.exponents_a) : behind(a.planes, given_a);
    int* of_b = planes_b ? behind(workspace, layout.exponents_b) : behind(b.planes, given_b);
    if (planes_a) status = queue_exponents(stream, a, kColumnsOfA, of_a);
    if (planes_b && !status) status = queue_exponents(stream, b, kColumnsOfB, of_b);
    if (status) return status;
    scale(job_a, kColumnsOfA, of_a);
    scale(job_b, kColumnsOfB, of_b);
    work.row_exponents = of_a;
    work.column_exponents = of_b;
  }
  if (kBoundary > 0 && !copy_a && !copy_b && tiled_exactly<MapA>(a) && tiled_exactly<MapB>(b)) {
    work.make_a = job_a;
    if (kConstantB)
      status = make_planes<MapA, MapB, kScaled>(stream, {}, job_b);
    else
      work.make_b = job_b;
  } else {
    status = make_planes<MapA, MapB, kScaled>(stream, job_a, job_b);
  }
  if (planes_a) a.planes = planes_a;
  if (planes_b) b.planes = planes_b;
  a.copies = copies_a;
  b.copies = copies_b;
  return status;
}

}  // namespace

extern "C" {

const char* SCHEME_error(void) { return last_error; }

void SCHEME_close(void* handle) { delete static_cast<Handle*>(handle); }

int SCHEME_open(void** handle) {
  if (!handle) return report(kMisuse, "handle must not be null");
  *handle = nullptr;
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess || devices == 0)
    return report(kMissing, "no usable CUDA device: %s", cudaGetErrorString(code));
  Handle* opened = new (std::nothrow) Handle{};
  if (!opened) return report(kFailed, "out of host memory");
  // Modules load lazily, which must not happen while a graph is being captured.
  Status status = open_machine(opened->machine);
  if (!status) status = load_planes<MapA, MapB, kScaled>();
#ifdef SUBCUBIC_SCALED
  if (!status) status = load_exponents();
#endif
#ifdef SUBCUBIC_GUARDED
  if (!status) status = load_repair();
#endif
  if (status) {
    SCHEME_close(opened);
    return status;
  }
  *handle = opened;
  return kDone;
}

// Enough for rows that are not aligned, too; an aligned launch or one with given planes takes less, see Layout.
size_t SCHEME_workspace(int64_t M, int64_t N, int64_t K) {
  return fits(M, N, K) ? Layout(M, N, K, true, true, true, true).total : 0;
}

// More than nothing, so that 0 always means sizes that cannot be launched.
size_t SCHEME_planes_a(int64_t M, int64_t K) {
  return fits(M, 1, K) ? planes_of_a(M, K) + exponent_bytes(M) + 256 : 0;
}

size_t SCHEME_planes_b(int64_t N, int64_t K) {
  return fits(1, N, K) ? planes_of_b(N, K) + exponent_bytes(N) + 256 : 0;
}

int SCHEME_pack_a(void* handle, void* stream, int64_t M, int64_t K, const void* A, int64_t lda, void* planes,
                  size_t planes_bytes) {
  const Side from = side_a(A, lda, M, K, nullptr);
  return pack<true>(handle, stream, from, planes, planes_bytes, SCHEME_planes_a(M, K), planes_of_a(M, K));
}

int SCHEME_pack_b(void* handle, void* stream, int64_t N, int64_t K, const void* B, int64_t ldb, void* planes,
                  size_t planes_bytes) {
  const Side from = side_b(B, ldb, N, K, nullptr);
  return pack<false>(handle, stream, from, planes, planes_bytes, SCHEME_planes_b(N, K), planes_of_b(N, K));
}

int SCHEME_launch(void* handle, void* stream, int64_t M, int64_t N, int64_t K, double alpha, const void* A,
                  int64_t lda, const void* B, int64_t ldb, double beta, void* C, int64_t ldc, const void* planes_a,
#ifdef SUBCUBIC_EPILOGUE
                  const void* planes_b, void* workspace, size_t workspace_bytes, const SCHEME_extras* extras) {
#else  // SUBCUBIC_EPILOGUE
                  const void* planes_b, void* workspace, size_t workspace_bytes) {
#endif  // SUBCUBIC_EPILOGUE
  if (!handle) return report(kMisuse, "the handle is null: open one first");
  if (!fits(M, N, K))
    return report(kMisuse, "sizes must be positive and addressable, not M=%lld N=%lld K=%lld", (long long)M,
                  (long long)N, (long long)K);
  Side a = side_a(A, lda, M, K, planes_a), b = side_b(B, ldb, N, K, planes_b);
  if (lda < a.columns || ldb < b.columns || ldc < N)
    return report(kMisuse, "leading dimensions must be lda >= %lld, ldb >= %lld, ldc >= %lld (row-major)",
                  (long long)a.columns, (long long)b.columns, (long long)N);
  if (lda > kLargest || ldb > kLargest)
    return report(kMisuse, "leading dimensions of A and B must be at most %lld", (long long)kLargest);
  if (!A || !B || !C) return report(kMisuse, "A, B and C must not be null");
  if (kGuarded && beta != 0) return report(kMisuse, "a guarded kernel may have to compute C again, so beta must be 0");
  if ((reinterpret_cast<uintptr_t>(planes_a) | reinterpret_cast<uintptr_t>(planes_b)) % 256)
    return report(kMisuse, "planes must be 256-byte aligned");
  const bool copy_a = must_copy<MapA, kColumnsOfA>(a), copy_b = must_copy<MapB, kColumnsOfB>(b);
  const Layout layout(M, N, K, !planes_a, !planes_b, copy_a, copy_b);
  if (!workspace || workspace_bytes < layout.total)
    return report(kMisuse, "the workspace has %zu bytes, %zu are needed", workspace ? workspace_bytes : size_t(0),
                  layout.total);
  if (reinterpret_cast<uintptr_t>(workspace) % 256) return report(kMisuse, "the workspace must be 256-byte aligned");
  const cudaStream_t queue = static_cast<cudaStream_t>(stream);
  char* base = static_cast<char*>(workspace);
  Work work = {a,
               b,
               static_cast<Output*>(C),
               ldc,
               M,
               N,
               layout.m,
               layout.n,
               layout.k,
               static_cast<float>(alpha),
               static_cast<float>(beta),
               {},
               {},
               reinterpret_cast<float4*>(base + layout.scratch),
               reinterpret_cast<unsigned*>(base)};
#ifdef SUBCUBIC_EPILOGUE
  if (Status wrong = take_extras(extras, N, work.extras)) return wrong;
#endif  // SUBCUBIC_EPILOGUE
  Status status = prepare_sides(queue, base, layout, copy_a, copy_b, planes_of_a(M, K), planes_of_b(N, K), work);
  if (!status) status = run(static_cast<const Handle*>(handle)->machine, queue, work);
#ifdef SUBCUBIC_GUARDED
  if (!status) status = queue_repair(queue, work, K);
#endif
  return status;
}

}  // extern "C"
#endif
