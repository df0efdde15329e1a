/* The entry points of cuBLAS and cuBLASLt that the baselines use, for matrices of FP64, FP32 and bf16 in host memory. Everything
 * is column-major; what the libraries would refuse is refused, and `alive` counts what was not destroyed. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int compute, scale, ta, tb; } Product;
typedef struct { int type; uint64_t rows, columns; int64_t ld; } Stored;
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

int cublasLtCreate(void **handle) { return made(handle, 1); }
int cublasLtDestroy(void *handle) { return gone(handle); }
int cublasLtMatmulDescDestroy(void *what) { return gone(what); }
int cublasLtMatrixLayoutDestroy(void *what) { return gone(what); }
int cublasLtMatmulPreferenceDestroy(void *what) { return gone(what); }
int cublasLtMatmulPreferenceCreate(Preference **to) { return made((void **)to, sizeof **to); }

int cublasLtMatmulDescCreate(Product **to, int compute, int scale)
{
    if (made((void **)to, sizeof **to)) return 3;
    (*to)->compute = compute, (*to)->scale = scale;
    return 0;
}

int cublasLtMatmulDescSetAttribute(Product *product, int attribute, const int32_t *value, size_t bytes)
{
    if (bytes != 4 || (attribute != 3 && attribute != 4)) return 7;
    return *(attribute == 3 ? &product->ta : &product->tb) = *value, 0;
}

int cublasLtMatrixLayoutCreate(Stored **to, int type, uint64_t rows, uint64_t columns, int64_t ld)
{
    if (ld < (int64_t)rows || made((void **)to, sizeof **to)) return 7;
    return **to = (Stored){type, rows, columns, ld}, 0;
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
    return k == l && c->rows == m && c->columns == n && a->type == b->type && a->type == c->type && p->scale == (a->type == 1);
}

int cublasLtMatmulAlgoGetHeuristic(void *handle, const Product *p, const Stored *a, const Stored *b, const Stored *c,
                                   const Stored *d, const Preference *preference, int wanted, Heuristic *found,
                                   int *count)
{
    if (!handle || !fits(p, a, b, c) || c != d || wanted != 1 || preference->reductions != 2) return 7;
    *count = a->rows < 100; /* no algorithm for larger ones */
    *found = (Heuristic){{42}, preference->workspace, 0, 1.0f, {0}};
    return 0;
}

int cublasLtMatmul(void *handle, const Product *p, const void *alpha, const void *A, const Stored *a, const void *B,
                   const Stored *b, const void *beta, const void *C, const Stored *c, void *D, const Stored *d,
                   const Heuristic *algorithm, void *workspace, size_t bytes, void *stream)
{
    if (!handle || !fits(p, a, b, d) || C != D || c != d || algorithm->algorithm[0] != 42 || stream) return 7;
    if (!workspace || bytes < algorithm->workspace) return 7;
    const int k = (int)(p->ta ? a->rows : a->columns);
    return gemm(p->ta, p->tb, (int)d->rows, (int)d->columns, k, alpha, A, a->ld, B, b->ld, beta, D, d->ld, a->type,
                p->compute);
}
