// A piece of B in the registers of a warp, with the part of A that it meets.
//
// B takes the place of the left factor of the tensor-core instruction, which has 16 rows for 16 columns of B, and A that
// of the right one, whose 8 columns are 8 rows of A. So few rows waste little. A sum does not depend on the order of the
// depth, nor does anything on which columns share an instruction: both are dealt out such that each lane loads 4 to 16
// bytes as they lie in memory.
//
// Lane 4 g + t holds of the left factor rows g and g + 8, columns 2t, 2t + 1, 2t + 8 and 2t + 9; of the right one column g,
// the same rows; of the result rows g and g + 8, columns 2t and 2t + 1.
#include "ptx.cuh"
#include "task.cuh"

namespace {

// COUNT neighbouring elements, 4 or 8, in words. WHOLE: all are there or none, at an aligned address.
template <int COUNT, bool WHOLE>
__device__ __forceinline__ void load_few(uint32_t (&to)[COUNT / 2], const Input* from, int there) {
#pragma unroll
  for (int i = 0; i < COUNT / 2; ++i) to[i] = 0;
  if constexpr (WHOLE && COUNT == 8) {
    if (there > 0) {
      const uint4 words = fetch(reinterpret_cast<const uint4*>(from));
      to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
    }
  } else if constexpr (WHOLE) {
    if (there > 0) {
      const uint2 words = fetch(reinterpret_cast<const uint2*>(from));
      to[0] = words.x, to[1] = words.y;
    }
  } else {
    const uint16_t* bits = reinterpret_cast<const uint16_t*>(from);
#pragma unroll
    for (int i = 0; i < COUNT; ++i)
      if (i < there) to[i / 2] |= static_cast<uint32_t>(fetch(bits + i)) << 16 * (i % 2);
  }
}

// Two, four or eight neighbouring elements of B.
template <bool WHOLE, int WORDS>
__device__ __forceinline__ void load_streamed(uint32_t (&to)[WORDS], const Input* from, int there) {
  if constexpr (WHOLE)
    stream(to, from, there > 0);
  else
    load_few<2 * WORDS, false>(to, from, there);
}

// Where a lane reads on, and what there is for it.
struct Cursor {
  const Input *a, *b;          // at place k of the depth
  int64_t lda, ldb;
  int k, depth, rows, columns;  // rows and columns from this lane's first on

  __device__ __forceinline__ void move(int by, bool b_in_rows) {
    k += by;
    a += by;
    b += b_in_rows ? by * ldb : by;
  }
};

// B as it is: 16 columns for each stripe, by so many of its rows that a lane has 64 bytes: neighbours of 4, 8 or 16 rows.
template <bool TRANSPOSED, int ROWS, int STRIPES>
struct Piece {
  static_assert(STRIPES == 1 || STRIPES == 2 || STRIPES == 4, "a lane loads 4, 8 or 16 bytes of a row");
  static constexpr int depth = 64 / STRIPES, columns = 16 * STRIPES, blocks = STRIPES;
  static constexpr int lane_depth = depth / 4, lane_columns = 2 * STRIPES;
  static constexpr int few = lane_depth < 8 ? lane_depth : 8;  // neighbours of A in one load
  uint32_t b[lane_depth][STRIPES], a[ROWS / 8][lane_depth / few][few / 2];

  // Column of the piece that row `side` (g or g + 8) of an instruction stands for.
  static __device__ __forceinline__ int column(int block, int side) {
    return threadIdx.x % 32 / 4 * lane_columns + 2 * block + side;
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_b(const Cursor& at) {
    const Input* from = at.b;
#pragma unroll
    for (int i = 0; i < lane_depth; ++i) {
      if (i > 0 && i % 8 == 0) computed_here(from);  // of all rows at once, addresses take more registers than there are
      // A whole depth ends with all rows of a few.
      load_streamed<WHOLE>(b[i], from, at.k + (WHOLE ? i / few * few : i) < at.depth ? at.columns : 0);
      from += at.ldb;
    }
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_a(const Cursor& at) {
#pragma unroll
    for (int i = 0; i < ROWS / 8; ++i)
#pragma unroll
      for (int j = 0; j < lane_depth; j += few)
        load_few<few, WHOLE>(a[i][j / few], at.a + 8 * i * at.lda + j, 8 * i < at.rows ? at.depth - at.k - j : 0);
  }

  __device__ __forceinline__ void multiply(float (&sums)[blocks][ROWS / 8][4]) const {
#pragma unroll
    for (int q = 0; q < lane_depth; q += 4)
#pragma unroll
      for (int j = 0; j < blocks; ++j) {
        const uint32_t a0 = halves<0>(b[q][j], b[q + 1][j]), a1 = halves<1>(b[q][j], b[q + 1][j]);
        const uint32_t a2 = halves<0>(b[q + 2][j], b[q + 3][j]), a3 = halves<1>(b[q + 2][j], b[q + 3][j]);
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i)
          multiply_add(sums[j][i], a0, a1, a2, a3, a[i][q / few][q % few / 2], a[i][q / few][q % few / 2 + 1]);
      }
  }
};

// B transposed: 64 of the depth by 16 columns for each stripe. A lane has twice 8 neighbours of two columns of each.
template <int ROWS, int STRIPES>
struct Piece<true, ROWS, STRIPES> {
  static constexpr int depth = 64, columns = 16 * STRIPES, blocks = STRIPES, lane_depth = 8, lane_columns = 1;
  uint32_t b[STRIPES][2][2][4], a[ROWS / 8][2][4];

  static __device__ __forceinline__ int column(int block, int side) {
    return 16 * block + threadIdx.x % 32 / 4 + 8 * side;
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_b(const Cursor& at) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < 2 * STRIPES; ++j)
        load_streamed<WHOLE>(b[j / 2][half][j % 2], at.b + 8 * j * at.ldb + 32 * half,
                             8 * j < at.columns ? at.depth - at.k - 32 * half : 0);
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_a(const Cursor& at) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < ROWS / 8; ++i)
        load_few<8, WHOLE>(a[i][half], at.a + 8 * i * at.lda + 32 * half,
                           8 * i < at.rows ? at.depth - at.k - 32 * half : 0);
  }

  __device__ __forceinline__ void multiply(float (&sums)[blocks][ROWS / 8][4]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int q = 0; q < 4; q += 2)
#pragma unroll
        for (int j = 0; j < STRIPES; ++j)
#pragma unroll
          for (int i = 0; i < ROWS / 8; ++i)
            multiply_add(sums[j][i], b[j][half][0][q], b[j][half][1][q], b[j][half][0][q + 1], b[j][half][1][q + 1],
                         a[i][half][q], a[i][half][q + 1]);
  }
};

}  // namespace
