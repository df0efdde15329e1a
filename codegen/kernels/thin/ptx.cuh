// The instructions of thin products that C++ has no words for, one function each.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

// Shared memory: the counter of what other blocks send, then numbers.
constexpr int kCounterBytes = 16;
extern __shared__ __align__(16) unsigned char thin_shared[];
__device__ __forceinline__ float* shared_floats() { return reinterpret_cast<float*>(thin_shared + kCounterBytes); }
__device__ __forceinline__ uint32_t shared_address() {
  return static_cast<uint32_t>(__cvta_generic_to_shared(thin_shared));
}

// What any kernel before has written. Loads of thin kernels are never non-coherent ones, as that of __ldg, which ask that
// nothing writes the place as long as the kernel runs: it may have come while the one before still wrote.
template <class T>
__device__ __forceinline__ T fetch(const T* from) {
  return *from;
}

// Keeps the compiler from computing an address later than here.
template <class T>
__device__ __forceinline__ void computed_here(T*& address) {
  asm volatile("" : "+l"(address));
}

// 4, 8 or 16 bytes that are read once, past the first cache; zero without reading unless `there`. Volatile, so that none
// moves to the other side of a wait. Of a transposed B a lane reads along rows that are far apart, and it helps to bring
// 256 bytes of each to L2; of a B as it is, rows come as a whole anyway, and a hint would only be in the way. A text has
// one layout, so the hint is part of the emitted file.
template <int WORDS>
__device__ __forceinline__ void stream(uint32_t (&to)[WORDS], const void* from, bool there) {
  static_assert(WORDS == 1 || WORDS == 2 || WORDS == 4, "what one load takes");
  if constexpr (WORDS == 4)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n"
        "mov.b32 %0, 0;\nmov.b32 %1, 0;\nmov.b32 %2, 0;\nmov.b32 %3, 0;\n"
        "@p ld.global.L1::no_allocate" SUBCUBIC_STREAM_HINT ".v4.u32 {%0, %1, %2, %3}, [%4];\n}"
        : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
        : "l"(from), "r"(static_cast<int>(there)));
  else if constexpr (WORDS == 2)
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %3, 0;\nmov.b32 %0, 0;\nmov.b32 %1, 0;\n"
        "@p ld.global.L1::no_allocate" SUBCUBIC_STREAM_HINT ".v2.u32 {%0, %1}, [%2];\n}"
        : "=&r"(to[0]), "=&r"(to[1])
        : "l"(from), "r"(static_cast<int>(there)));
  else
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\nmov.b32 %0, 0;\n"
        "@p ld.global.L1::no_allocate" SUBCUBIC_STREAM_HINT ".u32 %0, [%1];\n}"
        : "=&r"(to[0])
        : "l"(from), "r"(static_cast<int>(there)));
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

// A block of a cluster gets numbers from the others, which they write to its shared memory, and counts their bytes. So
// nobody waits for a barrier of all, and a block may end when it has its numbers: nobody writes to it any more.
//
// Begins to receive: one thread readies the counter, and all tell the others that this block is there.
__device__ __forceinline__ void begin_to_receive() {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(shared_address())
                 : "memory");
  __syncwarp();  // the barrier is one of whole warps
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
#endif
}
// Until the others are there. To be called once.
__device__ __forceinline__ void wait_for_others() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// So many bytes come in this turn; by one thread.
__device__ __forceinline__ void expect(int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address()), "r"(bytes) : "memory");
#endif
}
// Writes a number to another block where `mine` lies in this one.
__device__ __forceinline__ void send(const float* mine, int rank, float value) {
#if __CUDA_ARCH__ >= 900
  uint32_t there, counter;
  const uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(mine));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(counter) : "r"(shared_address()), "r"(rank));
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(there),
               "r"(__float_as_uint(value)), "r"(counter)
               : "memory");
#endif
}
// Until all has come of a turn, of which the parity is given.
__device__ __forceinline__ void receive(int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(
                   shared_address()),
               "r"(parity)
               : "memory");
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

}  // namespace
