// What the host hands to a fused kernel.
#include "planes.cuh"
#ifdef SUBCUBIC_EPILOGUE
#include "epilogue.cuh"
#endif  // SUBCUBIC_EPILOGUE

namespace {

// Where the factors of one side lie. A block is block_rows x block_columns; the matrix may end inside a block or before
// it, and what lies beyond its end counts as zero.
struct Side {
  const Input* matrix;
  int64_t ld, rows, columns;
  const Input* copies;  // the blocks that are read as they are, one after the other without gaps; null: in the matrix
  const Plane* planes;  // one after the other without gaps
  int64_t block_rows, block_columns;
};

// One launch. C is M x N, its blocks are m x n, those of A are m x k and those of B k x n.
struct Work {
  Side a, b;
  Output* C;
  int64_t ldc, M, N, m, n, k;
  float alpha, beta;
  PlaneJob make_a, make_b;  // planes that the kernel makes itself; no matrix: none
  float4* scratch;     // scratch_bytes(m, n, k)
  unsigned* counters;  // 4096 bytes, zero between launches
  // Of each row and column of C, if planes and copies were scaled by them; what is in C is not.
  const int *row_exponents, *column_exponents;
#ifdef SUBCUBIC_EPILOGUE
  Extras extras;
#endif  // SUBCUBIC_EPILOGUE
};

// A sum of scaled planes as C has it.
template <class Exponents>
__device__ __forceinline__ Accumulator unscaled_at(Accumulator value, const Exponents& of, int64_t row, int64_t column) {
  if constexpr (kScaled)
    return unscaled(value, __ldg(of.row_exponents + row), __ldg(of.column_exponents + column));
  else
    return value;
}

// Words among the counters: whether an element of C is not finite, and how many blocks have looked after that.
[[maybe_unused]] constexpr int kSpoiledWord = 5, kRepairedWord = 6;

// Whether an element of C is finite in C's type too.
__device__ __forceinline__ bool finite(Accumulator value) {
  return (value < 0 ? -value : value) <= kLargestC;
}

[[maybe_unused]] __device__ __forceinline__ void note_unless(bool fine, unsigned* counters) {
  if (kGuarded && !fine) *static_cast<volatile unsigned*>(counters + kSpoiledWord) = 1;
}

#ifdef SUBCUBIC_EPILOGUE
// A repair finds what is not finite in C, so that stays what it is, and only sums that are repaired go through the steps.
template <class Finish>
__device__ __forceinline__ Accumulator finished_unless_spoiled(Accumulator value, Finish finish) {
  if (kGuarded && !finite(value)) return value;
  return finish(value);
}

#endif  // SUBCUBIC_EPILOGUE
#ifdef __CUDACC_RTC__  // where nothing launches it, a template has to be asked for
template __global__ void planes_kernel<MapA, MapB, kScaled>(const PlaneJob, const PlaneJob, unsigned);
#endif

}  // namespace
