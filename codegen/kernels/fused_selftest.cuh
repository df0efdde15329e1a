// A program that tests the launch above against a naive FP64 product: poisoned outputs and workspaces, odd sizes,
// padded rows, alpha and beta, prepared planes. Built only with -DSUBCUBIC_MAIN.
#include "fused_host.cuh"
#ifdef SUBCUBIC_EPILOGUE
#include "epilogue_selftest.cuh"
#endif  // SUBCUBIC_EPILOGUE

#ifdef SUBCUBIC_MAIN

#include <cmath>
#include <vector>

namespace {

struct Case {
  int64_t M, N, K, gap;
  double alpha, beta;
  bool integers, packed;
};

// Uniform in [-1, 1], or an integer of -1..1 for the tests in which every step is exact.
template <class T>
__global__ void fill(T* out, int64_t count, uint64_t seed, bool integers) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint64_t x = (seed + i) * UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  x ^= x >> 31;
  narrow(integers ? float(int(x % 3) - 1) : float(double(x >> 11) / double(1ull << 52) - 1.0), out[i]);
}

__global__ void reference(Case test, const Input* A, const Input* B, const Output* C, double* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= test.M * test.N) return;
  const int64_t row = i / test.N, column = i % test.N;
  double sum = 0;
  float a, b, old = 0;
  for (int64_t k = 0; k < test.K; ++k) {
    widen(kTransposedA ? A[k * (test.M + test.gap) + row] : A[row * (test.K + test.gap) + k], a);
    widen(kTransposedB ? B[column * (test.K + test.gap) + k] : B[k * (test.N + test.gap) + column], b);
    sum += static_cast<double>(a) * static_cast<double>(b);
  }
  if (test.beta != 0) widen(C[row * (test.N + test.gap) + column], old);
  out[i] = test.alpha * sum + test.beta * static_cast<double>(old);
}

__global__ void widened(const Output* from, int64_t count, double* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  float value;
  widen(from[i], value);
  to[i] = value;
}

