/* C = alpha * A B + beta * C by SCHEME, in one fused kernel after the planes are made. Sizes and leading dimensions are
 * in elements. Status codes: 0 done, 1 a CUDA call failed, 2 wrong arguments, 4 no device for which the file was built.
 * SCHEME_error says more, for the calling host thread. */
#ifndef SCHEME_H
#define SCHEME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a handle for the current device and loads the kernels, so not while a graph is being captured. */
int SCHEME_open(void** handle);

/* Bytes of device workspace (256-byte aligned) of a launch of these sizes; 0 for sizes that cannot be launched. The
 * first launch with a workspace needs its first 4096 bytes to be zero; launches leave them zero. */
size_t SCHEME_workspace(int64_t M, int64_t N, int64_t K);

/* Bytes of the planes of a constant A (M x K) or B (K x N), for the two functions below. */
size_t SCHEME_planes_a(int64_t M, int64_t K);
size_t SCHEME_planes_b(int64_t N, int64_t K);

/* Makes the planes of a constant operand once, into device memory (256-byte aligned) that launches then read. */
int SCHEME_pack_a(void* handle, void* stream, int64_t M, int64_t K, const void* A, int64_t lda, void* planes,
                  size_t planes_bytes);
int SCHEME_pack_b(void* handle, void* stream, int64_t N, int64_t K, const void* B, int64_t ldb, void* planes,
                  size_t planes_bytes);

#ifdef SUBCUBIC_EPILOGUE
SCHEME_EXTRAS

#endif  // SUBCUBIC_EPILOGUE
/* Queues everything on the stream; no allocation, no synchronisation, so it can be captured in a CUDA graph. A and B
 * start on 16-byte boundaries. planes_a, planes_b: what the functions above made of the same A and B, or null. One
 * workspace serves one launch at a time. With beta = 0, C is not read; a guarded kernel takes no other beta. */
int SCHEME_launch(void* handle, void* stream, int64_t M, int64_t N, int64_t K, double alpha, const void* A,
                  int64_t lda, const void* B, int64_t ldb, double beta, void* C, int64_t ldc, const void* planes_a,
#ifdef SUBCUBIC_EPILOGUE
                  const void* planes_b, void* workspace, size_t workspace_bytes, const SCHEME_extras* extras);
#else  // SUBCUBIC_EPILOGUE
                  const void* planes_b, void* workspace, size_t workspace_bytes);
#endif  // SUBCUBIC_EPILOGUE

/* Frees a handle; null is allowed. */
void SCHEME_close(void* handle);

/* The last error of the calling host thread in one sentence. */
const char* SCHEME_error(void);

#ifdef __cplusplus
}
#endif

#endif
