// How the sm_80 kernel is loaded and queued.
#include "kernel.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

struct Machine {
  int ctas;  // that run at the same time
};

constexpr int kSharedBytes = kStages * kStageBytes;

Status open_machine(Machine& machine) {
  int device = 0, major = 0, multiprocessors = 0, each = 0;
  cudaError_t code = cudaGetDevice(&device);
  if (!code) code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (!code) code = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
  if (Status status = checked(code, "asking for the device")) return status;
  if (major < 8) return report(kMissing, "the device has compute capability %d.x, 8.0 or later is needed", major);
  cudaFuncAttributes attributes;
  const void* kernel = reinterpret_cast<const void*>(products);
  code = cudaFuncGetAttributes(&attributes, kernel);
  if (code)
    return report(kMissing, "the file was built for another architecture than this device's: %s", cudaGetErrorString(code));
  // Enough shared memory for all CTAs that a multiprocessor has registers for.
  code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (!code)
    code = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  if (!code) code = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, products, kThreads, kSharedBytes);
  if (Status status = checked(code, "loading the kernel")) return status;
  machine.ctas = each * multiprocessors < kMaxCtas ? each * multiprocessors : kMaxCtas;
  return machine.ctas ? kDone : report(kMissing, "the device has too little shared memory for the kernel");
}

Status run(const Machine& machine, cudaStream_t stream, const Work& work) {
  const int64_t tiles = ((work.m + kTileM - 1) / kTileM) * ((work.n + kTileN - 1) / kTileN);
  if (tiles > INT32_MAX / 2)
    return report(kMisuse, "blocks of %lld x %lld have too many tiles", (long long)work.m, (long long)work.n);
  const unsigned grid = static_cast<unsigned>(tiles < machine.ctas ? tiles : machine.ctas);
  products<<<grid, kThreads, kSharedBytes, stream>>>(work);
  return checked(cudaGetLastError(), "the fused kernel");
}

}  // namespace
#endif
