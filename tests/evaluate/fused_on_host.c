/* The C interface of fused kernels for matrices of bf16 in host memory, by the standard algorithm, so that what loads,
 * packs and launches can be tested without a GPU. Planes are copies of a whole operand, so a launch that gets planes
 * does not depend on the operand itself. Compiled with -DSCHEME_x=... for every entry point. */
#include "fused.h"

#include <stdlib.h>
#include <string.h>

#ifndef TRANSPOSED_B
#define TRANSPOSED_B 0
#endif

/* Mistakes that a test must find: the last row is not written, the gap after it is, one term is left out where K is
 * odd, the planes of B are not used, or the workspace is not left as it was. */
enum { kNone, kRow, kGap, kTerm, kPlanes, kDirty };
#ifndef MISTAKE
#define MISTAKE kNone
#endif

static const char* message = "";
static int opened = 0;

static int refused(const char* text) {
  message = text;
  return 2;
}

static float widened(uint16_t bits) {
  const uint32_t word = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &word, 4);
  return value;
}

static uint16_t narrowed(float value) {
  uint32_t word;
  memcpy(&word, &value, 4);
  return (uint16_t)((word + 0x7FFF + ((word >> 16) & 1)) >> 16);
}

int SCHEME_open(void** handle) {
  ++opened;
  *handle = &opened;
  return 0;
}

void SCHEME_close(void* handle) { opened -= handle == &opened; }

const char* SCHEME_error(void) { return message; }

size_t SCHEME_workspace(int64_t M, int64_t N, int64_t K) { return M > 0 && N > 0 && K > 0 && K < 1000 ? 8192 : 0; }

size_t SCHEME_planes_a(int64_t M, int64_t K) { return (size_t)(M * K * 2); }

size_t SCHEME_planes_b(int64_t N, int64_t K) { return (size_t)(N * K * 2); }

static int packed(int64_t rows, int64_t columns, const uint16_t* from, int64_t ld, uint16_t* planes, size_t bytes) {
  if (bytes < (size_t)(rows * columns * 2)) return refused("the planes need more bytes");
  for (int64_t i = 0; i < rows; ++i) memcpy(planes + i * columns, from + i * ld, columns * 2);
  return 0;
}

int SCHEME_pack_a(void* handle, void* stream, int64_t M, int64_t K, const void* A, int64_t lda, void* planes,
                  size_t planes_bytes) {
  return handle != &opened || stream ? refused("no handle") : packed(M, K, A, lda, planes, planes_bytes);
}

int SCHEME_pack_b(void* handle, void* stream, int64_t N, int64_t K, const void* B, int64_t ldb, void* planes,
                  size_t planes_bytes) {
  if (handle != &opened || stream) return refused("no handle");
  return TRANSPOSED_B ? packed(N, K, B, ldb, planes, planes_bytes) : packed(K, N, B, ldb, planes, planes_bytes);
}

int SCHEME_launch(void* handle, void* stream, int64_t M, int64_t N, int64_t K, double alpha, const void* A,
                  int64_t lda, const void* B, int64_t ldb, double beta, void* C, int64_t ldc, const void* planes_a,
                  const void* planes_b, void* workspace, size_t workspace_bytes) {
  if (handle != &opened || stream) return refused("no handle");
  if (workspace_bytes < 8192) return refused("the workspace is too small");
  for (int i = 0; i < 4096; ++i)
    if (((const char*)workspace)[i]) return refused("the start of the workspace is not zero");
  if (MISTAKE == kDirty) ((char*)workspace)[4095] = 1;
  if (MISTAKE == kPlanes && planes_b) planes_b = workspace;
  const uint16_t *a = planes_a ? planes_a : A, *b = planes_b ? planes_b : B;
  if (planes_a) lda = K;
  if (planes_b) ldb = TRANSPOSED_B ? K : N;
  if (MISTAKE == kGap && ldc > N) ((uint16_t*)C)[N] = 0;
  for (int64_t i = 0; i < M - (MISTAKE == kRow); ++i)
    for (int64_t j = 0; j < N; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < K - (MISTAKE == kTerm && K % 2); ++k)
        sum += (double)widened(a[i * lda + k]) * widened(TRANSPOSED_B ? b[j * ldb + k] : b[k * ldb + j]);
      uint16_t* c = (uint16_t*)C + i * ldc + j;
      *c = narrowed((float)(alpha * sum + (beta ? beta * widened(*c) : 0)));
    }
  return 0;
}
