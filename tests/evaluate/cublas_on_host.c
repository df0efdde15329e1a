/* The entry points of cuBLAS and cuBLASLt that the baselines use, for matrices of FP64, FP32 and bf16 in host memory. Everything
 * is column-major; what the libraries would refuse is refused, and `alive` counts what was not destroyed. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int compute, scale, ta, tb, epilogue; const void *bias; } Product;
typedef struct { int type; uint64_t rows, columns; int64_t ld; int count; int64_t stride; } Stored;
typedef struct { uint64_t workspace; uint32_t reductions; } Preference;
typedef struct { uint64_t algorithm[8]; size_t workspace; int status; float waves; int reserved[4]; } Heuristic;

int alive = 0;

static double get(const void *from, int type, int64_t i)
{
    if (type == 1) return ((const double *)from)[i];
    if (type == 0) return ((const float *)from)[i];
    const uint32_t word = (uint32_t)((const uint16_t *)from)[i] << 16;
    float value;
    memcpy(&value, &word, 4);
    return value;
}

static void put(void *to, int type, int64_t i, double value)
{
    const float narrow = (float)value;
    uint32_t word;
    memcpy(&word, &narrow, 4);
    if (type == 1) ((double *)to)[i] = value;
    else if (type == 0) ((float *)to)[i] = narrow;
    else ((uint16_t *)to)[i] = (uint16_t)((word + 0x7FFF + ((word >> 16) & 1)) >> 16);
}

static int gemm(int ta, int tb, int m, int n, int k, const void *alpha, const void *A, int64_t lda, const void *B,
                int64_t ldb, const void *beta, void *C, int64_t ldc, int type, int compute)
{
    const int scalar = type == 1;
    if ((scalar ? 70 : 68) != compute || get(alpha, scalar, 0) != 1 || get(beta, scalar, 0) != 0) return 15;
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return 7;
    for (int j = 0; j < n; ++j)
        for (int i = 0; i < m; ++i) {
            double sum = 0;
            for (int l = 0; l < k; ++l)
                sum += get(A, type, ta ? l + i * lda : i + l * lda) * get(B, type, tb ? j + l * ldb : l + j * ldb);
            put(C, type, i + j * ldc, sum);
        }
    return 0;
}

static int made(void **to, size_t bytes) { return ++alive, !(*to = calloc(1, bytes)); }
static int gone(void *what) { return --alive, free(what), 0; }

int cublasCreate_v2(void **handle) { return made(handle, 1); }
int cublasDestroy_v2(void *handle) { return gone(handle); }
int cublasSetStream_v2(void *handle, void *stream) { return !handle || stream; }
int cublasSetWorkspace_v2(void *handle, void *space, size_t bytes) { return !handle || !space || bytes < (4 << 20); }
int cublasSetMathMode(void *handle, int mode) { return !handle || (mode && mode != 16); }
int cublasGetProperty(int part, int *value) { return *value = (int[]){13, 1, 0}[part], 0; }

int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *A, int type_a,
                 int lda, const void *B, int type_b, int ldb, const void *beta, void *C, int type_c, int ldc,
                 int compute, int algorithm)
{
    if (!handle || type_a != type_b || type_a != type_c || algorithm != -1) return 15;
    return gemm(ta, tb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc, type_a, compute);
}

static const void *moved(const void *from, int type, int64_t by)
{
    return (const char *)from + by * (type == 1 ? 8 : type == 0 ? 4 : 2);
}

int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *A,
                               int type_a, int lda, long long stride_a, const void *B, int type_b, int ldb,
                               long long stride_b, const void *beta, void *C, int type_c, int ldc, long long stride_c,
                               int count, int compute, int algorithm)
{
    if (!handle || type_a != type_b || type_a != type_c || algorithm != -1) return 15;
    int status = 0;
    for (int i = 0; i < count && !status; ++i)
        status = gemm(ta, tb, m, n, k, alpha, moved(A, type_a, i * stride_a), lda, moved(B, type_b, i * stride_b), ldb,
                      beta, (void *)moved(C, type_c, i * stride_c), ldc, type_a, compute);
    return status;
}

int cublasLtCreate(void **handle) { return made(handle, 1); }
int cublasLtDestroy(void *handle) { return gone(handle); }
int cublasLtMatmulDescDestroy(void *what) { return gone(what); }
int cublasLtMatrixLayoutDestroy(void *what) { return gone(what); }
int cublasLtMatmulPreferenceDestroy(void *what) { return gone(what); }
int cublasLtMatmulPreferenceCreate(Preference **to) { return made((void **)to, sizeof **to); }

int cublasLtMatmulDescCreate(Product **to, int compute, int scale)
{
    if (made((void **)to, sizeof **to)) return 3;
    (*to)->compute = compute, (*to)->scale = scale, (*to)->epilogue = 1;
    return 0;
}

int cublasLtMatmulDescSetAttribute(Product *product, int attribute, const void *value, size_t bytes)
{
    if (attribute == 8 && bytes == 8) return product->bias = *(const void *const *)value, 0;
    if (bytes != 4 || (attribute != 3 && attribute != 4 && attribute != 7)) return 7;
    *(attribute == 3 ? &product->ta : attribute == 4 ? &product->tb : &product->epilogue) = *(const int32_t *)value;
    return 0;
}

int cublasLtMatrixLayoutCreate(Stored **to, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    if (ld < (int64_t)rows || made((void **)to, sizeof **to)) return 7;
    return **to = (Stored){type, rows, columns, ld, 1, 0}, 0;
}

int cublasLtMatrixLayoutSetAttribute(Stored *stored, int attribute, const void *value, size_t bytes)
{
    if (attribute == 5 && bytes == 4) stored->count = *(const int32_t *)value;
    else if (attribute == 6 && bytes == 8) stored->stride = *(const int64_t *)value;
    else return 7;
    return 0;
}

int cublasLtMatmulPreferenceSetAttribute(Preference *preference, int attribute, const void *value, size_t bytes)
{
    if (attribute == 1 && bytes == 8) preference->workspace = *(const uint64_t *)value;
    else if (attribute == 3 && bytes == 4) preference->reductions = *(const uint32_t *)value;
    else return 7;
    return 0;
}

static int fits(const Product *p, const Stored *a, const Stored *b, const Stored *c)
{
    const uint64_t m = p->ta ? a->columns : a->rows, k = p->ta ? a->rows : a->columns;
    const uint64_t l = p->tb ? b->columns : b->rows, n = p->tb ? b->rows : b->columns;
    if (a->count != b->count || a->count != c->count) return 0;
    return k == l && c->rows == m && c->columns == n && a->type == b->type && a->type == c->type && p->scale == (a->type == 1);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const Product *p, const Stored *a, const Stored *b, const Stored *c,
                                   const Stored *d, const Preference *preference, int wanted, Heuristic *found,
                                   int *count)
{
    if (!handle || !fits(p, a, b, c) || c != d || wanted < 1 || preference->reductions != 2) return 7;
    *count = a->rows < 100 ? wanted < 2 ? wanted : 2 : 0; /* two algorithms, none for larger ones */
    if (p->epilogue & 4 && !p->bias) return 15;
    for (int i = 0; i < *count; ++i) found[i] = (Heuristic){{42}, preference->workspace, 0, 1.0f, {0}};
    return 0;
}

