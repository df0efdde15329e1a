// Enough of CUDA for a C++ compiler to run emitted kernels on the host, one thread after the other.
#include <cstdlib>

#include "types_on_host.h"

#define __device__
#define __host__
#define __global__
#define __shared__ static  // of one block at a time
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__

struct Dim {
  unsigned x;
};
static Dim blockIdx, threadIdx;
static const Dim blockDim = {0};

// Vector accesses must be aligned, as on the device.
template <class W>
W __ldcs(const W* from) {
  if (reinterpret_cast<uintptr_t>(from) % sizeof(W)) abort();
  return *from;
}

template <class W>
W __ldg(const W* from) {
  return __ldcs(from);
}

// Lanes run one after the other, so each is its own warp's maximum and writes.
static unsigned __reduce_max_sync(unsigned, unsigned value) { return value; }
static unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static unsigned atomicMax(unsigned* to, unsigned value) {
  const unsigned old = *to;
  return *to = max(old, value), old;
}

typedef int cudaError_t;
typedef void* cudaStream_t;
enum { cudaSuccess = 0 };
struct cudaFuncAttributes {};
static const char* cudaGetErrorString(cudaError_t) { return "no error"; }
static cudaError_t cudaGetLastError() { return cudaSuccess; }
static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return cudaSuccess; }
static cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
static cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
static cudaError_t cudaMalloc(void** memory, size_t bytes) { return *memory = calloc(bytes, 1), cudaSuccess; }
static cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  return memset(to, value, bytes), cudaSuccess;
}
static cudaError_t cudaFree(void* memory) { return free(memory), cudaSuccess; }
static cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount };
static cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 1, cudaSuccess; }

template <class... Parameters, class... Arguments>
void run_grid(void (*kernel)(Parameters...), unsigned blocks, int threads, Arguments... arguments) {
  for (blockIdx.x = 0; blockIdx.x < blocks; ++blockIdx.x)
    for (threadIdx.x = 0; threadIdx.x < static_cast<unsigned>(threads); ++threadIdx.x) kernel(arguments...);
}
