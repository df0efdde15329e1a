/* What is multiplied. A_i is M x K and C_i is M x N, row-major; B_i is K x N, or N x K in a file for a transposed B. */
typedef struct SCHEME_product {
  int64_t groups;  /* 1 for a single product */
  int64_t M, N, K;
  double alpha, beta; /* with beta = 0, C is not read */
  const void* A;
  int64_t lda, stride_a; /* stride: from a group to the next; 0 for an operand that all groups share, never for C */
  const void* B;
  int64_t ldb, stride_b;
  void* C;
  int64_t ldc, stride_c;
  /* Where groups have different numbers of rows, such as the tokens of each expert: groups + 1 numbers in device memory;
   * group i has rows offsets[i] to offsets[i + 1] - 1 of A and C, perhaps none. M says then how many most groups have at
   * most; others are right, too. Null: M rows each. */
  const int32_t* offsets;
  /* How it is done: number of the tile and the blocks that share the depth (1, 2, 4, 8 or 16); -1 and 0: by rule. The
   * result does not depend on anything else but these two, the sizes and the alignment. */
  int32_t tile, split;
  /* From compute capability 9.0 on, what may happen while the kernel before it on the stream ends. 0: nothing; 1: the blocks
   * are brought to the device, but read and write nothing, though the cache (L2) may be asked for the first elements of B; 2:
   * these are read, too, so that nothing before may write B. */
  int32_t early;
  /* From the vectors of an epilogue of a group to the next one's; 0 where all groups share them, or there are none. The
   * rows of a residual are those of all groups, one after the other. */
  int64_t stride_vectors;
} SCHEME_product;
