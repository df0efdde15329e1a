/* The entry points of cuBLAS that emitted kernels use, for FP32 matrices in host memory. It remembers how it was used. */
int math_mode = -1, singles = 0, batches = 0;

int cublasCreate_v2(void **handle) { return *handle = &math_mode, 0; }
int cublasDestroy_v2(void *handle) { return handle != &math_mode; }
int cublasSetStream_v2(void *handle, void *stream) { return handle != &math_mode || stream; }
int cublasSetWorkspace_v2(void *handle, void *space, unsigned long bytes) { return !space || bytes < (4 << 20); }
int cublasSetMathMode(void *handle, int mode) { return math_mode = mode, 0; }
int cublasGetProperty(int part, int *value) { return *value = (int[]){11, 4, 2}[part], 0; }

/* Column-major C = A B without transposition, alpha 1 and beta 0; everything else is refused. */
static int gemm(int ta, int tb, int m, int n, int k, const float *alpha, const float *A, int type_a, int lda,
                const float *B, int type_b, int ldb, const float *beta, float *C, int type_c, int ldc, int compute)
{
    if (ta || tb || *alpha != 1 || *beta != 0 || type_a || type_b || type_c || compute != 68) return 15;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            float sum = 0;
            for (int l = 0; l < k; ++l) sum += A[i + (long)l * lda] * B[l + (long)j * ldb];
            C[i + (long)j * ldc] = sum;
        }
    return 0;
}

int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *A, int type_a,
                 int lda, const void *B, int type_b, int ldb, const void *beta, void *C, int type_c, int ldc,
                 int compute, int algorithm)
{
    ++singles;
    return gemm(ta, tb, m, n, k, alpha, A, type_a, lda, B, type_b, ldb, beta, C, type_c, ldc, compute);
}

int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const float *A,
                               int type_a, int lda, long long sa, const float *B, int type_b, int ldb, long long sb,
                               const void *beta, float *C, int type_c, int ldc, long long sc, int count, int compute,
                               int algorithm)
{
    int code = 0;
    ++batches;
    for (int r = 0; r < count && !code; ++r)
        code = gemm(ta, tb, m, n, k, alpha, A + r * sa, type_a, lda, B + r * sb, type_b, ldb, beta, C + r * sc, type_c,
                    ldc, compute);
    return code;
}
