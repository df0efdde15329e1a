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

// One store instruction: the compiler may tear a plain assignment of a wide word into four.
template <class W>
__device__ __forceinline__ void store_word(W* to, const W& word) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(W) == 16) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(word.x), "r"(word.y), "r"(word.z),
                 "r"(word.w)
                 : "memory");
    return;
  } else if constexpr (sizeof(W) == 8) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(word.x), "r"(word.y) : "memory");
    return;
  }
#endif
  *to = word;
}

// V neighbouring elements as they lie in memory.
template <int V, class T>
union Raw {
  using Unit = typename Word<V * sizeof(T)>::type;
  static constexpr int words = V * sizeof(T) / sizeof(Unit);
  Unit word[words];
  T element[V];
};

template <int V, class T>
__device__ __forceinline__ Pack<V> widened(const Raw<V, T>& raw) {
  Pack<V> pack;
#pragma unroll
  for (int i = 0; i < V; ++i) widen(raw.element[i], pack.v[i]);
  return pack;
}

// Aligned loads and stores of a whole pack. Loads are marked as read once, so that they do not push out of L2 what
// the products need next.
template <int V, class T>
__device__ __forceinline__ Raw<V, T> load_raw(const T* from) {
  using Unit = typename Raw<V, T>::Unit;
  Raw<V, T> raw;
#pragma unroll
  for (int i = 0; i < Raw<V, T>::words; ++i) raw.word[i] = __ldcs(reinterpret_cast<const Unit*>(from) + i);
  return raw;
}

template <int V, class T>
__device__ __forceinline__ Pack<V> load(const T* from) {
  return widened(load_raw<V>(from));
}

template <int V, class T>
__device__ __forceinline__ void store_raw(T* to, const Raw<V, T>& raw) {
  using Unit = typename Raw<V, T>::Unit;
#pragma unroll
  for (int i = 0; i < Raw<V, T>::words; ++i) store_word(reinterpret_cast<Unit*>(to) + i, raw.word[i]);
}

template <int V, class T>
__device__ __forceinline__ void store(T* to, const Pack<V>& pack) {
  Raw<V, T> raw;
#pragma unroll
  for (int i = 0; i < V; ++i) narrow(pack.v[i], raw.element[i]);
  store_raw<V>(to, raw);
}

// The same at the edges of a matrix, or where rows are not aligned: only the first `valid` elements exist, the rest
// read as zero and are not written.
template <int V, class T>
__device__ __forceinline__ Raw<V, T> load_raw_edge(const T* from, int64_t valid, bool aligned) {
  if (aligned && valid >= V) return load_raw<V>(from);
  Raw<V, T> raw;
#pragma unroll
  for (int i = 0; i < Raw<V, T>::words; ++i) raw.word[i] = {};  // zero in every type
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (i < valid) raw.element[i] = from[i];
  return raw;
}

template <int V, class T>
__device__ __forceinline__ Pack<V> load_edge(const T* from, int64_t valid, bool aligned) {
  return widened(load_raw_edge<V>(from, valid, aligned));
}

template <int V, class T>
__device__ __forceinline__ void store_edge(T* to, const Pack<V>& pack, int64_t valid, bool aligned) {
  if (aligned && valid >= V) return store<V>(to, pack);
#pragma unroll
  for (int i = 0; i < V; ++i)
    if (i < valid) narrow(pack.v[i], to[i]);
}

struct Place {
  int64_t row, column;
};

// Row and first column of a thread's pack inside a block; 64-bit division only where 32 bits do not suffice.
__device__ __forceinline__ Place place(uint64_t item, uint64_t packs, uint64_t total, int width) {
  const uint64_t row = total >> 32 ? item / packs : static_cast<uint32_t>(item) / static_cast<uint32_t>(packs);
  return {static_cast<int64_t>(row), static_cast<int64_t>(item - row * packs) * width};
}

}  // namespace
