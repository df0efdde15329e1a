// The instructions of sm_80 that C++ has no words for, one function each.
#include <cstdint>

namespace {

// Address of the dynamic shared memory of the CTA within shared memory.
__device__ __forceinline__ uint32_t shared_base() {
  extern __shared__ __align__(1024) unsigned char shared_memory[];
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared_memory));
}

// Starts to copy 16 bytes to shared memory; only the first `bytes` are read, the rest is written as zero.
__device__ __forceinline__ void copy_async(uint32_t to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}

// Ends a group of copies of this thread.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most PENDING of this thread's latest groups are under way.
template <int PENDING>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four 8 x 8 matrices of 16-bit elements; lanes 8i .. 8i + 7 give the addresses of the rows of matrix i. A thread gets
// two neighbours of a row of each: row lane / 4, columns 2 (lane % 4) and one more.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

// The same, each matrix transposed.
__device__ __forceinline__ void load_transposed(uint32_t (&to)[4], uint32_t from) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(from)
               : "memory");
}

// c += a b with 16 x 16 a and 16 x 8 b, spread over the warp as PTX lays down for m16n8k16. The type selects the
// instruction.
template <class T>
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);

#define SUBCUBIC_MULTIPLY_ADD(TYPE, NAME)                                                                            \
  template <>                                                                                                        \
  __device__ __forceinline__ void multiply_add<TYPE>(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." NAME "." NAME ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "  \
        "{%0, %1, %2, %3};"                                                                                          \
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                             \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                             \
  }
SUBCUBIC_MULTIPLY_ADD(Input, SUBCUBIC_INPUT_MMA)
#ifdef SUBCUBIC_PLANE_MMA  // planes are of another type
SUBCUBIC_MULTIPLY_ADD(Plane, SUBCUBIC_PLANE_MMA)
#endif
#undef SUBCUBIC_MULTIPLY_ADD

}  // namespace