int cublasLtMatmul(void *handle, const Product *p, const void *alpha, const void *A, const Stored *a, const void *B,
                   const Stored *b, const void *beta, const void *C, const Stored *c, void *D, const Stored *d,
                   const Heuristic *algorithm, void *workspace, size_t bytes, void *stream)
{
    if (!handle || !fits(p, a, b, d) || C != D || c != d || algorithm->algorithm[0] != 42 || stream) return 7;
    if (!workspace || bytes < algorithm->workspace) return 7;
    const int k = (int)(p->ta ? a->rows : a->columns), m = (int)d->rows, n = (int)d->columns;
    for (int i = 0; i < d->count; ++i) {
        void *const out = (void *)moved(D, d->type, i * d->stride);
        const int status = gemm(p->ta, p->tb, m, n, k, alpha, moved(A, a->type, i * a->stride), a->ld,
                                moved(B, b->type, i * b->stride), b->ld, beta, out, d->ld, a->type, p->compute);
        if (status) return status;
        for (int64_t e = 0; e < (int64_t)m * n; ++e) {
            const int64_t at = e % m + e / m * d->ld;
            double x = get(out, d->type, at);
            if (p->epilogue & 4) x += get(p->bias, d->type, e % m);
            if (p->epilogue & 2) x = x < 0 ? 0 : x;
            if (p->epilogue & 32) x *= 0.5 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
            put(out, d->type, at, x);
        }
    }
    return 0;
}
