// The C entry points. A launch queues the planes, the products and the scatter; it neither allocates nor synchronises,
// so it can be captured in a CUDA graph. Use a handle from one host thread at a time, on the device it was opened on.
#include <new>

#include "products.cuh"

namespace {

// Block sizes and the parts of the workspace. K and N of a block are multiples of 8 elements, so that every row of a
// plane is aligned for 16-byte accesses and for the fast kernels of cuBLAS.
struct Layout {
  int64_t M, N, K;
  size_t planes_a, planes_b, products, total;

  Layout(int64_t m, int64_t n, int64_t k)
      : M(up(m, kBlocksM) / kBlocksM), N(up(up(n, kBlocksN) / kBlocksN, 8)), K(up(up(k, kBlocksK) / kBlocksK, 8)) {
    planes_a = kLibraryWorkspace;
    planes_b = planes_a + up(sizeof(Plane) * kRank * M * K, 256);
    products = planes_b + up(sizeof(Plane) * kRank * K * N, 256);
    total = products + up(sizeof(Product) * kRank * M * N, 256);
  }
};

// cuBLAS takes 32-bit sizes; the second condition keeps every byte count far from overflow.
bool fits(int64_t M, int64_t N, int64_t K) {
  const int64_t limit = INT64_C(1) << 30;
  if (M < 1 || N < 1 || K < 1 || M > limit || N > limit || K > limit) return false;
  return (double(M) * K + double(K) * N + double(M) * N) * kRank < double(INT64_C(1) << 50);
}

// Whether the products can read blocks of a matrix where they lie; leading dimensions have 32 bits in cuBLAS.
template <class Map>
bool readable(const PlaneJob& job) {
  return job.rows == Map::rows * job.block_rows && job.columns == Map::columns * job.block_columns &&
         row_aligned(job.matrix, job.ld) && job.ld <= INT32_MAX;
}

// What is to be made of one matrix. Extras complete the stack: copies of plain blocks, and planes of several products.
template <class Map>
PlaneJob job_of(const void* matrix, int64_t ld, int64_t rows, int64_t columns, Plane* stack, int64_t block_rows,
                int64_t block_columns, bool all) {
  PlaneJob job;
  job.matrix = static_cast<const Input*>(matrix);
  job.ld = ld, job.rows = rows, job.columns = columns;
  job.block_rows = block_rows, job.block_columns = block_columns;
  job.planes = stack;
  job.plane_ld = block_columns, job.stride = block_rows * block_columns;
  if (all || !readable<Map>(job)) job.extras = stack;
  return job;
}

template <class Map>
Factors factors_of(const PlaneJob& job) {
  return {job.planes, job.extras ? nullptr : job.matrix, job.ld, job.block_rows, job.block_columns, Map::columns};
}

Status grid_of(int64_t rows, int64_t columns, int width, unsigned& grid) {
  const int64_t blocks = up(rows * (columns / width), kThreads) / kThreads;
  if (blocks > INT32_MAX) return report(kMisuse, "a block of %lld x %lld is too large", (long long)rows, (long long)columns);
  grid = static_cast<unsigned>(blocks);
  return kDone;
}

Status run_scatter(cudaStream_t stream, const Product* products, int64_t block_rows, int64_t block_columns,
#ifdef SUBCUBIC_EPILOGUE
                   double alpha, double beta, Input* matrix, int64_t ld, int64_t rows, int64_t columns,
                   const Extras& extras) {
#else  // SUBCUBIC_EPILOGUE
                   double alpha, double beta, Input* matrix, int64_t ld, int64_t rows, int64_t columns) {
#endif  // SUBCUBIC_EPILOGUE
  constexpr int V = kWidthC;
  unsigned grid;
  if (Status status = grid_of(block_rows, block_columns, V, grid)) return status;
  const bool aligned = row_aligned(matrix, ld);
  const Accumulator a = static_cast<Accumulator>(alpha), b = static_cast<Accumulator>(beta);
#ifdef SUBCUBIC_EPILOGUE
  if (aligned && extras.alignment == 16 && rows == kBlocksM * block_rows && columns == kBlocksN * block_columns)
    scatter<MapC, V, true><<<grid, kThreads, 0, stream>>>(products, block_rows, block_columns, a, b, matrix, ld, rows,
                                                           columns, aligned, extras);
  else
    scatter<MapC, V, false><<<grid, kThreads, 0, stream>>>(products, block_rows, block_columns, a, b, matrix, ld, rows,
                                                            columns, aligned, extras);
#else  // SUBCUBIC_EPILOGUE
  if (aligned && rows == kBlocksM * block_rows && columns == kBlocksN * block_columns)
    scatter<MapC, V, true><<<grid, kThreads, 0, stream>>>(products, block_rows, block_columns, a, b, matrix, ld, rows,
                                                           columns, aligned);
  else
    scatter<MapC, V, false><<<grid, kThreads, 0, stream>>>(products, block_rows, block_columns, a, b, matrix, ld, rows,
                                                            columns, aligned);
#endif  // SUBCUBIC_EPILOGUE
  return checked(cudaGetLastError(), "the scatter kernel");
}

// Loads every kernel now: modules load lazily, which must not happen while a graph is being captured. It also shows
// at once that the file was built for another architecture.
Status load_kernels() {
  const void* kernels[] = {reinterpret_cast<const void*>(scatter<MapC, kWidthC, true>),
                           reinterpret_cast<const void*>(scatter<MapC, kWidthC, false>)};
  cudaFuncAttributes attributes;
  for (const void* kernel : kernels)
    if (Status status = checked(cudaFuncGetAttributes(&attributes, kernel), "loading the kernels")) return status;
  return load_planes<MapA, MapB>();
}

}  // namespace

