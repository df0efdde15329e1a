// The pass before the products: planes of a matrix, and copies of blocks that cannot be read where they lie.
#include "fused_work.cuh"

namespace {

constexpr int kPlaneThreads = 256, kPlaneWidth = 8;

// Sources first, first + 1, ... of a side, one for each blockIdx.y. A thread makes one pack of one source: it reads the
// packs of the blocks with coefficients that are not zero, and what several sources share comes from L2.
template <class Map, class Out>
__global__ void __launch_bounds__(kPlaneThreads) combine_blocks(Side side, int first, bool aligned, Out* out) {
  const int64_t packs = side.block_columns / kPlaneWidth;
  const int64_t item = static_cast<int64_t>(blockIdx.x) * kPlaneThreads + threadIdx.x;
  if (item >= side.block_rows * packs) return;
  const int64_t row = item / packs, column = (item - row * packs) * kPlaneWidth;
  Pack<kPlaneWidth> sum = {};
  for (int i = 0; i < Map::rows * Map::columns; ++i) {
    const float coefficient = Map::coefficient(first + blockIdx.y, i);
    const int64_t y = i / Map::columns * side.block_rows + row, x = i % Map::columns * side.block_columns + column;
    if (coefficient == 0 || y >= side.rows || x >= side.columns) continue;  // zero times infinity is not zero
    sum = sum + coefficient * load_edge<kPlaneWidth>(side.matrix + y * side.ld + x, side.columns - x, aligned);
  }
  store<kPlaneWidth>(out + (blockIdx.y * side.block_rows + row) * side.block_columns + column, sum);
}

template <class T>
bool row_aligned(const T* pointer, int64_t ld) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 && ld * sizeof(T) % 16 == 0;
}

template <class Map, class Out>
Status combine_sources(cudaStream_t stream, const Side& side, int first, int count, Out* out) {
  if (!count) return kDone;
  const int64_t packs = side.block_rows * (side.block_columns / kPlaneWidth);
  const int64_t grid = up(packs, kPlaneThreads) / kPlaneThreads;
  if (grid > INT32_MAX)
    return report(kMisuse, "a block of %lld x %lld is too large", (long long)side.block_rows,
                  (long long)side.block_columns);
  const dim3 shape(static_cast<unsigned>(grid), static_cast<unsigned>(count));
  combine_blocks<Map><<<shape, kPlaneThreads, 0, stream>>>(side, first, row_aligned(side.matrix, side.ld), out);
  return checked(cudaGetLastError(), "the pass that makes planes");
}

// All planes of one side, as the tables number them.
template <class Map>
Status make_planes(cudaStream_t stream, const Side& side, Plane* planes) {
  return combine_sources<Map>(stream, side, Map::plain, Map::planes, planes);
}

// The blocks that products read as they are, in rows that are aligned.
template <class Map>
Status make_copies(cudaStream_t stream, const Side& side, Input* copies) {
  return combine_sources<Map>(stream, side, 0, Map::plain, copies);
}

// Loads the kernels of this pass, see load_kernels.
Status load_planes() {
  const void* kernels[] = {
      reinterpret_cast<const void*>(combine_blocks<MapA, Plane>), reinterpret_cast<const void*>(combine_blocks<MapB, Plane>),
      reinterpret_cast<const void*>(combine_blocks<MapA, Input>), reinterpret_cast<const void*>(combine_blocks<MapB, Input>)};
  cudaFuncAttributes attributes;
  for (const void* kernel : kernels)
    if (Status status = checked(cudaFuncGetAttributes(&attributes, kernel), "loading the kernels")) return status;
  return kDone;
}

}  // namespace
