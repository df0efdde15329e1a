// Storage types, packs of elements and their arithmetic. Everything is computed in Accumulator and rounded once
// when stored.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

template <class T>
__device__ __forceinline__ void widen(T from, Accumulator& to) {
  to = static_cast<Accumulator>(from);
}

template <class T>
__device__ __forceinline__ void narrow(Accumulator from, T& to) {
  to = static_cast<T>(from);  // rounds to nearest even for every storage type
}

// V neighbouring elements of one row, in registers.
template <int V>
struct Pack {
  Accumulator v[V];
};

template <int V>
__device__ __forceinline__ Pack<V> operator+(Pack<V> a, const Pack<V>& b) {
#pragma unroll
  for (int i = 0; i < V; ++i) a.v[i] += b.v[i];
  return a;
}

template <int V>
__device__ __forceinline__ Pack<V> operator-(Pack<V> a, const Pack<V>& b) {
#pragma unroll
  for (int i = 0; i < V; ++i) a.v[i] -= b.v[i];
  return a;
}

template <int V>
__device__ __forceinline__ Pack<V> operator*(Accumulator scale, Pack<V> a) {
#pragma unroll
  for (int i = 0; i < V; ++i) a.v[i] *= scale;
  return a;
}

template <int V>
__device__ __forceinline__ Pack<V> operator-(Pack<V> a) {
#pragma unroll
  for (int i = 0; i < V; ++i) a.v[i] = -a.v[i];
  return a;
}

// The widest machine word, up to 16 bytes, that divides a pack's bytes.
template <int BYTES>
struct Word {
  using type = typename Word<BYTES % 16 == 0 ? 16 : BYTES % 8 == 0 ? 8 : BYTES % 4 == 0 ? 4 : 2>::type;
};
template <>
struct Word<16> {
  using type = uint4;
};
template <>
struct Word<8> {
  using type = uint2;
};
template <>
struct Word<4> {
  using type = unsigned int;
};
template <>
struct Word<2> {
  using type = unsigned short;
};

// Aligned loads and stores of a whole pack. Loads are marked as read once, so that they do not push out of L2 what
// the products need next.
template <int V, class T>
__device__ __forceinline__ Pack<V> load(const T* from) {
  using W = typename Word<V * sizeof(T)>::type;
  constexpr int words = V * sizeof(T) / sizeof(W);
  union {
    W word[words];
    T element[V];
  };
#pragma unroll
  for (int i = 0; i < words; ++i) word[i] = __ldcs(reinterpret_cast<const W*>(from) + i);
  Pack<V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) widen(element[i], pack.v[i]);
  return pack;
}

template <int V, class T>
__device__ __forceinline__ void store(T* to, const Pack<V>& pack) {
  using W = typename Word<V * sizeof(T)>::type;
  constexpr int words = V * sizeof(T) / sizeof(W);
  union {
    W word[words];
    T element[V];
  };
#pragma unroll
  for (int i = 0; i < V; ++i) narrow(pack.v[i], element[i]);
#pragma unroll
  for (int i = 0; i < words; ++i) reinterpret_cast<W*>(to)[i] = word[i];
}

// The same at the edges of a matrix, or where rows are not aligned: only the first `valid` elements exist, the rest
// read as zero and are not written.
template <int V, class T>
__device__ __forceinline__ Pack<V> load_edge(const T* from, int64_t valid, bool aligned) {
  if (aligned && valid >= V) return load<V>(from);
  Pack<V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) {
    pack.v[i] = Accumulator(0);
    if (i < valid) widen(from[i], pack.v[i]);
  }
  return pack;
}

template <int V, class T>
__device__ __forceinline__ void store_edge(T* to, const Pack<V>& pack, int64_t valid, bool aligned) {
  if (aligned && valid >= V) return store<V>(to, pack);
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (i < valid) narrow(pack.v[i], to[i]);
}

}  // namespace
