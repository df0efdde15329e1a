// The block products by cuBLAS, which is opened at run time, or by the caller's function.
// The few entry points are declared here by their documented C ABI, so no cuBLAS header or library is needed to build.
#include <dlfcn.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "scatter.cuh"

// Row-major C_i = A_i B_i for i < count, queued on `stream`; matrices of one kind lie `stride` elements apart.
// Returns 0 when queued.
typedef int (*SCHEME_gemm)(void* context, void* stream, int64_t count, int64_t M, int64_t N, int64_t K, const void* A,
                           int64_t lda, int64_t stride_a, const void* B, int64_t ldb, int64_t stride_b, void* C,
                           int64_t ldc, int64_t stride_c);

namespace {

enum Status { kDone = 0, kFailed = 1, kMisuse = 2, kMissing = 4 };

thread_local char last_error[512] = "";

Status report(Status status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof(last_error), format, values);
  va_end(values);
  return status;
}

Status checked(cudaError_t code, const char* what) {
  return code == cudaSuccess ? kDone : report(kFailed, "%s failed: %s", what, cudaGetErrorString(code));
}

// Values of cublasOperation_t and cublasGemmAlgo_t in cuBLAS 11 to 13.
constexpr int kNoTranspose = 0, kDefaultAlgorithm = -1;
constexpr size_t kLibraryWorkspace = size_t(32) << 20;

// Blocks of C with at least this many 128 x 128 tiles a multiprocessor are multiplied one after the other, smaller ones
// by one strided-batched call. A single product gets the library's best kernel for its size: for FP64 blocks of 8192
// an H200 needed 164 ms for seven in a row of which the batched call took 184. Small blocks need the batch to fill the
// device.
constexpr int64_t kTilesForSingle = 4;

struct Library {
  void* handle;
  int multiprocessors;
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
  SCHEME_gemm product;
  void* context;
  Library library;
};

// Queues `count` products of planes that lie one after the other, in one call of the library for all or in one each.
// Row-major C = A B is column-major C^T = B^T A^T, so the operands swap.
Status multiply(const Library& library, bool batched, int count, int M, int N, int K, const Plane* A, const Plane* B,
                Product* C) {
  const Accumulator one = 1, zero = 0;
  const long long a = (long long)M * K, b = (long long)K * N, c = (long long)M * N;
  int code = 0;
  if (batched) {
    code = library.gemm_batched(library.handle, kNoTranspose, kNoTranspose, N, M, K, &one, B, kPlaneType, N, b, A,
                                kPlaneType, K, a, &zero, C, kProductType, N, c, count, kComputeType, kDefaultAlgorithm);
    return code ? report(kFailed, "cublasGemmStridedBatchedEx failed with status %d", code) : kDone;
  }
  for (int r = 0; r < count && !code; ++r)
    code = library.gemm(library.handle, kNoTranspose, kNoTranspose, N, M, K, &one, B + r * b, kPlaneType, N, A + r * a,
                        kPlaneType, K, &zero, C + r * c, kProductType, N, kComputeType, kDefaultAlgorithm);
  return code ? report(kFailed, "cublasGemmEx failed with status %d", code) : kDone;
}

// The library sets itself up at its first product, which must not be while a graph is being captured: a tiny one of
// each kind, now. It also shows at once whether the library works on this device.
Status warm_up(const Library& library) {
  constexpr int size = 16;
  void* memory = nullptr;
  if (Status status = checked(cudaMalloc(&memory, size * size * (2 * sizeof(Plane) + sizeof(Product))), "cudaMalloc"))
    return status;
  const Plane* planes = static_cast<const Plane*>(memory);
  Product* product = reinterpret_cast<Product*>(static_cast<Plane*>(memory) + 2 * size * size);
  Status status = multiply(library, true, 1, size, size, size, planes, planes + size * size, product);
  if (!status) status = multiply(library, false, 1, size, size, size, planes, planes + size * size, product);
  const Status waited = checked(cudaDeviceSynchronize(), "a first product by cuBLAS");
  cudaFree(memory);
  return status ? status : waited;
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
  int device = 0;
  cudaError_t found = cudaGetDevice(&device);
  if (!found) found = cudaDeviceGetAttribute(&library.multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (Status status = checked(found, "asking for the device")) return status;
  int code = library.create(&library.handle);
  if (code) return report(kFailed, "cublasCreate failed with status %d", code);
  code = library.set_math(library.handle, kMathMode);
  return code ? report(kFailed, "cublasSetMathMode failed with status %d", code) : warm_up(library);
}

Status library_products(const Library& library, cudaStream_t stream, void* workspace, int M, int N, int K,
                        const Plane* A, const Plane* B, Product* C) {
  // Setting the stream resets the workspace, so the order matters; both are needed for capture in a graph.
  int code = library.set_stream(library.handle, stream);
  if (!code) code = library.set_workspace(library.handle, workspace, kLibraryWorkspace);
  if (code) return report(kFailed, "cuBLAS refused the stream or its workspace with status %d", code);
  const int64_t tiles = (int64_t)M * N / (128 * 128);
  return multiply(library, tiles < kTilesForSingle * library.multiprocessors, kRank, M, N, K, A, B, C);
}

}  // namespace
