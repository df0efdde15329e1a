/* C = alpha * A B + beta * C by SCHEME. All matrices are row-major; every size and leading dimension is in elements.
 * Status codes: 0 done, 1 a CUDA or cuBLAS call failed, 2 wrong arguments, 4 no device or no cuBLAS. SCHEME_error
 * says more, for the calling host thread. */
#ifndef SCHEME_H
#define SCHEME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C_i = A_i B_i for i < count, queued on the CUDA stream; matrices of one kind lie `stride` elements apart. A launch makes
 * one call for all its products, or one for each: then A and B may lie in the matrices of the launch, with their lda
 * and ldb. */
typedef int (*SCHEME_gemm)(void* context, void* stream, int64_t count, int64_t M, int64_t N, int64_t K, const void* A,
                           int64_t lda, int64_t stride_a, const void* B, int64_t ldb, int64_t stride_b, void* C,
                           int64_t ldc, int64_t stride_c);

/* Makes a handle for the current device; product = NULL opens cuBLAS ($SUBCUBIC_CUBLAS if set, else the usual names)
 * and waits for a tiny first product, so not while a graph is being captured. */
int SCHEME_open(void** handle, SCHEME_gemm product, void* context);

/* Bytes of device workspace (256-byte aligned) of a launch of these sizes; 0 for sizes that cannot be launched. */
size_t SCHEME_workspace(int64_t M, int64_t N, int64_t K);

#ifdef SUBCUBIC_EPILOGUE
SCHEME_EXTRAS

#endif  // SUBCUBIC_EPILOGUE
/* Queues everything on the stream; no allocation, no synchronisation, so it can be captured in a CUDA graph.
 * A is M x K, B is K x N, C is M x N. With beta = 0, C is not read. */
int SCHEME_launch(void* handle, void* stream, int64_t M, int64_t N, int64_t K, double alpha, const void* A,
                  int64_t lda, const void* B, int64_t ldb, double beta, void* C, int64_t ldc, void* workspace,
#ifdef SUBCUBIC_EPILOGUE
                  size_t workspace_bytes, const SCHEME_extras* extras);
#else  // SUBCUBIC_EPILOGUE
                  size_t workspace_bytes);
#endif  // SUBCUBIC_EPILOGUE

/* Frees a handle; null is allowed. */
void SCHEME_close(void* handle);

/* The last error of the calling host thread in one sentence. */
const char* SCHEME_error(void);

#ifdef __cplusplus
}
#endif

#endif
