// Scatter: one pass that reads every product once and writes every block of C once,
// C = alpha * (sum of products) / divisor + beta * C. With beta = 0 C is not read, as in BLAS.
#include "planes.cuh"
#ifdef SUBCUBIC_EPILOGUE
#include "epilogue.cuh"
#endif  // SUBCUBIC_EPILOGUE

namespace {

constexpr int kThreads = 128;

template <class Map, int V, bool WHOLE>
__global__ void __launch_bounds__(kThreads)
    scatter(const Product* __restrict__ products, int64_t block_rows, int64_t block_columns, Accumulator alpha,
#ifdef SUBCUBIC_EPILOGUE
            Accumulator beta, Input* __restrict__ matrix, int64_t ld, int64_t rows, int64_t columns, bool aligned,
            const Extras extras) {
#else  // SUBCUBIC_EPILOGUE
            Accumulator beta, Input* __restrict__ matrix, int64_t ld, int64_t rows, int64_t columns, bool aligned) {
#endif  // SUBCUBIC_EPILOGUE
  const uint64_t packs = block_columns / V, total = block_rows * packs;
  const uint64_t item = static_cast<uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (item >= total) return;
  const Place at = place(item, packs, total, V);
  const Product* from = products + at.row * block_columns + at.column;
  const int64_t stride = block_rows * block_columns;
  Pack<V> block[Map::rows * Map::columns];
  Map::outputs(
      [&]() {
        const Pack<V> product = load<V>(from);
        from += stride;
        return product;
      },
      block);
#pragma unroll
  for (int i = 0; i < Map::rows; ++i) {
    const int64_t row = i * block_rows + at.row;
#pragma unroll
    for (int j = 0; j < Map::columns; ++j) {
      const int64_t column = j * block_columns + at.column;
      const int64_t valid = row < rows ? columns - column : 0;
      Input* to = matrix + row * ld + column;
      Pack<V> sum = block[i * Map::columns + j];
      if (kDivisor != Accumulator(1)) {
#pragma unroll
        for (int e = 0; e < V; ++e) sum.v[e] /= kDivisor;
      }
      sum = alpha * sum;
      if (beta != Accumulator(0)) sum = sum + beta * (WHOLE ? load<V>(to) : load_edge<V>(to, valid, aligned));
#ifdef SUBCUBIC_EPILOGUE
      sum = finished(sum, extras, WHOLE ? fetched<V>(extras, row, column) : fetched_edge<V>(extras, row, column, valid));
#endif  // SUBCUBIC_EPILOGUE
      if (WHOLE)
        store<V>(to, sum);
      else
        store_edge<V>(to, sum, valid, aligned);
    }
  }
}

}  // namespace
