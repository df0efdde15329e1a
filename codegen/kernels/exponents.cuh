// Exact scaling of rows of A and columns of B by powers of two, so that every row or column has its largest element in
// [1, 2). Fast schemes are only normwise stable: where the rows of A or the columns of B differ in size by orders of
// magnitude, scaling restores the accuracy of small ones. Planes are made of scaled elements, see planes.cuh, and the
// epilogue takes the powers out again.
#include "planes.cuh"

namespace {

constexpr int kPeakThreads = 256, kPeakRows = 32, kPeakLoads = 4;

// The upper 32 bits of a magnitude: ordered like the magnitudes, infinite and NaN above all others, and with the whole
// exponent of either type.
__device__ __forceinline__ uint32_t magnitude(Accumulator value) {
  union {
    Accumulator of;
    uint32_t word[sizeof(Accumulator) / 4];
  };
  of = value;
  return word[sizeof(Accumulator) / 4 - 1] & 0x7FFFFFFF;
}

// Largest magnitudes of rows, into zeros: each warp takes a part of one row, and then only lanes that hold its largest
// write.
__global__ void __launch_bounds__(kPeakThreads)
    row_peaks(const Input* __restrict__ matrix, int64_t ld, int64_t rows, int64_t columns, bool aligned, uint32_t* peaks) {
  constexpr int V = 16 / sizeof(Input), span = 32 * V * kPeakLoads;
  const int64_t parts = (columns + span - 1) / span;
  const int64_t item = (static_cast<int64_t>(blockIdx.x) * kPeakThreads + threadIdx.x) / 32, row = item / parts;
  if (row >= rows) return;
  const int64_t first = (item - row * parts) * span + threadIdx.x % 32 * V;
  Raw<V, Input> raw[kPeakLoads];
#pragma unroll
  for (int i = 0; i < kPeakLoads; ++i) {
    const int64_t column = first + i * 32 * V;
    raw[i] = load_raw_edge<V>(matrix + row * ld + column, columns - column, aligned);
  }
  uint32_t peak = 0;
#pragma unroll
  for (int i = 0; i < kPeakLoads; ++i) {
    const Pack<V> pack = widened(raw[i]);
#pragma unroll
    for (int e = 0; e < V; ++e) peak = max(peak, magnitude(pack.v[e]));
  }
  if (peak == __reduce_max_sync(0xFFFFFFFF, peak)) atomicMax(peaks + row, peak);
}

// Largest magnitudes of columns, into zeros: each thread walks down kPeakRows rows of a few neighbouring columns.
__global__ void __launch_bounds__(kPeakThreads)
    column_peaks(const Input* __restrict__ matrix, int64_t ld, int64_t rows, int64_t columns, bool aligned,
                 uint32_t* peaks) {
  constexpr int V = 16 / sizeof(Input);
  const int64_t packs = (columns + V - 1) / V, item = static_cast<int64_t>(blockIdx.x) * kPeakThreads + threadIdx.x;
  const int64_t first = item / packs * kPeakRows, column = item % packs * V;
  if (first >= rows) return;
  uint32_t peak[V] = {};
#pragma unroll 1
  for (int64_t row = first; row < first + kPeakRows; row += kPeakLoads) {
    Raw<V, Input> raw[kPeakLoads];
#pragma unroll
    for (int i = 0; i < kPeakLoads; ++i)
      raw[i] = load_raw_edge<V>(matrix + (row + i) * ld + column, row + i < rows ? columns - column : 0, aligned);
#pragma unroll
    for (int i = 0; i < kPeakLoads; ++i) {
      const Pack<V> pack = widened(raw[i]);
#pragma unroll
      for (int e = 0; e < V; ++e) peak[e] = max(peak[e], magnitude(pack.v[e]));
    }
  }
#pragma unroll
  for (int e = 0; e < V; ++e)
    if (column + e < columns) atomicMax(peaks + column + e, peak[e]);
}

// Turns peaks into exponents in place. What has no exponent (zero, subnormal, infinite, NaN) is not scaled. An exponent
// and its negative both give normal numbers, so the largest magnitudes end in [2, 4).
__global__ void __launch_bounds__(kPeakThreads) exponents_of_peaks(uint32_t* peaks, int64_t count) {
  constexpr bool wide = sizeof(Accumulator) == 8;
  constexpr int bias = wide ? 1023 : 127;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * kPeakThreads + threadIdx.x;
  if (i >= count) return;
  const int biased = static_cast<int>(peaks[i] >> (wide ? 20 : 23));
  const int exponent = biased == 0 || biased == 2 * bias + 1 ? 0 : bias - biased;
  reinterpret_cast<int*>(peaks)[i] = exponent < 1 - bias ? 1 - bias : exponent;
}

#ifndef __CUDACC_RTC__  // host code
// Loads the kernels now, see load_planes.
Status load_exponents() {
  const void* const kernels[] = {reinterpret_cast<const void*>(row_peaks), reinterpret_cast<const void*>(column_peaks),
                                 reinterpret_cast<const void*>(exponents_of_peaks)};
  for (const void* kernel : kernels) {
    cudaFuncAttributes attributes;
    if (Status status = checked(cudaFuncGetAttributes(&attributes, kernel), "loading the kernels")) return status;
  }
  return kDone;
}

// Queues what finds the exponents of all rows, or of all columns, of a matrix: `exponents` has one int for each.
template <bool BY_COLUMN>
Status find_exponents(cudaStream_t stream, const Input* matrix, int64_t ld, int64_t rows, int64_t columns,
                      int* exponents) {
  constexpr int V = 16 / sizeof(Input);
  const int64_t count = BY_COLUMN ? columns : rows;
  const int64_t threads = BY_COLUMN ? up(rows, kPeakRows) / kPeakRows * (up(columns, V) / V)
                                    : rows * (up(columns, 32 * V * kPeakLoads) / (V * kPeakLoads));
  const int64_t blocks = up(threads, kPeakThreads) / kPeakThreads, few = up(count, kPeakThreads) / kPeakThreads;
  if (blocks > INT32_MAX) return report(kMisuse, "a matrix of %lld x %lld is too large", (long long)rows, (long long)columns);
  uint32_t* peaks = reinterpret_cast<uint32_t*>(exponents);
  const bool aligned = row_aligned(matrix, ld);
  if (Status status = checked(cudaMemsetAsync(peaks, 0, count * sizeof(uint32_t), stream), "cudaMemsetAsync")) return status;
  const auto kernel = BY_COLUMN ? column_peaks : row_peaks;
  kernel<<<static_cast<unsigned>(blocks), kPeakThreads, 0, stream>>>(matrix, ld, rows, columns, aligned, peaks);
  exponents_of_peaks<<<static_cast<unsigned>(few), kPeakThreads, 0, stream>>>(peaks, count);
  return checked(cudaGetLastError(), "the kernels that find exponents");
}
#endif

}  // namespace
