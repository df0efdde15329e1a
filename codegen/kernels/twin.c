/* Emitted once for each element type; TYPE, SCHEME and SCHEME_type are replaced. */

/* dst[0..rows*columns) = sum of blocks of X, zero where a block reaches over the edge of X. */
static void SCHEME_type_plane(const SCHEME_term *terms, int count, int across, const TYPE *X, int64_t ld, int64_t x_rows,
                              int64_t x_columns, TYPE *dst, int64_t rows, int64_t columns)
{
    int64_t row;
#pragma omp parallel for schedule(static) if (rows * columns > SCHEME_SERIAL)
    for (row = 0; row < rows; ++row) {
        TYPE *to = dst + row * columns;
        for (int64_t j = 0; j < columns; ++j) to[j] = 0;
        for (int t = 0; t < count; ++t) {
            const int64_t i = terms[t].block / across * rows + row, left = terms[t].block % across * columns;
            const int64_t width = i < x_rows ? SCHEME_least(columns, x_columns - left) : 0;
            const TYPE *from = X + i * ld + left;
            const TYPE c = (TYPE)terms[t].coefficient;
            for (int64_t j = 0; j < width; ++j) to[j] += c * from[j];
        }
    }
}

/* The operand of one product: a block of X where it lies if it is alone, whole and has coefficient 1, else a plane. */
static const TYPE *SCHEME_type_operand(const SCHEME_term *terms, int count, int across, const TYPE *X, int64_t ld,
                                       int64_t x_rows, int64_t x_columns, TYPE *space, int64_t rows, int64_t columns,
                                       int64_t *operand_ld)
{
    if (count == 1 && terms[0].coefficient == 1) {
        const int64_t top = terms[0].block / across * rows, left = terms[0].block % across * columns;
        if (top + rows <= x_rows && left + columns <= x_columns) {
            *operand_ld = ld;
            return X + top * ld + left;
        }
    }
    SCHEME_type_plane(terms, count, across, X, ld, x_rows, x_columns, space, rows, columns);
    *operand_ld = columns;
    return space;
}

/* C = A B in plain loops, for callers without a BLAS. */
static void SCHEME_type_loops(int64_t M, int64_t N, int64_t K, const TYPE *A, int64_t lda, const TYPE *B, int64_t ldb,
                              TYPE *C, int64_t ldc)
{
    int64_t row;
#pragma omp parallel for schedule(static)
    for (row = 0; row < M; ++row)
        for (int64_t left = 0; left < N; left += SCHEME_STRIP) {
            const int64_t width = SCHEME_least(SCHEME_STRIP, N - left);
            TYPE sum[SCHEME_STRIP] = {0};
            for (int64_t k = 0; k < K; ++k) {
                const TYPE a = A[row * lda + k];
                const TYPE *b = B + k * ldb + left;
                for (int64_t j = 0; j < width; ++j) sum[j] += a * b[j];
            }
            for (int64_t j = 0; j < width; ++j) C[row * ldc + left + j] = sum[j];
        }
}

/* C = alpha * (sums of products) / divisor + beta * C; with beta = 0, C is not read. */
static void SCHEME_type_scatter(const TYPE *products, int64_t rows, int64_t columns, TYPE alpha, TYPE beta, TYPE *C,
                                int64_t ldc, int64_t M, int64_t N)
{
    int64_t row;
#pragma omp parallel for schedule(static) if (M * N > SCHEME_SERIAL)
    for (row = 0; row < M; ++row) {
        const int64_t i = row / rows, inside = row % rows;
        for (int64_t left = 0; left < N; left += SCHEME_STRIP) {
            /* A strip may span two blocks; each part is summed on its own. */
            for (int64_t start = left, stop; start < SCHEME_least(left + SCHEME_STRIP, N); start = stop) {
                const int64_t j = start / columns, output = i * SCHEME_N + j;
                TYPE sum[SCHEME_STRIP] = {0};
                stop = SCHEME_least(SCHEME_least(left + SCHEME_STRIP, N), (j + 1) * columns);
                for (int t = SCHEME_start_c[output]; t < SCHEME_start_c[output + 1]; ++t) {
                    const TYPE *from = products + ((int64_t)SCHEME_terms_c[t].block * rows + inside) * columns
                                       + start - j * columns;
                    const TYPE c = (TYPE)SCHEME_terms_c[t].coefficient;
                    for (int64_t e = 0; e < stop - start; ++e) sum[e] += c * from[e];
                }
                for (int64_t e = 0; e < stop - start; ++e) {
                    TYPE *to = C + row * ldc + start + e;
                    const TYPE value = alpha * (sum[e] / (TYPE)SCHEME_DIVISOR);
                    *to = beta == 0 ? value : value + beta * *to;
                }
            }
        }
    }
}

int SCHEME_type(int64_t M, int64_t N, int64_t K, TYPE alpha, const TYPE *A, int64_t lda, const TYPE *B, int64_t ldb,
                TYPE beta, TYPE *C, int64_t ldc, SCHEME_type_gemm product, void *context)
{
    if (M < 1 || N < 1 || K < 1 || lda < K || ldb < N || ldc < N || !A || !B || !C) return SCHEME_MISUSE;
    const int64_t rows = SCHEME_split(M, SCHEME_M), columns = SCHEME_split(N, SCHEME_N);
    const int64_t inner = SCHEME_split(K, SCHEME_K);
    const double bytes = ((double)rows * inner + (double)inner * columns + (double)SCHEME_RANK * rows * columns)
                         * sizeof(TYPE);
    TYPE *space = bytes < (double)(SIZE_MAX / 2) ? malloc((size_t)bytes) : NULL;
    if (!space) return SCHEME_NO_MEMORY;
    TYPE *plane_a = space, *plane_b = plane_a + rows * inner, *products = plane_b + inner * columns;
    for (int r = 0; r < SCHEME_RANK; ++r) {
        int64_t ld_a, ld_b;
        const int a = SCHEME_start_a[r], b = SCHEME_start_b[r];
        const TYPE *left = SCHEME_type_operand(SCHEME_terms_a + a, SCHEME_start_a[r + 1] - a, SCHEME_K, A, lda, M, K,
                                               plane_a, rows, inner, &ld_a);
        const TYPE *right = SCHEME_type_operand(SCHEME_terms_b + b, SCHEME_start_b[r + 1] - b, SCHEME_N, B, ldb, K, N,
                                                plane_b, inner, columns, &ld_b);
        TYPE *to = products + (int64_t)r * rows * columns;
        if (product)
            product(context, rows, columns, inner, left, ld_a, right, ld_b, to, columns);
        else
            SCHEME_type_loops(rows, columns, inner, left, ld_a, right, ld_b, to, columns);
    }
    SCHEME_type_scatter(products, rows, columns, alpha, beta, C, ldc, M, N);
    free(space);
    return SCHEME_DONE;
}
