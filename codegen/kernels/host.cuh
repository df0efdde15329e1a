// What the host side of every file shares: status codes, the last error in one sentence, sizes and alignment.
#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>

#ifndef __CUDACC_RTC__  // host code
namespace {

enum Status { kDone = 0, kFailed = 1, kMisuse = 2, kMissing = 4 };

thread_local char last_error[512] = "";

Status report(Status status, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof(last_error), format, values);
  va_end(values);
  return status;
}

Status checked(cudaError_t code, const char* what) {
  return code == cudaSuccess ? kDone : report(kFailed, "%s failed: %s", what, cudaGetErrorString(code));
}

int64_t up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Whether rows `ld` elements apart, from a pointer on, all start on 16-byte boundaries.
template <class T>
bool row_aligned(const T* pointer, int64_t ld) {
  return reinterpret_cast<uintptr_t>(pointer) % 16 == 0 && ld * sizeof(T) % 16 == 0;
}

}  // namespace
#endif
