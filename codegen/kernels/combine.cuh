// Combine: one pass over A or B that writes every plane once and reads every block once. A thread owns the same V
// elements of all blocks, so the whole linear map runs in registers.
#include "types.cuh"

namespace {

constexpr int kThreads = 128;

// Planes are stored one after the other, each block_rows x block_columns without gaps. WHOLE: rows are aligned and
// the blocks tile the matrix exactly.
template <class Side, int V, bool WHOLE>
__global__ void __launch_bounds__(kThreads)
    combine(const Input* __restrict__ matrix, int64_t ld, int64_t rows, int64_t columns, bool aligned,
            Plane* __restrict__ planes, int64_t block_rows, int64_t block_columns) {
  const uint64_t packs = block_columns / V, total = block_rows * packs;
  const uint64_t item = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= total) return;
  const Place at = place(item, packs, total, V);
  Pack<V> block[Side::rows * Side::columns];
#pragma unroll
  for (int i = 0; i < Side::rows; ++i) {
    const int64_t row = i * block_rows + at.row;
#pragma unroll
    for (int j = 0; j < Side::columns; ++j) {
      const int64_t column = j * block_columns + at.column;
      const Input* from = matrix + row * ld + column;
      block[i * Side::columns + j] =
          WHOLE ? load<V>(from) : load_edge<V>(from, row < rows ? columns - column : 0, aligned);
    }
  }
  Plane* to = planes + at.row * block_columns + at.column;
  const int64_t stride = block_rows * block_columns;
  Side::planes(block, [&](const Pack<V>& sum) {
    store<V>(to, sum);
    to += stride;
  });
}

}  // namespace
