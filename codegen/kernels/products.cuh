// The block products by cuBLAS, which is opened at run time, or by the caller's function. A factor that is a plain block
// is read where it lies in the matrix, if the matrix is cut into blocks without a rest and its rows are aligned.
// The few entry points are declared here by their documented C ABI, so no cuBLAS header or library is needed to build.
#include <dlfcn.h>

#include <cstdlib>
#include <initializer_list>

#include "scatter.cuh"

// Row-major C_i = A_i B_i for i < count, queued on `stream`; matrices of one kind lie `stride` elements apart.
// Returns 0 when queued. A launch makes one call for all products, or one for each.
typedef int (*SCHEME_gemm)(void* context, void* stream, int64_t count, int64_t M, int64_t N, int64_t K, const void* A,
                           int64_t lda, int64_t stride_a, const void* B, int64_t ldb, int64_t stride_b, void* C,
                           int64_t ldc, int64_t stride_c);

namespace {

// Values of cublasOperation_t and cublasGemmAlgo_t in cuBLAS 11 to 13.
constexpr int kNoTranspose = 0, kDefaultAlgorithm = -1;
constexpr size_t kLibraryWorkspace = size_t(32) << 20;

// Blocks of C with at least this many 128 x 128 tiles a multiprocessor are multiplied one after the other, smaller ones
// by one strided-batched call. A single product gets the library's best kernel for its size: for FP64 blocks of 8192
// an H200 needed 164 ms for seven in a row of which the batched call took 184. Small blocks need the batch to fill the
// device. That call wants all factors at one distance from each other, so plain blocks are copied for it, one block to
// write for each: 18 of the 195 blocks that the passes of Winograd's scheme squared move. Arrays of pointers would save
// them, but leave the library fewer kernels to choose from.
constexpr int64_t kTilesForSingle = 4;

struct Library {
  void* handle;
  int (*create)(void**);
  int (*destroy)(void*);
  int (*set_stream)(void*, cudaStream_t);
  int (*set_workspace)(void*, void*, size_t);
  int (*set_math)(void*, int);
  int (*gemm)(void*, int, int, int, int, int, const void*, const void*, int, int, const void*, int, int, const void*,
              void*, int, int, int, int);
  int (*gemm_batched)(void*, int, int, int, int, int, const void*, const void*, int, int, long long, const void*, int,
                      int, long long, const void*, void*, int, int, long long, int, int, int);
};

struct Handle {
  SCHEME_gemm product;  // the caller's, or library_gemm with the library as its context
  void* context;
  int multiprocessors;
  Library library;
};

// Row-major C = A B is column-major C^T = B^T A^T, so the operands swap.
int library_gemm(void* context, void*, int64_t count, int64_t M, int64_t N, int64_t K, const void* A, int64_t lda,
                 int64_t stride_a, const void* B, int64_t ldb, int64_t stride_b, void* C, int64_t ldc,
                 int64_t stride_c) {
  const Library& library = *static_cast<const Library*>(context);
  const Accumulator one = 1, zero = 0;
  const int m = static_cast<int>(M), n = static_cast<int>(N), k = static_cast<int>(K), a = static_cast<int>(lda),
            b = static_cast<int>(ldb), c = static_cast<int>(ldc);
  if (count == 1)
    return library.gemm(library.handle, kNoTranspose, kNoTranspose, n, m, k, &one, B, kPlaneType, b, A, kPlaneType, a,
                        &zero, C, kProductType, c, kComputeType, kDefaultAlgorithm);
  return library.gemm_batched(library.handle, kNoTranspose, kNoTranspose, n, m, k, &one, B, kPlaneType, b, stride_b, A,
                              kPlaneType, a, stride_a, &zero, C, kProductType, c, stride_c, static_cast<int>(count),
                              kComputeType, kDefaultAlgorithm);
}

// The factors of one side. Plane r of the stack belongs to product r; a table says which factors are not there.
struct Factors {
  const Plane* stack;
  const Input* matrix;  // null: every factor is in the stack
  int64_t ld, block_rows, block_columns;
  int columns;  // blocks in a row of the matrix
};

struct Factor {
  const void* first;
  int64_t ld;
};

// A factor from its entry in the table: a plane of the stack, or -1 - the number of a block.
Factor factor(const Factors& from, int entry, int product) {
  const int64_t stride = from.block_rows * from.block_columns;
  if (!from.matrix) return {from.stack + product * stride, from.block_columns};
  if (entry >= 0) return {from.stack + entry * stride, from.block_columns};
  const int64_t row = (-1 - entry) / from.columns * from.block_rows;
  const int64_t column = (-1 - entry) % from.columns * from.block_columns;
  return {from.matrix + row * from.ld + column, from.ld};
}

bool in_one_call(const Handle& handle, int64_t M, int64_t N) {
  return kRank > 1 && M * N / (128 * 128) < kTilesForSingle * handle.multiprocessors;
}

// Queues all products; they lie one after the other.
Status multiply(const Handle& handle, cudaStream_t stream, const Factors& a, const Factors& b, Product* C) {
  const int64_t M = a.block_rows, N = b.block_columns, K = a.block_columns;
  const int count = in_one_call(handle, M, N) ? kRank : 1;
  for (int r = 0; r < kRank; r += count) {
    const Factor left = factor(a, kFactorsA[r], r), right = factor(b, kFactorsB[r], r);
    const int code = handle.product(handle.context, stream, count, M, N, K, left.first, left.ld, M * K, right.first,
                                    right.ld, K * N, C + r * M * N, N, M * N);
    if (code && handle.product == library_gemm)
      return report(kFailed, "%s failed with status %d", count > 1 ? "cublasGemmStridedBatchedEx" : "cublasGemmEx", code);
    if (code) return report(kFailed, "the caller's product returned %d", code);
  }
  return kDone;
}

// The library sets itself up at its first product, which must not be while a graph is being captured: a tiny one of
// each kind, now. It also shows at once whether the library works on this device.
Status warm_up(Library& library) {
  constexpr int64_t size = 16, area = size * size;
  void* memory = nullptr;
  if (Status status = checked(cudaMalloc(&memory, 2 * area * (sizeof(Plane) + sizeof(Product))), "cudaMalloc"))
    return status;
  const Plane* planes = static_cast<const Plane*>(memory);
  Product* product = reinterpret_cast<Product*>(static_cast<Plane*>(memory) + 2 * area);
  int code = 0;
  for (int count = 1; count <= 2 && !code; ++count)
    code = library_gemm(&library, nullptr, count, size, size, size, planes, size, 0, planes + area, size, 0, product,
                        size, area);
  const Status waited = checked(cudaDeviceSynchronize(), "a first product by cuBLAS");
  cudaFree(memory);
  return code ? report(kFailed, "a first product by cuBLAS failed with status %d", code) : waited;
}

// The library that the variable names, and no other, so that nobody measures or ships another than the one they asked
// for; else the first of the usual names that is there.
Status load_library(void*& file) {
  const char* own = getenv("SUBCUBIC_CUBLAS");
  if (own && *own) {
    file = dlopen(own, RTLD_NOW | RTLD_LOCAL);
    return file ? kDone : report(kMissing, "SUBCUBIC_CUBLAS names a library that cannot be opened (%s)", dlerror());
  }
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"})
    if (!file) file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (file) return kDone;
  return report(kMissing, "no cuBLAS found: install it or set SUBCUBIC_CUBLAS to the path of libcublas.so (%s)",
                dlerror());
}

Status open_library(Library& library) {
  void* file = nullptr;
  if (Status status = load_library(file)) return status;
  struct {
    const char* name;
    void* target;
  } symbols[] = {{"cublasCreate_v2", &library.create},
                 {"cublasDestroy_v2", &library.destroy},
                 {"cublasSetStream_v2", &library.set_stream},
                 {"cublasSetWorkspace_v2", &library.set_workspace},
                 {"cublasSetMathMode", &library.set_math},
                 {"cublasGemmEx", &library.gemm},
                 {"cublasGemmStridedBatchedEx", &library.gemm_batched}};
  for (auto& symbol : symbols) {
    void* found = dlsym(file, symbol.name);
    if (!found) return report(kMissing, "this cuBLAS has no %s: version 11 or later is needed", symbol.name);
    *static_cast<void**>(symbol.target) = found;
  }
  int code = library.create(&library.handle);
  if (code) return report(kFailed, "cublasCreate failed with status %d", code);
  code = library.set_math(library.handle, kMathMode);
  return code ? report(kFailed, "cublasSetMathMode failed with status %d", code) : warm_up(library);
}

// Setting the stream resets the workspace, so the order matters; both are needed for capture in a graph.
Status set_stream(const Library& library, cudaStream_t stream, void* workspace) {
  int code = library.set_stream(library.handle, stream);
  if (!code) code = library.set_workspace(library.handle, workspace, kLibraryWorkspace);
  return code ? report(kFailed, "cuBLAS refused the stream or its workspace with status %d", code) : kDone;
}

}  // namespace
