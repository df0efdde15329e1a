// What is done to each element of C before it is stored. `Steps`, which is emitted, says what that is; `Extra` is the type
// of its operands, which is that of C.
#include "host.cuh"
#include "types.cuh"

namespace {

constexpr int kExtraPlaces = Steps::operands ? Steps::operands : 1;  // C++ has no arrays of no elements

// Operands of one launch, passed by value: vectors with one element for each column of C, and matrices like C.
struct Extras {
  const void* data[kExtraPlaces];
  int64_t ld[kExtraPlaces];  // in elements; of matrices
  Accumulator scale;
  int alignment;  // bytes that all rows of all operands are aligned to, at most 16
};

// ---- activation functions; NaN stays NaN, and infinities have the limits of a function

// Beyond it the weight of x is zero in every type, and an infinite x would make that NaN.
constexpr Accumulator kFar = -1000;

[[maybe_unused]] __device__ __forceinline__ Accumulator bounded(Accumulator x) { return x < kFar ? kFar : x; }

// exp(-x) for an x that is not negative. What is rounded to 16 bits needs no more than the special function unit gives.
[[maybe_unused]] __device__ __forceinline__ Accumulator decayed(Accumulator x) {
  if constexpr (sizeof(Extra) == 2)
    return __expf(-x);
  else if constexpr (sizeof(Accumulator) == 8)
    return exp(-x);
  else
    return expf(-x);
}

// x times the logistic function of z, which has the sign of x. The divisor is between 1 and 2, where fast divisions are
// exact to the last bit but one.
[[maybe_unused]] __device__ __forceinline__ Accumulator gated(Accumulator x, Accumulator z) {
  const Accumulator less = decayed(z < 0 ? -z : z), part = z < 0 ? x * less : x;
  if constexpr (sizeof(Extra) == 2)
    return __fdividef(part, 1 + less);
  else
    return part / (1 + less);
}

// Not the maximum of x and 0, which would be 0 for NaN.
[[maybe_unused]] __device__ __forceinline__ Accumulator relu(Accumulator x) { return x < 0 ? Accumulator(0) : x; }

[[maybe_unused]] __device__ __forceinline__ Accumulator gelu(Accumulator x) {
  x = bounded(x);
  const Accumulator z = x * Accumulator(0.70710678118654752);
  if constexpr (sizeof(Accumulator) == 8)
    return x * Accumulator(0.5) * erfc(-z);
  else
    return x * Accumulator(0.5) * (1 + erff(z));
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), and (1 + tanh(z)) / 2 is the logistic function of 2 z.
[[maybe_unused]] __device__ __forceinline__ Accumulator gelu_tanh(Accumulator x) {
  x = bounded(x);
  return gated(x, x * (Accumulator(1.5957691216057308) + Accumulator(0.071354816272600248) * x * x));
}

[[maybe_unused]] __device__ __forceinline__ Accumulator silu(Accumulator x) {
  x = bounded(x);
  return gated(x, x);
}

// ---- operands

// Those of V neighbours of a row, as they lie in memory: a pair of 16-bit numbers takes one register.
template <int V>
struct Fetched {
  Raw<V, Extra> of[kExtraPlaces];
};

[[maybe_unused]] __device__ __forceinline__ const Extra* extra_at(const Extras& extras, int operand, int64_t row, int64_t column) {
  const bool matrix = Steps::matrices >> operand & 1;
  return static_cast<const Extra*>(extras.data[operand]) + (matrix ? row * extras.ld[operand] : 0) + column;
}

// Of elements that exist, aligned as a whole.
template <int V>
__device__ __forceinline__ Fetched<V> fetched(const Extras& extras, int64_t row, int64_t column) {
  using Unit = typename Raw<V, Extra>::Unit;
  Fetched<V> with;
#pragma unroll
  for (int i = 0; i < Steps::operands; ++i) {
    const Unit* from = reinterpret_cast<const Unit*>(extra_at(extras, i, row, column));
#pragma unroll
    for (int j = 0; j < Raw<V, Extra>::words; ++j) with.of[i].word[j] = __ldg(from + j);
  }
  return with;
}

// Of the first `valid` elements, at any alignment; the others are zero.
template <int V>
__device__ __forceinline__ Fetched<V> fetched_edge(const Extras& extras, int64_t row, int64_t column, int64_t valid) {
  if (valid >= V && extras.alignment >= static_cast<int>(sizeof(typename Raw<V, Extra>::Unit)))
    return fetched<V>(extras, row, column);
  Fetched<V> with;
#pragma unroll
  for (int i = 0; i < Steps::operands; ++i) {
    const Extra* from = extra_at(extras, i, row, column);
#pragma unroll
    for (int j = 0; j < Raw<V, Extra>::words; ++j) with.of[i].word[j] = {};
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < valid) with.of[i].element[e] = from[e];
  }
  return with;
}

// ---- the steps

// Of neighbour number e.
template <int V>
__device__ __forceinline__ Accumulator finished(Accumulator x, const Extras& extras, const Fetched<V>& with, int e) {
  return Steps::apply(x, extras.scale, [&](int operand) {
    Accumulator value;
    widen(with.of[operand].element[e], value);
    return value;
  });
}

template <int V>
__device__ __forceinline__ Pack<V> finished(Pack<V> x, const Extras& extras, const Fetched<V>& with) {
#pragma unroll
  for (int e = 0; e < V; ++e) x.v[e] = finished(x.v[e], extras, with, e);
  return x;
}

// Of an element of C at a place.
[[maybe_unused]] __device__ __forceinline__ Accumulator finished(Accumulator x, const Extras& extras, int64_t row, int64_t column) {
  return finished(x, extras, fetched<1>(extras, row, column), 0);
}

#ifndef __CUDACC_RTC__  // host code
// What a launch was given, checked.
Status take_extras(const SCHEME_extras* given, int64_t N, Extras& extras) {
  extras = {};
  extras.alignment = 16;
  if (!Steps::given) return kDone;
  if (!given) return report(kMisuse, "the epilogue needs its operands, so extras must not be null");
  Steps::take(*given, extras);
  for (int i = 0; i < Steps::operands; ++i) {
    if (!extras.data[i]) return report(kMisuse, "%s must not be null", Steps::name(i));
    const bool matrix = Steps::matrices >> i & 1;
    if (matrix && extras.ld[i] < N)
      return report(kMisuse, "the leading dimension of %s must be at least %lld, not %lld", Steps::name(i), (long long)N,
                    (long long)extras.ld[i]);
    const uintptr_t bits = reinterpret_cast<uintptr_t>(extras.data[i]) | extras.ld[i] * sizeof(Extra);
    while (bits % extras.alignment) extras.alignment /= 2;
    if (extras.alignment < static_cast<int>(sizeof(Extra)))
      return report(kMisuse, "%s must start at a multiple of %d bytes", Steps::name(i), int(sizeof(Extra)));
  }
  return kDone;
}
#endif

}  // namespace
