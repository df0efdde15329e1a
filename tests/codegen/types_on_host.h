// CUDA's vectors and storage types for a C++ compiler on the host.
#include <cmath>
#include <cstdint>
#include <cstring>

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};

struct __nv_bfloat16 {
  uint16_t bits;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float value) {
    uint32_t wide;
    memcpy(&wide, &value, 4);
    bits = value != value ? 0x7FFF : (wide + 0x7FFF + ((wide >> 16) & 1)) >> 16;
  }
  operator float() const {
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    memcpy(&value, &wide, 4);
    return value;
  }
};

// By the compiler's own half type, whose conversions round to nearest even and overflow to infinity, as on the device.
#define __CUDA_FP16_TYPES_EXIST__  // as cuda_fp16.h says it
struct __half {
  _Float16 value;
  __half() = default;
  explicit __half(float from) : value(static_cast<_Float16>(from)) {}
  operator float() const { return static_cast<float>(value); }
};
