// What the self-test hands to an epilogue, and what the steps make of its reference, in double. Built only with
// -DSUBCUBIC_MAIN.
#include "epilogue.cuh"

#ifdef SUBCUBIC_MAIN

#include <cmath>
#include <cstring>
#include <vector>

namespace {

// The operands of one case, uniform in [-1, 1] or integers of -1..1, with NaN between their rows.
struct TestOperands {
  int64_t M, N, ld;
  double scale;
  std::vector<double> values[kExtraPlaces];
  void* data[kExtraPlaces] = {};
  double shrunk = 1;  // by which the steps made the norm of the reference smaller, which its errors need not become

  TestOperands(int64_t M, int64_t N, int64_t gap, bool integers) : M(M), N(N), ld(N + gap), scale(integers ? 2 : 0.75) {
    uint64_t x = UINT64_C(0x243F6A8885A308D3);
    for (int i = 0; i < Steps::operands; ++i) {
      const int64_t rows = Steps::matrices >> i & 1 ? M : 1;
      std::vector<Extra> stored(rows * ld);
      values[i].resize(rows * ld);
      for (int64_t j = 0; j < rows * ld; ++j) {
        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const double value = integers ? double(x >> 33) : double(x >> 11) / double(1ull << 52) - 1.0;
        const double inside = integers ? std::fmod(value, 3.0) - 1.0 : value;
        stored[j] = static_cast<Extra>(static_cast<Accumulator>(j % ld < N ? inside : std::nan("")));
        values[i][j] = static_cast<Accumulator>(stored[j]);
      }
      if (cudaMalloc(&data[i], stored.size() * sizeof(Extra)) == cudaSuccess)
        cudaMemcpy(data[i], stored.data(), stored.size() * sizeof(Extra), cudaMemcpyHostToDevice);
    }
  }
  ~TestOperands() {
    for (void* each : data) cudaFree(each);
  }
  TestOperands(const TestOperands&) = delete;
  TestOperands& operator=(const TestOperands&) = delete;

  const SCHEME_extras* given() const { return given_extras(data, ld, scale); }

  double finished_exactly(double x, int64_t row, int64_t column) const {
    int operand = 0;
    const auto next = [&] {
      const int i = operand++;
      return values[i][(Steps::matrices >> i & 1 ? row * ld : 0) + column];
    };
    for (const char* step : kSteps) {
      if (!strcmp(step, "bias") || !strcmp(step, "column_shift") || !strcmp(step, "residual")) x += next();
      if (!strcmp(step, "column_scale")) x *= next();
      if (!strcmp(step, "scale")) x *= scale;
      if (!strcmp(step, "relu")) x = x < 0 ? 0 : x;
      if (!strcmp(step, "gelu")) x *= 0.5 * std::erfc(-x / std::sqrt(2.0));
      if (!strcmp(step, "gelu_tanh")) x *= 0.5 * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
      if (!strcmp(step, "silu")) x /= 1 + std::exp(-x);
    }
    return x;
  }

  // The steps on a dense reference.
  void finish(std::vector<double>& exact) {
    double before = 0, after = 0;
    for (int64_t i = 0; i < M * N; ++i) {
      before += exact[i] * exact[i];
      exact[i] = finished_exactly(exact[i], i / N, i % N);
      after += exact[i] * exact[i];
    }
    const double ratio = std::sqrt((after > 0 ? after : 1) / (before > 0 ? before : 1));
    shrunk = ratio < 1 ? ratio : 1;
  }
};

}  // namespace

#endif  // SUBCUBIC_MAIN
