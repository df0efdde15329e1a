// What a launch of a thin product is about: C_i = alpha A_i B_i + beta C_i for i < groups.
#include "types.cuh"

namespace {

struct Task {
  const Input *A, *B;
  Output* C;
  int64_t lda, ldb, ldc;                 // distances of rows as they lie in memory
  int64_t stride_a, stride_b, stride_c;  // distances of groups; A's and C's do not count where there are offsets
  const int* offsets;                    // of the first row of each group in A and C, and one more; or null
  int groups, M, N, K;                   // rows of each group where there are no offsets
  float alpha, beta;
  int early;                             // 2: B may be read before the kernel before has ended
#ifdef SUBCUBIC_EPILOGUE
  Extras extras;
  int64_t stride_vectors;  // from the vectors of a group to the next one's
#endif  // SUBCUBIC_EPILOGUE
};

}  // namespace
