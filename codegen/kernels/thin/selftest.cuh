// A program that tests the launch above against a naive FP64 product: poisoned outputs, odd sizes, padded rows, groups,
// alpha and beta, every tile and split that the device has. Built only with -DSUBCUBIC_MAIN.
#ifdef SUBCUBIC_EPILOGUE
#include "epilogue_selftest.cuh"
#endif  // SUBCUBIC_EPILOGUE
#include "host.cuh"

#ifdef SUBCUBIC_MAIN

#include <cmath>
#include <vector>

namespace {

struct Case {
  int64_t groups, M, N, K, gap;
  double alpha, beta;
  bool offsets;
};

// Uniform in [-1, 1].
template <class T>
__global__ void fill(T* out, int64_t count, uint64_t seed) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  uint64_t x = (seed + i) * UINT64_C(0x9E3779B97F4A7C15);
  x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
  narrow(float(double((x ^ (x >> 31)) >> 11) / double(1ull << 52) - 1.0), out[i]);
}

// The element of C in a row of all groups and a column.
__global__ void reference(SCHEME_product p, const Output* C, double* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= p.groups * p.M * p.N) return;
  const int64_t row = i / p.N, column = i % p.N;
  int64_t group = row / p.M;
  if (p.offsets)
    for (group = 0; row >= p.offsets[group + 1]; ++group) {
    }
  const Input* A = static_cast<const Input*>(p.A) + row * p.lda;
  const Input* B = static_cast<const Input*>(p.B) + group * p.stride_b;
  double sum = 0;
  for (int64_t k = 0; k < p.K; ++k) {
    float a, b;
    widen(A[k], a);
    widen(kTransposedB ? B[column * p.ldb + k] : B[k * p.ldb + column], b);
    sum += static_cast<double>(a) * static_cast<double>(b);
  }
  float old = 0;
  if (p.beta != 0) widen(C[row * p.ldc + column], old);
  out[i] = p.alpha * sum + p.beta * static_cast<double>(old);
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

// Whether C is right and nothing beside it was written. `shrunk`: by which steps made the norm of C smaller, but not that
// of the errors.
bool right(const Case& test, const std::vector<double>& after, const std::vector<double>& exact, double shrunk,
           double& relative) {
  const int64_t ldc = test.N + test.gap;
  double squared = 0, norm = 0;
  for (int64_t row = 0; row < test.groups * test.M; ++row)
    for (int64_t column = 0; column < ldc; ++column) {
      const double value = after[row * ldc + column];
      if (column >= test.N) {
        if (value == value) return false;
        continue;
      }
      const double wanted = exact[row * test.N + column];
      squared += (value - wanted) * (value - wanted);
      norm += wanted * wanted;
    }
  relative = shrunk * std::sqrt(squared / (norm > 0 ? norm : 1));
  return relative <= kTolerance;  // false if it is NaN
}

