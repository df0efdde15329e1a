// What is not finite in C. A scheme adds blocks before it multiplies them, so an infinity or NaN of A or B spoils more of C
// than in a plain product, and so does a plane beyond the range of its type. Epilogues note whether any element of C is not
// finite; then a second kernel, which otherwise does nothing, computes such elements again, each as one sum over K.
#include "fused_work.cuh"

namespace {

constexpr int kRepairTile = 64, kRepairDepth = 16, kRepairThreads = 256, kRepairGrid = 264;

// C is M x N. An element of A lies row * a_row + k * a_depth behind a, one of B k * b_depth + column * b_column behind b.
struct Repair {
  const Input *a, *b;
  int64_t a_row, a_depth, b_depth, b_column;
  Output* C;
  int64_t ldc, M, N, K;
  float alpha;
  unsigned* counters;
#ifdef SUBCUBIC_EPILOGUE
  Extras extras;
#endif  // SUBCUBIC_EPILOGUE
};

__device__ __forceinline__ bool spoiled(const Output* element) {
  Accumulator value = 0;
  widen(*element, value);
  return !(value - value == 0);
}

// All blocks see the same note, which the last of them to end takes back.
__global__ void __launch_bounds__(kRepairThreads) repair(const Repair job) {
  __shared__ float left[kRepairDepth][kRepairTile], right[kRepairDepth][kRepairTile];
  if (*static_cast<volatile unsigned*>(job.counters + kSpoiledWord) == 0) return;
  const int thread = threadIdx.x, down = thread / 16, across = thread % 16;
  const int64_t tiles_n = (job.N + kRepairTile - 1) / kRepairTile, tiles = (job.M + kRepairTile - 1) / kRepairTile * tiles_n;
  for (int64_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const int64_t row = tile / tiles_n * kRepairTile, column = tile % tiles_n * kRepairTile;
    // A thread's elements are 16 rows and 16 columns apart.
    unsigned wrong = 0;
    for (int e = 0; e < 16; ++e) {
      const int64_t i = row + down + 16 * (e / 4), j = column + across + 16 * (e % 4);
      if (i < job.M && j < job.N && spoiled(job.C + i * job.ldc + j)) wrong |= 1u << e;
    }
    if (!__syncthreads_or(wrong != 0)) continue;
    float sums[16] = {};
    for (int64_t first = 0; first < job.K; first += kRepairDepth) {
      for (int e = thread; e < kRepairDepth * kRepairTile; e += kRepairThreads) {
        const int64_t k = first + e / kRepairTile, i = row + e % kRepairTile, j = column + e % kRepairTile;
        Accumulator a = 0, b = 0;
        if (k < job.K && i < job.M) widen(job.a[i * job.a_row + k * job.a_depth], a);
        if (k < job.K && j < job.N) widen(job.b[k * job.b_depth + j * job.b_column], b);
        left[e / kRepairTile][e % kRepairTile] = a;
        right[e / kRepairTile][e % kRepairTile] = b;
      }
      __syncthreads();
      for (int k = 0; k < kRepairDepth; ++k)
#pragma unroll
        for (int e = 0; e < 16; ++e) sums[e] += left[k][down + 16 * (e / 4)] * right[k][across + 16 * (e % 4)];
      __syncthreads();
    }
#pragma unroll
    for (int e = 0; e < 16; ++e) {
      const int64_t i = row + down + 16 * (e / 4), j = column + across + 16 * (e % 4);
#ifdef SUBCUBIC_EPILOGUE
      if (wrong >> e & 1) narrow(finished(job.alpha * sums[e], job.extras, i, j), job.C[i * job.ldc + j]);
#else  // SUBCUBIC_EPILOGUE
      if (wrong >> e & 1) narrow(job.alpha * sums[e], job.C[i * job.ldc + j]);
#endif  // SUBCUBIC_EPILOGUE
    }
  }
  __syncthreads();
  if (thread != 0) return;
  if (atomicAdd(job.counters + kRepairedWord, 1) == gridDim.x - 1)
    job.counters[kSpoiledWord] = job.counters[kRepairedWord] = 0;
}

#ifndef __CUDACC_RTC__  // host code
Status queue_repair(cudaStream_t stream, const Work& work, int64_t K) {
  const Side &a = work.a, &b = work.b;
  const Repair job = {a.matrix, b.matrix, kTransposedA ? 1 : a.ld, kTransposedA ? a.ld : 1, kTransposedB ? 1 : b.ld,
#ifdef SUBCUBIC_EPILOGUE
                      kTransposedB ? b.ld : 1, work.C, work.ldc, work.M, work.N, K, work.alpha, work.counters, work.extras};
#else  // SUBCUBIC_EPILOGUE
                      kTransposedB ? b.ld : 1, work.C, work.ldc, work.M, work.N, K, work.alpha, work.counters};
#endif  // SUBCUBIC_EPILOGUE
  repair<<<kRepairGrid, kRepairThreads, 0, stream>>>(job);
  return checked(cudaGetLastError(), "the kernel that repairs what is not finite");
}

Status load_repair() {
  cudaFuncAttributes attributes;
  return checked(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(repair)), "loading the kernels");
}
#endif

}  // namespace
