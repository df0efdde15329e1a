// How a thin kernel is queued, with the blocks that share the depth as a cluster.
#include "kernel.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

template <class Kernel>
cudaError_t queue(Kernel kernel, dim3 grid, int threads, size_t shared, cudaStream_t stream, const Task& task) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = grid.x;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  config.attrs = &cluster;
  config.numAttrs = grid.x > 1;
  return cudaLaunchKernelEx(&config, kernel, task);
}

}  // namespace
#endif
