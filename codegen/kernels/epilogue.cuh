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

// What is rounded to 16 bits needs no more than the special function unit gives, and no subnormal numbers on the way.
constexpr bool kFast = sizeof(Extra) == 2;
template <class T>
constexpr bool kCoarser = sizeof(T) == 2;
#ifdef __CUDA_FP16_TYPES_EXIST__
template <>
[[maybe_unused]] constexpr bool kCoarser<__half> = false;
#endif
constexpr bool kCoarse = kCoarser<Extra>;  // BF16

[[maybe_unused]] __device__ __forceinline__ float fast_exp2(float x) {
#ifdef __CUDA_ARCH__
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
#else
  return exp2f(x);
#endif
}

[[maybe_unused]] __device__ __forceinline__ float fast_reciprocal(float x) {
#ifdef __CUDA_ARCH__
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
#else
  return 1.f / x;
#endif
}

// The maximum of x and 0, and NaN for NaN.
[[maybe_unused]] __device__ __forceinline__ Accumulator relu(Accumulator x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(Accumulator) == 4) {
    float least = static_cast<float>(x);
    asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(least));
    return least;
  }
#endif
  return x < 0 ? Accumulator(0) : x;
}

// The others are relu(x) - |x| w(|x|), where w falls from 1/2 to 0: so nothing cancels, and no infinity meets a zero, if
// only |x| is bounded there. Beyond the bound w is zero in every type. (With the special function unit there are shorter ways.)
template <int BOUND = 1000>
[[maybe_unused]] __device__ __forceinline__ Accumulator size_of(Accumulator x) {
  Accumulator size;
  if constexpr (sizeof(Accumulator) == 8)
    size = fabs(x);
  else
    size = fabsf(x);
  return size < Accumulator(BOUND) ? size : Accumulator(BOUND);
}

// x / (1 + exp2(z)), where z falls with x: minus infinity would meet a zero, so x is bounded below, where z is so large that
// nothing is left. Nothing cancels, and NaN stays NaN.
[[maybe_unused]] __device__ __forceinline__ float fast_share(float x, float z) { return x * fast_reciprocal(1.f + fast_exp2(z)); }
[[maybe_unused]] __device__ __forceinline__ float bounded_below(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, 0fC47A0000;" : "+f"(x));  // -1000
  return x;
#else
  return x < -1000.f ? -1000.f : x;
#endif
}

// w = 1 / (1 + exp(z)) for a z that is not negative.
[[maybe_unused]] __device__ __forceinline__ Accumulator logistic(Accumulator z) {
  Accumulator less;
  if constexpr (sizeof(Accumulator) == 8)
    less = exp(-z);
  else
    less = expf(-z);
  return less / (1 + less);
}

[[maybe_unused]] __device__ __forceinline__ Accumulator silu(Accumulator x) {
  if constexpr (kFast) {
    x = bounded_below(x);
    return fast_share(x, -1.44269504f * x);
  } else {
    const Accumulator size = size_of(x);
    return relu(x) - size * logistic(size);
  }
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), and (1 + tanh(z)) / 2 = 1 / (1 + exp(-2 z)).
[[maybe_unused]] __device__ __forceinline__ Accumulator gelu_tanh(Accumulator x) {
  if constexpr (kFast) {
    x = bounded_below(x);
    return fast_share(x, x * (-2.30220819f - 0.102943240f * x * x));  // with the factor -log2(e) of the exponential
  } else {
    const Accumulator size = size_of(x);
    const Accumulator z = size * (Accumulator(1.5957691216057308) + Accumulator(0.071354816272600248) * size * size);
    return relu(x) - size * logistic(z);
  }
}

// x times the normal distribution function: w(t) = erfc(t / sqrt(2)) / 2. The polynomials are log2(w) up to t = 6, with
// which w has an error of 2^-11.4 of it for BF16 and of 2^-14.4 for FP16; beyond that t w itself is below 6e-9, and off by
// less than 3e-12.
[[maybe_unused]] __device__ __forceinline__ Accumulator gelu(Accumulator x) {
  // The polynomial for FP16 grows again beyond 15; from 10 on there is nothing left of t w in FP16.
  const Accumulator t = size_of<kFast && !kCoarse ? 10 : 1000>(x);
  if constexpr (kFast) {
    float log_w;
    if constexpr (kCoarse) {
      log_w = -2.01685223e-04f * t + 4.46763216e-03f;
      log_w = log_w * t - 4.28329635e-02f;
      log_w = log_w * t - 4.72784895e-01f;
      log_w = log_w * t - 1.14440073f;
      log_w = log_w * t - 1.00053145f;
    } else {
      log_w = 2.29900461e-05f * t - 6.11100719e-04f;
      log_w = log_w * t + 7.19557804e-03f;
      log_w = log_w * t - 5.11854082e-02f;
      log_w = log_w * t - 4.61271752e-01f;
      log_w = log_w * t - 1.15017442f;
      log_w = log_w * t - 1.00006474f;
    }
    return relu(x) - t * fast_exp2(log_w);
  } else if constexpr (sizeof(Accumulator) == 8) {
    return relu(x) - t * (0.5 * erfc(t * 0.70710678118654752));
  } else {
    return relu(x) - t * (0.5f * erfcf(t * 0.70710678f));
  }
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
