// A program that tests the launch above against a naive FP64 product: poisoned outputs and workspace, odd sizes,
// padded rows, alpha and beta. Built only with -DSUBCUBIC_MAIN.
#include "launch.cuh"
#ifdef SUBCUBIC_EPILOGUE
#include "epilogue_selftest.cuh"
#endif  // SUBCUBIC_EPILOGUE

#ifdef SUBCUBIC_MAIN

#include <cmath>
#include <vector>

namespace {

// Uniform in [-1, 1], or an integer of -2..2 for the tests in which every step is exact.
__global__ void fill(Input* out, int64_t count, uint64_t seed, bool integers) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint64_t x = (seed + i) * UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  x ^= x >> 31;
  narrow(integers ? Accumulator(int(x % 5) - 2) : Accumulator(double(x >> 11) / double(1ull << 52) - 1.0), out[i]);
}

__global__ void reference(int64_t M, int64_t N, int64_t K, double alpha, const Input* A, int64_t lda, const Input* B,
                          int64_t ldb, double beta, const Input* C, int64_t ldc, double* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= M * N) return;
  const int64_t row = i / N, column = i % N;
  double sum = 0;
  Accumulator a, b;
  for (int64_t k = 0; k < K; ++k) {
    widen(A[row * lda + k], a);
    widen(B[k * ldb + column], b);
    sum += static_cast<double>(a) * static_cast<double>(b);
  }
  Accumulator old = 0;
  if (beta != 0) widen(C[row * ldc + column], old);
  out[i] = alpha * sum + beta * static_cast<double>(old);
}

struct Case {
  int64_t M, N, K, gap;
  double alpha, beta;
  bool integers;
};

__global__ void widened(const Input* from, int64_t count, double* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  Accumulator value;
  widen(from[i], value);
  to[i] = value;
}

unsigned blocks(int64_t count) { return static_cast<unsigned>((count + 255) / 256); }

// Runs one case; device memory is left to the end of the process, which is near.
bool passes(void* handle, const Case& test) {
  const int64_t lda = test.K + test.gap, ldb = test.N + test.gap, ldc = test.N + test.gap, size = test.M * ldc;
  Input *A, *B, *C;
  double *expected, *got;
  void* workspace;
  const size_t bytes = SCHEME_workspace(test.M, test.N, test.K);
  if (cudaMalloc(&A, test.M * lda * sizeof(Input)) || cudaMalloc(&B, test.K * ldb * sizeof(Input)) ||
      cudaMalloc(&C, size * sizeof(Input)) || cudaMalloc(&expected, test.M * test.N * sizeof(double)) ||
      cudaMalloc(&got, size * sizeof(double)) || cudaMalloc(&workspace, bytes)) {
    fprintf(stderr, "out of device memory\n");
    return false;
  }
  fill<<<blocks(test.M * lda), 256>>>(A, test.M * lda, 1, test.integers);
  fill<<<blocks(test.K * ldb), 256>>>(B, test.K * ldb, UINT64_C(1) << 40, test.integers);
  cudaMemset(workspace, 0xFF, bytes);
  cudaMemset(C, 0xFF, size * sizeof(Input));
  if (test.beta != 0) fill<<<blocks(size), 256>>>(C, size, UINT64_C(1) << 41, test.integers);
  std::vector<double> before(size), after(size), exact(test.M * test.N);
  widened<<<blocks(size), 256>>>(C, size, got);
  cudaMemcpy(before.data(), got, size * sizeof(double), cudaMemcpyDeviceToHost);
  reference<<<blocks(test.M * test.N), 256>>>(test.M, test.N, test.K, test.alpha, A, lda, B, ldb, test.beta, C, ldc,
                                              expected);
#ifdef SUBCUBIC_EPILOGUE
  TestOperands operands(test.M, test.N, test.gap, test.integers);
#endif  // SUBCUBIC_EPILOGUE
  const int status = SCHEME_launch(handle, nullptr, test.M, test.N, test.K, test.alpha, A, lda, B, ldb, test.beta, C,
#ifdef SUBCUBIC_EPILOGUE
                                   ldc, workspace, bytes, operands.given());
#else  // SUBCUBIC_EPILOGUE
                                   ldc, workspace, bytes);
#endif  // SUBCUBIC_EPILOGUE
  if (status) {
    fprintf(stderr, "launch returned %d: %s\n", status, SCHEME_error());
    return false;
  }
  widened<<<blocks(size), 256>>>(C, size, got);
  cudaMemcpy(after.data(), got, size * sizeof(double), cudaMemcpyDeviceToHost);
  cudaMemcpy(exact.data(), expected, exact.size() * sizeof(double), cudaMemcpyDeviceToHost);
  if (Status broken = checked(cudaDeviceSynchronize(), "the self-test")) {
    fprintf(stderr, "%s\n", SCHEME_error());
    return broken == kDone;
  }
#ifdef SUBCUBIC_EPILOGUE
  operands.finish(exact);
#endif  // SUBCUBIC_EPILOGUE
  double squared = 0, norm = 0, worst = 0;
  bool gaps = true;
  for (int64_t row = 0; row < test.M; ++row)
    for (int64_t column = 0; column < ldc; ++column) {
      const double value = after[row * ldc + column], old = before[row * ldc + column];
      if (column >= test.N) {
        gaps = gaps && (value == old || (value != value && old != old));
        continue;
      }
      const double right = exact[row * test.N + column], error = std::fabs(value - right);
      if (!(error <= worst)) worst = error;
      squared += error * error;
      norm += right * right;
    }
#ifdef SUBCUBIC_EPILOGUE
  const double relative = std::sqrt(squared / (norm > 0 ? norm : 1)) * operands.shrunk;
#else  // SUBCUBIC_EPILOGUE
  const double relative = std::sqrt(squared / (norm > 0 ? norm : 1));
#endif  // SUBCUBIC_EPILOGUE
  const bool good = gaps && (test.integers ? worst == 0 : relative <= kTolerance);
  printf("%5lld x %5lld x %5lld  gap %lld  alpha %-4g beta %-4g %-8s max error %.3e  relative %.3e  %s%s\n",
         (long long)test.M, (long long)test.N, (long long)test.K, (long long)test.gap, test.alpha, test.beta,
         test.integers ? "integers" : "uniform", worst, relative, good ? "ok" : "WRONG",
         gaps ? "" : " (wrote outside C)");
  return good;
}

}  // namespace

int main() {
  void* handle;
  const int status = SCHEME_open(&handle, nullptr, nullptr);
  if (status) {
    fprintf(stderr, "%s\n", SCHEME_error());
    return status;
  }
  const Case cases[] = {
      {kBlocksM * 24, kBlocksN * 40, kBlocksK * 16, 0, 1, 0, false}, {kBlocksM * 24, kBlocksN * 40, kBlocksK * 16, 8, -0.5, 2, false},
      {101, 67, 83, 0, 1, 0, false}, {67, 131, 259, 5, 2, -1, false}, {1, 1, 1, 0, 1, 0, false},
      {517, 389, 1031, 0, 1, 1, false}, {1000, 1000, 1000, 0, 1, 0, false},
      {96, 64, 32, 0, 1, 0, true}, {37, 29, 23, 3, 2, 1, true}, {53, 71, 31, 8, -1, 0, true},
  };
  bool good = true;
  for (const Case& test : cases)
    if (!test.integers || kExactIntegers) good = passes(handle, test) && good;
  SCHEME_close(handle);
  printf("%s\n", good ? "PASS" : "FAIL");
  return good ? 0 : 1;
}

#endif  // SUBCUBIC_MAIN
