"""A stand-in of an emitter of fused kernels: the C interface of ``fused.h``, computed on the host in C++.

Its planes of a constant B are B itself, widened, so that a test can tell whether they were used.
"""

from codegen.emit import Fused
from codegen.plan import Plan

HOST = Fused("tests.codegen.kernel_stand", ("dtype", "plane_dtype", "c_dtype", "layout", "epilogue"))

TEXT = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include "SCHEME.h"

namespace {
char said[200];
float wide(const void* matrix, long i) {
  const unsigned bits = unsigned(((const unsigned short*)matrix)[i]) << 16;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
int refuse(const char* why) { snprintf(said, sizeof said, "%s", why); return 2; }
struct Handle { int launches; };
long at(long row, long column, long ld, bool across) { return across ? column * ld + row : row * ld + column; }
}

extern "C" {
int SCHEME_open(void** handle) {
  if (getenv("NO_DEVICE")) { snprintf(said, sizeof said, "no usable CUDA device"); return 4; }
  *handle = new Handle{0};
  return 0;
}
size_t SCHEME_workspace(int64_t M, int64_t N, int64_t K) { return M > 0 && N > 0 && K > 0 ? 4096 + 256 * M : 0; }
size_t SCHEME_planes_a(int64_t M, int64_t K) { return 4 * M * K; }
size_t SCHEME_planes_b(int64_t N, int64_t K) { return 4 * N * K; }
int SCHEME_pack_b(void* handle, void*, int64_t N, int64_t K, const void* B, int64_t ldb, void* planes, size_t bytes) {
  if (!handle || bytes != size_t(4 * N * K)) return refuse("wrong planes");
  for (long k = 0; k < K; ++k)
    for (long n = 0; n < N; ++n) ((float*)planes)[k * N + n] = wide(B, at(k, n, ldb, ACROSS_B));
  return 0;
}
int SCHEME_launch(void* handle, void* stream, int64_t M, int64_t N, int64_t K, double alpha, const void* A, int64_t lda,
                  const void* B, int64_t ldb, double beta, void* C, int64_t ldc, const void* planes_a,
                  const void* planes_b, void* workspace, size_t workspace_bytes EXTRAS) {
  if (!handle || stream != (void*)7) return refuse("wrong handle or stream");
  if (workspace_bytes != SCHEME_workspace(M, N, K) || planes_a) return refuse("wrong workspace or planes");
  for (int i = 0; i < 4096; ++i) if (((char*)workspace)[i]) return refuse("the workspace does not begin with zeros");
  memset((char*)workspace + 4096, 0xFF, workspace_bytes - 4096);
  for (long m = 0; m < M; ++m)
    for (long n = 0; n < N; ++n) {
      float sum = 0;
      for (long k = 0; k < K; ++k)
        sum += wide(A, at(m, k, lda, ACROSS_A)) *
               (planes_b ? ((const float*)planes_b)[k * N + n] : wide(B, at(k, n, ldb, ACROSS_B)));
      sum = float(alpha * sum + (beta ? beta * ((float*)C)[m * ldc + n] : 0));
      STEPS
      ((float*)C)[m * ldc + n] = sum;
    }
  return 0;
}
void SCHEME_close(void* handle) { delete (Handle*)handle; }
const char* SCHEME_error(void) { return said; }
}

#ifdef SUBCUBIC_MAIN
int main() {
  void* handle;
  const int status = SCHEME_open(&handle);
  if (status) { fprintf(stderr, "%s\n", SCHEME_error()); return status; }
  SCHEME_close(handle);
  printf("PASS\n");
}
#endif
"""

# Of "bias,residual,scale", the only epilogue that the stand-in has.
STEPS = """
      sum += ((const float*)extras->bias)[n] + ((const float*)extras->residual)[m * extras->residual_ld + n];
      sum *= float(extras->scale);"""


def kernel_stand(plan: Plan, version: str, **options: str) -> str:
    layout = options.get("layout", "nn")
    steps = STEPS if options.get("epilogue") else ""
    text = TEXT.replace("STEPS", steps).replace("EXTRAS", ", const SCHEME_extras* extras" if steps else "")
    text = text.replace("SCHEME", prefix(plan, **options))
    for side, letter in zip("AB", layout, strict=True):
        text = text.replace(f"ACROSS_{side}", str(letter == "t").lower())
    return f"// by subcubic, version {version}\n{text}"


def prefix(plan: Plan, **options: str) -> str:
    return "_".join([plan.name, *options.values()]).replace(",", "_")


# What takes nvcc's place: a C++ compiler that leaves out the options it does not know.
NVCC = """#!/bin/sh
for word; do
  shift
  case $word in -gencode*|-Xcompiler) ;; *) set -- "$@" "$word" ;; esac
done
exec g++ -x c++ -w "$@"
"""
