// How a thin kernel is queued, with the blocks that share the depth as a cluster; early: while the one before ends.
#include "stream.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

// Clusters of so many blocks that the device can run at the same time, each of its parts for itself; less than one if it does
// not say.
int clusters_at_once(const void* kernel, int threads, size_t shared, int size) {
  int count = 0;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = size;
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(size);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.attrs = &cluster;
  config.numAttrs = 1;
  if (cudaOccupancyMaxActiveClusters(&count, kernel, &config)) count = 0;
  cudaGetLastError();  // to be asked is no error
  return count;
}

template <class Kernel, class... Arguments>
cudaError_t queue(Kernel kernel, dim3 grid, int threads, size_t shared, cudaStream_t stream, bool early,
                  const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  cudaLaunchAttribute attributes[2];
  config.attrs = attributes;
  if (grid.x > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = grid.x;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  }
  if (early) {
    cudaLaunchAttribute& soon = attributes[config.numAttrs++];
    soon.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    soon.val.programmaticStreamSerializationAllowed = 1;
  }
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace
#endif
