// The C entry points. A launch queues three kernels and one batched product; it neither allocates nor synchronises,
// so it can be captured in a CUDA graph. Use a handle from one host thread at a time, on the device it was opened on.
#include <new>

#include "products.cuh"

namespace {

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

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

template <class T>
bool row_aligned(const T* pointer, int64_t ld) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 && ld * sizeof(T) % 16 == 0;
}

Status grid_of(int64_t rows, int64_t columns, int width, unsigned& grid) {
  const int64_t blocks = up(rows * (columns / width), kThreads) / kThreads;
  if (blocks > INT32_MAX) return report(kMisuse, "a block of %lld x %lld is too large", (long long)rows, (long long)columns);
  grid = static_cast<unsigned>(blocks);
  return kDone;
}

template <class Side, int V>
Status run_combine(cudaStream_t stream, const Input* matrix, int64_t ld, int64_t rows, int64_t columns, Plane* planes,
                   int64_t block_rows, int64_t block_columns) {
  unsigned grid;
  if (Status status = grid_of(block_rows, block_columns, V, grid)) return status;
  const bool aligned = row_aligned(matrix, ld);
  if (aligned && rows == Side::rows * block_rows && columns == Side::columns * block_columns)
    combine<Side, V, true><<<grid, kThreads, 0, stream>>>(matrix, ld, rows, columns, aligned, planes, block_rows,
                                                          block_columns);
  else
    combine<Side, V, false><<<grid, kThreads, 0, stream>>>(matrix, ld, rows, columns, aligned, planes, block_rows,
                                                           block_columns);
  return checked(cudaGetLastError(), "the combine kernel");
}

Status run_scatter(cudaStream_t stream, const Product* products, int64_t block_rows, int64_t block_columns,
                   double alpha, double beta, Input* matrix, int64_t ld, int64_t rows, int64_t columns) {
  constexpr int V = kWidthC;
  unsigned grid;
  if (Status status = grid_of(block_rows, block_columns, V, grid)) return status;
  const bool aligned = row_aligned(matrix, ld);
  const Accumulator a = static_cast<Accumulator>(alpha), b = static_cast<Accumulator>(beta);
  if (aligned && rows == kBlocksM * block_rows && columns == kBlocksN * block_columns)
    scatter<SideC, V, true><<<grid, kThreads, 0, stream>>>(products, block_rows, block_columns, a, b, matrix, ld, rows,
                                                           columns, aligned);
  else
    scatter<SideC, V, false><<<grid, kThreads, 0, stream>>>(products, block_rows, block_columns, a, b, matrix, ld, rows,
                                                            columns, aligned);
  return checked(cudaGetLastError(), "the scatter kernel");
}

// Loads every kernel now: modules load lazily, which must not happen while a graph is being captured. It also shows
// at once that the file was built for another architecture.
Status load_kernels() {
  const void* kernels[] = {
      reinterpret_cast<const void*>(combine<SideA, kWidthA, true>),
      reinterpret_cast<const void*>(combine<SideA, kWidthA, false>),
      reinterpret_cast<const void*>(combine<SideB, kWidthB, true>),
      reinterpret_cast<const void*>(combine<SideB, kWidthB, false>),
      reinterpret_cast<const void*>(scatter<SideC, kWidthC, true>),
      reinterpret_cast<const void*>(scatter<SideC, kWidthC, false>),
  };
  cudaFuncAttributes attributes;
  for (const void* kernel : kernels)
    if (Status status = checked(cudaFuncGetAttributes(&attributes, kernel), "loading the kernels")) return status;
  return kDone;
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
  Handle* opened = new (std::nothrow) Handle{product, context, {}};
  if (!opened) return report(kFailed, "out of host memory");
  Status status = load_kernels();
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
                  size_t workspace_bytes) {
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
  const Handle* opened = static_cast<const Handle*>(handle);
  const cudaStream_t queue = static_cast<cudaStream_t>(stream);
  char* base = static_cast<char*>(workspace);
  Plane* planes_a = reinterpret_cast<Plane*>(base + layout.planes_a);
  Plane* planes_b = reinterpret_cast<Plane*>(base + layout.planes_b);
  Product* products = reinterpret_cast<Product*>(base + layout.products);
  const int64_t m = layout.M, n = layout.N, k = layout.K;

  Status status = run_combine<SideA, kWidthA>(queue, static_cast<const Input*>(A), lda, M, K, planes_a, m, k);
  if (!status) status = run_combine<SideB, kWidthB>(queue, static_cast<const Input*>(B), ldb, K, N, planes_b, k, n);
  if (status) return status;
  if (opened->product) {
    const int code = opened->product(opened->context, stream, kRank, m, n, k, planes_a, k, m * k, planes_b, n, k * n,
                                     products, n, m * n);
    if (code) return report(kFailed, "the caller's product returned %d", code);
  } else {
    status = library_products(opened->library, queue, base, static_cast<int>(m), static_cast<int>(n),
                              static_cast<int>(k), planes_a, planes_b, products);
    if (status) return status;
  }
  return run_scatter(queue, products, m, n, alpha, beta, static_cast<Input*>(C), ldc, M, N);
}

}  // extern "C"