unsigned grid_of(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

// Device memory that starts as NaN and is freed at the end of its scope.
template <class T>
struct Memory {
  T* data = nullptr;
  size_t bytes;
  explicit Memory(size_t count) : bytes(count * sizeof(T)) {
    if (cudaMalloc(reinterpret_cast<void**>(&data), bytes) == cudaSuccess) cudaMemset(data, 0xFF, bytes);
  }
  ~Memory() { cudaFree(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

std::vector<double> fetched(const Memory<double>& from) {
  std::vector<double> to(from.bytes / sizeof(double));
  cudaMemcpy(to.data(), from.data, from.bytes, cudaMemcpyDeviceToHost);
  return to;
}

bool complain(int status) {
  if (status) fprintf(stderr, "status %d: %s\n", status, SCHEME_error());
  return status != 0;
}

// Largest and relative Frobenius error, and whether only C was written.
struct Errors {
  double worst, relative;
  bool inside;
};

Errors compare(const Case& test, const std::vector<double>& before, const std::vector<double>& after,
               const std::vector<double>& exact) {
  double squared = 0, norm = 0;
  Errors errors = {0, 0, true};
  const int64_t ldc = test.N + test.gap;
  for (int64_t row = 0; row < test.M; ++row)
    for (int64_t column = 0; column < ldc; ++column) {
      const double value = after[row * ldc + column], old = before[row * ldc + column];
      if (column >= test.N) {
        errors.inside = errors.inside && (value == old || (value != value && old != old));
        continue;
      }
      const double right = exact[row * test.N + column], error = std::fabs(value - right);
      if (!(error <= errors.worst)) errors.worst = error;  // also if it is NaN
      squared += error * error;
      norm += right * right;
    }
  errors.relative = std::sqrt(squared / (norm > 0 ? norm : 1));
  return errors;
}

bool passes(void* handle, const Case& test) {
  const int64_t rows_a = kTransposedA ? test.K : test.M, rows_b = kTransposedB ? test.N : test.K;
  const int64_t lda = (kTransposedA ? test.M : test.K) + test.gap, ldb = (kTransposedB ? test.K : test.N) + test.gap;
  const int64_t ldc = test.N + test.gap, size = test.M * ldc;
  const size_t bytes = SCHEME_workspace(test.M, test.N, test.K);
  const size_t bytes_a = SCHEME_planes_a(test.M, test.K), bytes_b = SCHEME_planes_b(test.N, test.K);
  Memory<Input> A(rows_a * lda), B(rows_b * ldb);
  Memory<Output> C(size);
  Memory<double> expected(test.M * test.N), got(size);
  Memory<char> workspace(bytes), planes_a(bytes_a), planes_b(bytes_b);
  if (!A.data || !B.data || !C.data || !expected.data || !got.data || !workspace.data || !planes_a.data || !planes_b.data) {
    fprintf(stderr, "out of device memory\n");
    return false;
  }
  cudaMemset(workspace.data, 0, 4096);
  fill<<<grid_of(rows_a * lda), 256>>>(A.data, rows_a * lda, 1, test.integers);
  fill<<<grid_of(rows_b * ldb), 256>>>(B.data, rows_b * ldb, UINT64_C(1) << 40, test.integers);
  if (test.beta != 0) fill<<<grid_of(size), 256>>>(C.data, size, UINT64_C(1) << 41, test.integers);
  widened<<<grid_of(size), 256>>>(C.data, size, got.data);
  const std::vector<double> before = fetched(got);
  reference<<<grid_of(test.M * test.N), 256>>>(test, A.data, B.data, C.data, expected.data);
  if (test.packed) {
    if (complain(SCHEME_pack_a(handle, nullptr, test.M, test.K, A.data, lda, planes_a.data, bytes_a))) return false;
    if (complain(SCHEME_pack_b(handle, nullptr, test.N, test.K, B.data, ldb, planes_b.data, bytes_b))) return false;
  }
#ifdef SUBCUBIC_EPILOGUE
  TestOperands operands(test.M, test.N, test.gap, test.integers);
#endif  // SUBCUBIC_EPILOGUE
  if (complain(SCHEME_launch(handle, nullptr, test.M, test.N, test.K, test.alpha, A.data, lda, B.data, ldb, test.beta,
                             C.data, ldc, test.packed ? planes_a.data : nullptr, test.packed ? planes_b.data : nullptr,
#ifdef SUBCUBIC_EPILOGUE
                             workspace.data, bytes, operands.given())))
#else  // SUBCUBIC_EPILOGUE
                             workspace.data, bytes)))
#endif  // SUBCUBIC_EPILOGUE
    return false;
  widened<<<grid_of(size), 256>>>(C.data, size, got.data);
#ifdef SUBCUBIC_EPILOGUE
  const std::vector<double> after = fetched(got);
  std::vector<double> exact = fetched(expected);
  operands.finish(exact);
#else  // SUBCUBIC_EPILOGUE
  const std::vector<double> after = fetched(got), exact = fetched(expected);
#endif  // SUBCUBIC_EPILOGUE
  if (complain(checked(cudaDeviceSynchronize(), "the self-test"))) return false;
#ifdef SUBCUBIC_EPILOGUE
  Errors errors = compare(test, before, after, exact);
  errors.relative *= operands.shrunk;
#else  // SUBCUBIC_EPILOGUE
  const Errors errors = compare(test, before, after, exact);
#endif  // SUBCUBIC_EPILOGUE
  const bool good = errors.inside && (test.integers ? errors.worst == 0 : errors.relative <= kTolerance);
  printf("%5lld x %5lld x %5lld  gap %lld  alpha %-4g beta %-4g %-8s %-6s max error %.3e  relative %.3e  %s%s\n",
         (long long)test.M, (long long)test.N, (long long)test.K, (long long)test.gap, test.alpha, test.beta,
         test.integers ? "integers" : "uniform", test.packed ? "packed" : "", errors.worst, errors.relative,
         good ? "ok" : "WRONG", errors.inside ? "" : " (wrote outside C)");
  return good;
}

}  // namespace

int main() {
  void* handle;
  if (int status = SCHEME_open(&handle)) {
    fprintf(stderr, "%s\n", SCHEME_error());
    return status;
  }
  const int64_t m = kBlocksM * kTileM, n = kBlocksN * kTileN, k = kBlocksK * 64;
  const Case cases[] = {
      {m, n, k, 0, 1, 0, false, false}, {2 * m, n, k, 8, -0.5, 2, false, true},
      {m + 1, 2 * n - 1, k + 3, 0, 1, 0, false, false}, {67, 131, 259, 5, 2, -1, false, true},
      {100, 128, 64, 24, 1, 0, false, false},
      {1, 1, 1, 0, 1, 0, false, false}, {517, 389, 1031, 1, 1, 1, false, false},
      {1000, 1000, 1000, 0, 1, 0, false, false}, {96, 64, 32, 0, 1, 0, true, false},
      {37, 29, 23, 3, 2, 1, true, false}, {53, 71, 31, 8, -1, 0, true, true}, {m, n, 32, 0, 1, 0, true, false},
  };
  bool good = true;
  for (Case test : cases) {
    if (kGuarded) test.beta = 0;
    if (!test.integers || kExactIntegers) good = passes(handle, test) && good;
  }
#ifdef SUBCUBIC_LARGE  // several tiles for each block of the grid, which takes too long where a device is emulated
  const Case large[] = {{8 * m, 40 * n, 32 * k, 0, 1, 0, false, false}, {9 * m - 8, 3 * n, 8 * k + 8, 8, 1, 0, false, true}};
  for (const Case& test : large) good = passes(handle, test) && good;
#endif
  SCHEME_close(handle);
  printf("%s\n", good ? "PASS" : "FAIL");
  return good ? 0 : 1;
}

#endif  // SUBCUBIC_MAIN