extern "C" {

const char* SCHEME_error(void) { return last_error; }

void SCHEME_close(void* handle) {
  Handle* opened = static_cast<Handle*>(handle);
  if (opened && opened->library.handle) opened->library.destroy(opened->library.handle);
  delete opened;
}

int SCHEME_open(void** handle, SCHEME_gemm product, void* context) {
  if (!handle) return report(kMisuse, "handle must not be null");
  *handle = nullptr;
  int devices = 0;
  const cudaError_t code = cudaGetDeviceCount(&devices);
  if (code != cudaSuccess || devices == 0)
    return report(kMissing, "no usable CUDA device: %s", cudaGetErrorString(code));
  Handle* opened = new (std::nothrow) Handle{product, context, 0, {}};
  if (!opened) return report(kFailed, "out of host memory");
  if (!product) opened->product = library_gemm, opened->context = &opened->library;
  int device = 0;
  cudaError_t found = cudaGetDevice(&device);
  if (!found) found = cudaDeviceGetAttribute(&opened->multiprocessors, cudaDevAttrMultiProcessorCount, device);
  Status status = checked(found, "asking for the device");
  if (!status) status = load_kernels();
  if (!status && !product) status = open_library(opened->library);
  if (status) {
    SCHEME_close(opened);
    return status;
  }
  *handle = opened;
  return kDone;
}

size_t SCHEME_workspace(int64_t M, int64_t N, int64_t K) { return fits(M, N, K) ? Layout(M, N, K).total : 0; }

int SCHEME_launch(void* handle, void* stream, int64_t M, int64_t N, int64_t K, double alpha, const void* A,
                  int64_t lda, const void* B, int64_t ldb, double beta, void* C, int64_t ldc, void* workspace,
#ifdef SUBCUBIC_EPILOGUE
                  size_t workspace_bytes, const SCHEME_extras* given) {
#else  // SUBCUBIC_EPILOGUE
                  size_t workspace_bytes) {
#endif  // SUBCUBIC_EPILOGUE
  if (!handle) return report(kMisuse, "the handle is null: open one first");
  if (!fits(M, N, K))
    return report(kMisuse, "sizes must be positive and addressable, not M=%lld N=%lld K=%lld", (long long)M, (long long)N,
                  (long long)K);
  if (lda < K || ldb < N || ldc < N)
    return report(kMisuse, "leading dimensions must be lda >= %lld, ldb >= %lld, ldc >= %lld (row-major)",
                  (long long)K, (long long)N, (long long)N);
  if (!A || !B || !C) return report(kMisuse, "A, B and C must not be null");
  const Layout layout(M, N, K);
  if (!workspace || workspace_bytes < layout.total)
    return report(kMisuse, "the workspace has %zu bytes, %zu are needed", workspace ? workspace_bytes : size_t(0),
                  layout.total);
  if (reinterpret_cast<uintptr_t>(workspace) % 256) return report(kMisuse, "the workspace must be 256-byte aligned");
#ifdef SUBCUBIC_EPILOGUE
  Extras extras;
  if (Status wrong = take_extras(given, N, extras)) return wrong;
#endif  // SUBCUBIC_EPILOGUE
  const Handle& opened = *static_cast<const Handle*>(handle);
  const cudaStream_t queue = static_cast<cudaStream_t>(stream);
  char* base = static_cast<char*>(workspace);
  Product* products = reinterpret_cast<Product*>(base + layout.products);
  const int64_t m = layout.M, n = layout.N, k = layout.K;
  const bool all = in_one_call(opened, m, n);
  const PlaneJob a = job_of<MapA>(A, lda, M, K, reinterpret_cast<Plane*>(base + layout.planes_a), m, k, all);
  const PlaneJob b = job_of<MapB>(B, ldb, K, N, reinterpret_cast<Plane*>(base + layout.planes_b), k, n, all);

  Status status = make_planes<MapA, MapB>(queue, a, b);
  if (!status && opened.library.handle) status = set_stream(opened.library, queue, base);
  if (!status) status = multiply(opened, queue, factors_of<MapA>(a), factors_of<MapB>(b), products);
  if (status) return status;
#ifdef SUBCUBIC_EPILOGUE
  return run_scatter(queue, products, m, n, alpha, beta, static_cast<Input*>(C), ldc, M, N, extras);
#else  // SUBCUBIC_EPILOGUE
  return run_scatter(queue, products, m, n, alpha, beta, static_cast<Input*>(C), ldc, M, N);
#endif  // SUBCUBIC_EPILOGUE
}

}  // extern "C"
