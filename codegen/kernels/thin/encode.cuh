// The host's part of streamed tiles: the driver's encoder of tensor maps, and the map of a launch.
#include <cuda.h>
#include <dlfcn.h>

#include "stream.cuh"

#ifndef __CUDACC_RTC__  // host code
namespace {

using Encoder = decltype(&cuTensorMapEncodeTiled);

// Null where the driver has none.
Encoder find_encoder() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY);
  return driver ? reinterpret_cast<Encoder>(dlsym(driver, "cuTensorMapEncodeTiled")) : nullptr;
}

// Elements are 16 bits that are only copied. What a box needs is brought to L2 in 64 bytes, since rows of a box end within
// the longer lines that the encoder could promote them to, and then those would be read twice.
Status encode(Encoder encoder, const SCHEME_product& p, const Box& box, TensorMap& map) {
  const int64_t along = kTransposedB ? p.K : p.N, lines = kTransposedB ? p.N : p.K;
  const bool apart = p.groups > 1 && p.stride_b > 0;
  const cuuint64_t sizes[3] = {static_cast<cuuint64_t>(along), static_cast<cuuint64_t>(lines),
                               static_cast<cuuint64_t>(apart ? p.groups : 1)};
  const cuuint64_t steps[2] = {p.ldb * sizeof(Input), (apart ? p.stride_b : lines * p.ldb) * sizeof(Input)};
  const cuuint32_t boxes[3] = {static_cast<cuuint32_t>(box.along), static_cast<cuuint32_t>(box.lines), 1}, ones[3] = {1, 1, 1};
  const CUresult code = encoder(reinterpret_cast<CUtensorMap*>(&map), CU_TENSOR_MAP_DATA_TYPE_UINT16, 3, const_cast<void*>(p.B),
                                sizes, steps, boxes, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                box.swizzled ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_64B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return code == CUDA_SUCCESS ? kDone : report(kFailed, "cuTensorMapEncodeTiled failed with code %d", int(code));
}

}  // namespace
#endif
