// The instructions of streamed tiles that C++ has no words for: bulk copies of boxes of a tensor, the barriers that count
// what they bring, matrices out of shared memory, and numbers out of that of another block. From sm_90 on.
#include "ptx.cuh"

namespace {

// What cuTensorMapEncodeTiled fills in, passed by value.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

// Swizzled boxes begin where their pattern of 1024 bytes does. Addresses of shared memory are numbers here.
constexpr int kRingAlignment = 1024;
__device__ __forceinline__ uint32_t ring_address() {
  return (shared_address() + kRingAlignment - 1) / kRingAlignment * kRingAlignment;
}
__device__ __forceinline__ float* floats_at(uint32_t address) {
  return reinterpret_cast<float*>(thin_shared + (address - shared_address()));
}

// Readies barriers that lie one after the other, each for one arrival in a turn; by one thread, and the others of its warp
// see it after the next __syncwarp.
__device__ __forceinline__ void ready(uint32_t barriers, int count) {
#if __CUDA_ARCH__ >= 900
  for (int i = 0; i < count; ++i) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i));
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}
// So many bytes are to come in this turn of a barrier.
__device__ __forceinline__ void expect(uint32_t barrier, int bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
#endif
}
// Until they have come, in a turn of this parity.
__device__ __forceinline__ void await(uint32_t barrier, int parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@!p bra AGAIN;\n}" ::"r"(
                   barrier),
               "r"(parity)
               : "memory");
#endif
}

// A box of B from a place along its rows, a row and a group on; zeros where there is no matrix. Its lines of L2 are the
// first to go again, since up to 16 rows of A read them once: that is the policy in the last operand.
__device__ __forceinline__ void copy_box(uint32_t to, const TensorMap& map, uint32_t barrier, int along, int line, int group) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
               "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to),
               "l"(&map), "r"(barrier), "r"(along), "r"(line), "r"(group), "l"(0x12F0000000000000ull)
               : "memory");
#endif
}
// Asks L2 for such a box, and the device for the map.
__device__ __forceinline__ void ask_for_box(const TensorMap& map, int along, int line, int group) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile.L2::cache_hint [%0, {%1, %2, %3}], %4;" ::"l"(&map),
               "r"(along), "r"(line), "r"(group), "l"(0x12F0000000000000ull)
               : "memory");
#endif
}
__device__ __forceinline__ void ask_for_map(const TensorMap& map) {
#if __CUDA_ARCH__ >= 900
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
#endif
}

// Four 8 x 8 matrices; lanes 8 i to 8 i + 7 give the addresses of the rows of matrix i. Volatile, so that none moves to the
// other side of a wait or of the copy into the same place.
template <bool TRANSPOSED>
__device__ __forceinline__ void matrices(uint32_t (&to)[4], uint32_t from) {
  if constexpr (TRANSPOSED)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from));
}

// The two halves of a barrier of all blocks of a cluster: what is written before the first half is seen after the second.
__device__ __forceinline__ void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();  // the barrier is one of whole warps
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_join() {
#if __CUDA_ARCH__ >= 900
  __syncwarp();
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// Four numbers of another block that lie where `mine` does in this one.
__device__ __forceinline__ float4 four_of(const float* mine, int rank) {
  float4 found = {};
#if __CUDA_ARCH__ >= 900
  uint32_t there;
  const uint32_t place = static_cast<uint32_t>(__cvta_generic_to_shared(mine));
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(found.x), "=f"(found.y), "=f"(found.z), "=f"(found.w)
               : "r"(there)
               : "memory");
#endif
  return found;
}

}  // namespace
