// Pending tiles in FP16: half the bytes of FP32 ones, and what a product costs beside its multiplications is nearly all
// in these bytes. A power of two for the 16 rows of each warp keeps the largest sum in range, so 11 bits remain of every
// sum that is not below the 2^-29th part of it.
#include "jobs.cuh"

namespace {

[[maybe_unused]] __device__ __forceinline__ float power(int exponent) {
  return __uint_as_float(static_cast<u32>(exponent + 127) << 23);
}

// An exponent of two above all magnitudes of a warp, times that of a factor. What is not finite stays so at any scale.
template <int N>
__device__ __forceinline__ int bound_of(const float (&sums)[N], float factor) {
  constexpr u32 infinity = 0x7F800000;
  float most = 0.f;
#pragma unroll
  for (int i = 0; i < N; ++i) most = fmaxf(most, fabsf(sums[i]));
  u32 bits = __reduce_max_sync(~0u, __float_as_uint(most));
  if (bits >= infinity) {
    most = 0.f;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float size = fabsf(sums[i]);
      if (__float_as_uint(size) < infinity) most = fmaxf(most, size);
    }
    bits = __reduce_max_sync(~0u, __float_as_uint(most));
  }
  return static_cast<int>(bits >> 23) + static_cast<int>(__float_as_uint(fabsf(factor)) >> 23) - 2 * 127 + 2;
}

[[maybe_unused]] __device__ __forceinline__ void widened(float both, float& low, float& high) {
  asm volatile("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}"
      : "=f"(low), "=f"(high) : "r"(__float_as_uint(both)));
}

// Two numbers in FP16 times a power of two: exact but for what is then below 2^-14, beside sums of 2^14.
[[maybe_unused]] __device__ __forceinline__ float scaled(float both, float scale) {
  u32 product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(__float_as_uint(both)), "r"(__float_as_uint(scale)));
  return __uint_as_float(product);
}

// Sums are stored below 2^kTop. Within the others every power of two that is needed is a normal number.
[[maybe_unused]] constexpr int kTop = 15, kLeastBound = -100, kMostBound = 140, kLeastPower = -125;

// Makes sums of two stored numbers: times a power of two, in FP32. A part of the power is applied in FP16, so that the
// compiler does not widen a whole window before the power is known, for which there are no registers.
struct [[maybe_unused]] Widener {
  float first, rest;

  __device__ __forceinline__ explicit Widener(int exponent)
      : first(packed_half(power(-(exponent & 1)), power(-(exponent & 1)))), rest(power(exponent + (exponent & 1))) {}
  [[maybe_unused]] __device__ __forceinline__ void operator()(float both, float& low, float& high) const {
    widened(scaled(both, first), low, high);
    low *= rest;
    high *= rest;
  }
};

// The scale of each slot: lane i of a warp keeps the bound of what it has put into slot i. That of a tile which outlives
// the warp's work on it lies beside the tile.
template <bool USED>
struct Bounds {
  int own = 0;

  __device__ __forceinline__ int of(int slot) const { return __shfl_sync(~0u, own, slot); }
  __device__ __forceinline__ void set(int slot, int bound) {
    if (static_cast<int>(threadIdx.x & 31) == slot) own = bound;
  }
};

// `tile`: a group's part; `thread`: of the group.
template <class T>
__device__ __forceinline__ void leave_bound(char* tile, int thread, int bound) {
  if (thread % 32 == 0) __stcg(reinterpret_cast<int*>(tile + T::sum_bytes) + thread / 32, bound);
}
template <class T>
__device__ __forceinline__ int bound_left(const char* tile, int thread) {
  return __ldcg(reinterpret_cast<const int*>(tile + T::sum_bytes) + thread / 32);
}

}  // namespace
