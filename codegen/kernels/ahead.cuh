// Packs of blocks that come into shared memory by asynchronous copies. The pass over a matrix is as fast as there are
// loads under way; where a thread needs so many blocks that their registers leave room for few threads, they wait there.
// Each thread reads only what it has fetched itself, so no barrier is needed.
#include "types.cuh"

namespace {

// One pack, or zeros where it does not exist; a single element of 16 bits comes at once.
template <int V, class T>
__device__ __forceinline__ void fetch(unsigned char* to, const T* from, bool exists) {
  using Unit = typename Raw<V, T>::Unit;
  static_assert(Raw<V, T>::words == 1, "a pack is one copy");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to)), bytes = exists ? sizeof(Unit) : 0;
  if constexpr (sizeof(Unit) == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(bytes) : "memory");
  else if constexpr (sizeof(Unit) >= 4)
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(place), "l"(from), "n"(sizeof(Unit)), "r"(bytes)
                 : "memory");
  if constexpr (sizeof(Unit) >= 4) return;
#endif
  *reinterpret_cast<Unit*>(to) = exists ? *reinterpret_cast<const Unit*>(from) : Unit{};
}

// Waits for all that this thread has fetched.
[[maybe_unused]] __device__ __forceinline__ void fetched() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// A pack from shared memory, each time anew: else the compiler would keep all of them in registers. It clobbers memory
// because an ordinary store may come before.
template <int V, class T>
__device__ __forceinline__ Raw<V, T> read_shared(const unsigned char* from) {
  using Unit = typename Raw<V, T>::Unit;
  Raw<V, T> raw;
#ifdef __CUDA_ARCH__
  const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(from));
  Unit& word = raw.word[0];
  if constexpr (sizeof(Unit) == 16)
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word.x), "=r"(word.y), "=r"(word.z), "=r"(word.w)
                 : "r"(place)
                 : "memory");
  else if constexpr (sizeof(Unit) == 8)
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(word.x), "=r"(word.y) : "r"(place) : "memory");
  else if constexpr (sizeof(Unit) == 4)
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(place) : "memory");
  else
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(word) : "r"(place) : "memory");
#else
  raw.word[0] = *reinterpret_cast<const Unit*>(from);
#endif
  return raw;
}

// The blocks of one thread, as they lie in memory, STRIDE bytes apart.
template <int V, class T, int STRIDE>
struct Ahead {
  struct {
    unsigned char* own;  // where the first one lies

    __device__ __forceinline__ unsigned char* place(int i) const { return own + i * STRIDE; }
    __device__ __forceinline__ Raw<V, T> operator[](int i) const { return read_shared<V, T>(place(i)); }
  } raw;
};

}  // namespace
