// What the host hands to a fused kernel, and how every part reports what went wrong.
#include <cstdarg>
#include <cstdio>

#include "types.cuh"

namespace {

enum Status { kDone = 0, kFailed = 1, kMisuse = 2, kMissing = 4 };

thread_local char last_error[512] = "";

Status report(Status status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof(last_error), format, values);
  va_end(values);
  return status;
}

Status checked(cudaError_t code, const char* what) {
  return code == cudaSuccess ? kDone : report(kFailed, "%s failed: %s", what, cudaGetErrorString(code));
}

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

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
  float4* scratch;     // kScratchPerCta bytes for each CTA
  unsigned* counters;  // 4096 bytes, zero between launches
};

}  // namespace