bool passes(void* handle, const Case& test) {
  const int64_t rows = test.groups * test.M, lda = test.K + test.gap, ldc = test.N + test.gap;
  const int64_t lines = kTransposedB ? test.N : test.K, ldb = (kTransposedB ? test.K : test.N) + test.gap;
  Memory<Input> A(rows * lda), B(test.groups * lines * ldb);
  Memory<Output> C(rows * ldc);
  Memory<double> expected(rows * test.N), got(rows * ldc);
  Memory<int32_t> offsets(test.groups + 1);
  if (!A.data || !B.data || !C.data || !expected.data || !got.data || !offsets.data) {
    fprintf(stderr, "out of device memory\n");
    return false;
  }
  // The first group has all rows but those of the others, which have one each; M says the most that are usual.
  std::vector<int32_t> starts(test.groups + 1, 0);
  for (int64_t i = 1; i <= test.groups; ++i) starts[i] = static_cast<int32_t>(rows - test.groups + i);
  cudaMemcpy(offsets.data, starts.data(), offsets.bytes, cudaMemcpyHostToDevice);
  fill<<<grid_of(rows * lda), 256>>>(A.data, rows * lda, 1);
  fill<<<grid_of(test.groups * lines * ldb), 256>>>(B.data, test.groups * lines * ldb, UINT64_C(1) << 40);
  SCHEME_product product = {test.groups, test.M, test.N, test.K, test.alpha, test.beta,
                            A.data, lda, test.M * lda, B.data, ldb, lines * ldb, C.data, ldc, test.M * ldc,
                            test.offsets ? offsets.data : nullptr, -1, 0};
#ifdef SUBCUBIC_EPILOGUE
  TestOperands operands(rows, test.N, test.gap, false);
#endif  // SUBCUBIC_EPILOGUE
  bool good = true;
  double worst = 0;
  for (int tile = -1; tile < SCHEME_tiles(); ++tile)
    for (int split = tile < 0 ? 0 : 1; split <= SCHEME_most_split(handle); split = split ? 2 * split : 99) {
      const Handle& device = *static_cast<Handle*>(handle);
      if (tile >= 0 && (!has(device, product, kCompiled[tile]) || split > most_split(device, kCompiled[tile]))) continue;
      cudaMemset(C.data, 0xFF, C.bytes);
      if (test.beta != 0)
        for (int64_t row = 0; row < rows; ++row)
          fill<<<grid_of(test.N), 256>>>(C.data + row * ldc, test.N, (UINT64_C(1) << 41) + row * ldc);
      reference<<<grid_of(rows * test.N), 256>>>(product, C.data, expected.data);
      product.tile = tile, product.split = split;
#ifdef SUBCUBIC_EPILOGUE
      if (int status = SCHEME_launch(handle, nullptr, &product, operands.given())) {
#else  // SUBCUBIC_EPILOGUE
      if (int status = SCHEME_launch(handle, nullptr, &product)) {
#endif  // SUBCUBIC_EPILOGUE
        fprintf(stderr, "status %d: %s\n", status, SCHEME_error());
        return false;
      }
      widened<<<grid_of(rows * ldc), 256>>>(C.data, rows * ldc, got.data);
      const std::vector<double> after = fetched(got);
      std::vector<double> exact = fetched(expected);
      double relative = 0, shrunk = 1;
#ifdef SUBCUBIC_EPILOGUE
      operands.finish(exact);
      shrunk = operands.shrunk;
#endif  // SUBCUBIC_EPILOGUE
      const bool fine = !checked(cudaDeviceSynchronize(), "the self-test") && right(test, after, exact, shrunk, relative);
      if (!fine) fprintf(stderr, "tile %d, split %d: relative error %.3e\n", tile, split, relative);
      good = good && fine;
      worst = relative > worst ? relative : worst;
    }
  printf("%3lld x %3lld x %6lld x %6lld  gap %lld  alpha %-4g beta %-4g %-7s relative %.3e  %s\n", (long long)test.groups,
         (long long)test.M, (long long)test.N, (long long)test.K, (long long)test.gap, test.alpha, test.beta,
         test.offsets ? "offsets" : "", worst, good ? "ok" : "WRONG");
  return good;
}

}  // namespace

int main() {
  void* handle;
  if (int status = SCHEME_open(&handle)) {
    fprintf(stderr, "%s\n", SCHEME_error());
    return status;
  }
  const Case cases[] = {
      {1, 1, 128, 4096, 0, 1, 0, false}, {1, 8, 512, 1024, 8, -0.5, 2, false}, {1, 16, 256, 520, 0, 1, 0, false},
      {1, 1, 1, 1, 0, 1, 0, false},      {1, 3, 77, 131, 1, 2, -1, false},     {5, 7, 72, 264, 8, 1, 0, false},
      {3, 40, 64, 128, 0, 1, 1, false},  {6, 9, 136, 200, 0, 1, 0, true},      {4, 2, 33, 19, 3, 1, 0, true},
      {3, 5, 4608, 136, 0, 1, 0, false},  // more tiles of columns than multiprocessors
  };
  bool good = true;
  for (const Case& test : cases) good = passes(handle, test) && good;
  SCHEME_close(handle);
  printf("%s\n", good ? "PASS" : "FAIL");
  return good ? 0 : 1;
}

#endif  // SUBCUBIC_MAIN
