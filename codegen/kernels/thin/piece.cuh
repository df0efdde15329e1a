// A piece of B in the registers of a warp, with the part of A that it meets.
//
// B takes the place of the left factor of the tensor-core instruction, which has 16 rows for 16 columns of B, and A that
// of the right one, whose 8 columns are 8 rows of A. So few rows waste little. A sum does not depend on the order of the
// depth, nor does anything on which columns share an instruction: both are dealt out such that each lane loads 16 bytes
// as they lie in memory.
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

// Eight neighbouring elements of B.
template <bool WHOLE>
__device__ __forceinline__ void load_streamed(uint32_t (&to)[4], const Input* from, int there) {
  if constexpr (WHOLE) {
    const uint4 words = stream_16(from, there > 0);
    to[0] = words.x, to[1] = words.y, to[2] = words.z, to[3] = words.w;
  } else {
    load_few<8, false>(to, from, there);
  }
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

// B as it is: 16 of its rows by 64 columns. A lane has 8 neighbours of four rows.
template <bool TRANSPOSED, int ROWS, int STRIPES>
struct Piece {
  static_assert(STRIPES == 1, "a warp takes 64 columns");
  static constexpr int depth = 16, columns = 64, blocks = 4, lane_depth = 4, lane_columns = 8;
  uint32_t b[4][4], a[ROWS / 8][2];

  // Column of the piece that row `side` (g or g + 8) of an instruction stands for.
  static __device__ __forceinline__ int column(int block, int side) {
    return threadIdx.x % 32 / 4 * 8 + 2 * block + side;
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_b(const Cursor& at) {
#pragma unroll
    for (int i = 0; i < 4; ++i) load_streamed<WHOLE>(b[i], at.b + i * at.ldb, at.k + i < at.depth ? at.columns : 0);
  }

  template <bool WHOLE>
  __device__ __forceinline__ void load_a(const Cursor& at) {
#pragma unroll
    for (int i = 0; i < ROWS / 8; ++i)
      load_few<4, WHOLE>(a[i], at.a + 8 * i * at.lda, 8 * i < at.rows ? at.depth - at.k : 0);
  }

  __device__ __forceinline__ void multiply(float (&sums)[blocks][ROWS / 8][4]) const {
#pragma unroll
    for (int j = 0; j < blocks; ++j) {
      const uint32_t a0 = halves<0>(b[0][j], b[1][j]), a1 = halves<1>(b[0][j], b[1][j]);
      const uint32_t a2 = halves<0>(b[2][j], b[3][j]), a3 = halves<1>(b[2][j], b[3][j]);
#pragma unroll
      for (int i = 0; i < ROWS / 8; ++i) multiply_add(sums[j][i], a0, a1, a2, a3, a[i][0], a[i][1]);
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
