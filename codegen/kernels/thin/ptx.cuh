// The instructions of thin products that C++ has no words for, one function each.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

extern __shared__ __align__(16) float thin_sums[];
__device__ __forceinline__ float* shared_floats() { return thin_sums; }

// What any kernel before has written. Loads of thin kernels are never non-coherent ones, as that of __ldg, which ask that
// nothing writes the place as long as the kernel runs: it may have come while the one before still wrote.
template <class T>
__device__ __forceinline__ T fetch(const T* from) {
  return *from;
}

// 16 bytes that are read once, past the first cache; zero without reading unless `there`. Volatile, so that none moves to
// the other side of a wait.
__device__ __forceinline__ uint4 stream_16(const void* from, bool there) {
  uint4 to;
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
      "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
      "@p ld.global.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "=&r"(to.x), "=&r"(to.y), "=&r"(to.z), "=&r"(to.w)
      : "l"(from), "r"(static_cast<int>(there)));
  return to;
}

// The lower (SIDE 0) or upper halves of two words, in one word.
template <int SIDE>
__device__ __forceinline__ uint32_t halves(uint32_t first, uint32_t second) {
  return __byte_perm(first, second, SIDE ? 0x7632 : 0x5410);
}

// d += a b with 16 x 16 a and 16 x 8 b, spread over the warp as PTX lays down for m16n8k16.
__device__ __forceinline__ void multiply_add(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3,
                                             uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32." SUBCUBIC_INPUT_MMA "." SUBCUBIC_INPUT_MMA
      ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Blocks of a cluster (1 where there are none), the number of this one, and a barrier of all of them.
__device__ __forceinline__ int cluster_size() { return gridDim.x; }
__device__ __forceinline__ int cluster_rank() { return blockIdx.x; }
__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Lets the next kernel of the stream be brought to the device while this one runs, if it was launched so, and waits for
// the end of the one before, whose results are read after this. Every thread has to wait, or an end could overtake another.
__device__ __forceinline__ void let_next_come() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void wait_for_before() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// What lies in another block's shared memory where `mine` lies in this one's.
__device__ __forceinline__ float read_peer(const float* mine, int rank) {
#if __CUDA_ARCH__ >= 900
  uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(mine)), there;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(there) : "memory");
  return value;
#else
  return *mine;
#endif
}

}  // namespace
