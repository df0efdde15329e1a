// Enough of CUDA for a C++ compiler to run an emitted fused kernel on the host, with the warp instructions of sm_80 as
// the PTX ISA defines them.
//
// The threads of a CTA are fibers of one host thread. A warp runs until it needs another one, so warps drift apart as
// far as the barriers allow, in the order that host_mode chooses. Asynchronous copies land either at once or at the
// last moment that the waits allow. Between them these show a missing barrier or wait as a wrong result.
#include <ucontext.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "types_on_host.h"

#define __device__
#define __constant__
#define __host__
#define __global__
#define __shared__ static  // of one block at a time
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
static dim3 blockIdx, threadIdx, blockDim, gridDim;

struct alignas(16) float4 {
  float x, y, z, w;
};

static const char* violation = nullptr;
static void require(bool condition, const char* otherwise) {
  if (!condition && !violation) violation = otherwise;
}

template <class W>
W __ldcs(const W* from) {
  require(reinterpret_cast<uintptr_t>(from) % sizeof(W) == 0, "a vector load is not aligned");
  return *from;
}
// Each lane as if it were alone, so that every one of them writes its own maximum.
static unsigned __reduce_max_sync(unsigned, unsigned value) { return value; }
static unsigned atomicAdd(unsigned* to, unsigned value) {
  *to += value;
  return *to - value;
}
static unsigned atomicMax(unsigned* to, unsigned value) {
  const unsigned old = *to;
  if (value > old) *to = value;
  return old;
}
template <class W>
W __ldcg(const W* from) {
  return __ldcs(from);
}
template <class W>
void __stcg(W* to, const W& value) {
  require(reinterpret_cast<uintptr_t>(to) % sizeof(W) == 0, "a vector store is not aligned");
  *to = value;
}
template <class T>
T min(T a, T b) {
  return b < a ? b : a;
}
template <class T>
T max(T a, T b) {
  return a < b ? b : a;
}

// Fibers.

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  bool done;
  const unsigned* waits_for;  // a generation that must differ from `seen`, or null
  unsigned seen;
  std::vector<std::vector<std::function<void()>>> groups;  // of asynchronous copies; the last one is open
};
struct Barrier {
  unsigned arrived, generation;
};
struct Warp {
  Barrier barrier;
  uint32_t slots[2][32][6];
  int parity[32];
};

static std::vector<Fiber> fibers;
static std::vector<Warp> warps;
static std::vector<Barrier> cta_barriers;  // of the CTAs that run together, as a cluster
static unsigned running;                   // fiber, counted through all of them
static ucontext_t scheduler;
static std::function<void()>* body;
static bool warps_backwards, copies_late;
static std::vector<unsigned char> shared_bytes;
static std::vector<std::pair<uintptr_t, size_t>> readable;

static bool may_read(const void* from, size_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(from);
  for (const auto& [start, size] : readable)
    if (first >= start && first + bytes <= start + size) return true;
  return readable.empty();
}
template <class W>
W __ldg(const W* from) {
  require(reinterpret_cast<uintptr_t>(from) % sizeof(W) == 0, "a load is not aligned");
  require(may_read(from, sizeof(W)), "a load reads outside the matrices and the workspace");
  return *from;
}

static Fiber& current() { return fibers[running]; }

static void arrive(Barrier& barrier, unsigned members) {
  if (++barrier.arrived == members) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  Fiber& fiber = current();
  fiber.waits_for = &barrier.generation;
  fiber.seen = barrier.generation;
  swapcontext(&fiber.context, &scheduler);
}

static void __syncthreads() { arrive(cta_barriers[running / blockDim.x], blockDim.x); }
static int __syncthreads_or(int vote) {
  static int any;
  any = any || vote;
  __syncthreads();
  const int result = any;
  __syncthreads();
  any = 0;
  __syncthreads();
  return result;
}

static void start_fiber() {
  (*body)();
  current().done = true;
  swapcontext(&current().context, &scheduler);
}

static bool step(unsigned number) {
  Fiber& fiber = fibers[number];
  if (fiber.done || (fiber.waits_for && *fiber.waits_for == fiber.seen)) return false;
  fiber.waits_for = nullptr;
  running = number;
  threadIdx.x = number % blockDim.x;
  if (cta_barriers.size() > 1) blockIdx.x = number / blockDim.x;
  swapcontext(&scheduler, &fiber.context);
  return true;
}

// Runs one CTA, or several together whose blockIdx.x are 0, 1, ...
static void run_cta(unsigned threads, std::function<void()>& each, unsigned together = 1) {
  body = &each;
  threads *= together;
  fibers.resize(threads);
  warps.assign(threads / 32, Warp{});
  cta_barriers.assign(together, {});
  for (Fiber& fiber : fibers) {
    if (!fiber.stack) fiber.stack.reset(new char[1 << 16]);
    fiber.done = false;
    fiber.waits_for = nullptr;
    fiber.groups.assign(1, {});
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = 1 << 16;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, start_fiber, 0);
  }
  // Each CTA goes on until it needs another one, so that CTAs drift apart as far as anything lets them.
  const unsigned each_cta = threads / 32 / together;
  for (bool any = true; any;) {
    any = false;
    for (unsigned cta = 0; cta < together; ++cta)
      for (bool moved = true; moved;) {
        moved = false;
        for (unsigned i = 0; i < each_cta; ++i) {
          const unsigned first = (cta * each_cta + (warps_backwards ? each_cta - 1 - i : i)) * 32;
          for (bool more = true; more;) {
            more = false;
            for (unsigned lane = 0; lane < 32; ++lane) more = step(first + lane) || more;
            moved = moved || more;
          }
        }
        any = any || moved;
      }
  }
  for (const Fiber& fiber : fibers) require(fiber.done, "the threads of a CTA wait for each other for ever");
}

typedef void* cudaStream_t;
template <class Each>
void run_grid(dim3 grid, unsigned threads, size_t shared, cudaStream_t, Each&& each) {
  gridDim = grid;
  blockDim = dim3(threads);
  std::function<void()> call(each);
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
      if (shared) {
        shared_bytes.assign(shared, 0xFF);
        run_cta(threads, call);
      } else {  // a kernel without barriers
        for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) call();
      }
    }
}

template <class Each>
void run_grid(dim3 grid, unsigned threads, Each&& each) {
  run_grid(grid, threads, 0, nullptr, each);
}

// The instructions.

static uint32_t shared_base() { return 0; }

static void copy_async(uint32_t to, const void* from, int bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(from);
  const bool inside = bytes == 0 || may_read(from, bytes);
  require(inside, "a copy reads outside the matrices and the workspace");
  require(to % 16 == 0 && first % 16 == 0 && bytes >= 0 && bytes <= 16, "a copy is not aligned");
  require(to + 16 <= shared_bytes.size(), "a copy ends outside shared memory");
  if (!inside) bytes = 0;
  const auto copy = [=] {
    memset(&shared_bytes[to], 0, 16);
    memcpy(&shared_bytes[to], from, bytes);
  };
  if (copies_late)
    current().groups.back().push_back(copy);
  else
    copy();
}

static void commit_copies() { current().groups.emplace_back(); }

template <int PENDING>
void wait_copies() {
  auto& groups = current().groups;
  while (groups.size() > PENDING + 1) {
    for (const auto& copy : groups.front()) copy();
    groups.erase(groups.begin());
  }
}

// Every lane hands in some words, and all of them see the words of the whole warp.
static const uint32_t (*exchange(const uint32_t* words, int count))[6] {
  Warp& warp = warps[running / 32];
  const int lane = threadIdx.x % 32, parity = warp.parity[lane] ^= 1;
  memcpy(warp.slots[parity][lane], words, count * sizeof(uint32_t));
  arrive(warp.barrier, 32);
  return warp.slots[parity];
}

static void load_matrices(uint32_t (&to)[4], uint32_t from, bool transposed) {
  const uint32_t(*rows)[6] = exchange(&from, 1);
  const unsigned lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {
    unsigned banks = 0;
    for (int row = 0; row < 8; ++row) {
      const uint32_t at = rows[8 * i + row][0];
      require(at % 16 == 0 && at + 16 <= shared_bytes.size(), "ldmatrix has a wrong address");
      banks |= 1u << at / 16 % 8;
    }
    require(banks == 0xFF, "the rows of an ldmatrix lie in the same banks");
    uint16_t pair[2];
    for (int e = 0; e < 2; ++e) {
      const unsigned row = transposed ? 2 * (lane % 4) + e : lane / 4, column = transposed ? lane / 4 : 2 * (lane % 4) + e;
      memcpy(&pair[e], &shared_bytes[rows[8 * i + row][0] + 2 * column], 2);
    }
    to[i] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
  }
}
static void load_matrices(uint32_t (&to)[4], uint32_t from) { load_matrices(to, from, false); }
static void load_transposed(uint32_t (&to)[4], uint32_t from) { load_matrices(to, from, true); }

template <class T>
float element(uint32_t pair, int which) {
  const uint16_t bits = pair >> 16 * which;
  T value;
  memcpy(&value, &bits, 2);
  return value;
}

// m16n8k16. Lane 4 g + t holds of a: rows g and g + 8 (registers 0 and 1), columns 2t and 2t + 1, and eight columns
// further in registers 2 and 3; of b: rows 2t and 2t + 1, eight rows further in register 1, column g; of c: rows g and
// g + 8, columns 2t and 2t + 1.
template <class T>
void multiply_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const uint32_t(*all)[6] = exchange(words, 6);
  const int lane = threadIdx.x % 32;
  for (int e = 0; e < 4; ++e) {
    const int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
    for (int k = 0; k < 16; ++k) {
      const float x = element<T>(all[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2);
      const float y = element<T>(all[column * 4 + k % 8 / 2][4 + k / 8], k % 2);
      c[e] += x * y;
    }
  }
}

// The runtime.

typedef int cudaError_t;
enum { cudaSuccess = 0 };
enum { cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout };
enum { cudaSharedmemCarveoutMaxShared = 100 };
enum { cudaFuncAttributeNonPortableClusterSizeAllowed = 10 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin
};
struct cudaFuncAttributes {
  int ptxVersion;
};
static int multiprocessors = 2, capability = 8, built_for = 90;
static const char* cudaGetErrorString(cudaError_t code) { return code && violation ? violation : "no error"; }
static cudaError_t cudaGetLastError() { return cudaSuccess; }
static cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* of, const void*) { return of->ptxVersion = built_for, cudaSuccess; }
static cudaError_t cudaFuncSetAttribute(const void*, int, int) { return cudaSuccess; }
static cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
static cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
static cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  const int all[] = {multiprocessors, capability, 232448};
  return *value = all[which], cudaSuccess;
}
enum cudaMemcpyKind { cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice };
static cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return *memory = aligned_alloc(256, (bytes + 255) / 256 * 256), cudaSuccess;
}
template <class T>
cudaError_t cudaFree(T* memory) {
  return free(memory), cudaSuccess;
}
static cudaError_t cudaMemset(void* to, int value, size_t bytes) { return memset(to, value, bytes), cudaSuccess; }
static cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { return cudaMemset(to, value, bytes); }
static cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  return memcpy(to, from, bytes), cudaSuccess;
}
static cudaError_t cudaDeviceSynchronize() { return violation ? 1 : cudaSuccess; }
static cudaError_t cudaDriverGetVersion(int* version) { return *version = 13000, cudaSuccess; }
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
};
static cudaError_t cudaOccupancyMaxPotentialClusterSize(int* size, const void*, const cudaLaunchConfig_t*) {
  return *size = 16, cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* count, Kernel, int, size_t) {
  return *count = 1, cudaSuccess;
}

extern "C" {
// How the next launches run, on how many multiprocessors with one CTA each.
void host_mode(int backwards, int late, int count) {
  warps_backwards = backwards, copies_late = late, multiprocessors = count;
}
// A range that asynchronous copies may read; the first one forbids everything else.
void host_readable(const void* start, size_t bytes) {
  if (bytes) readable.emplace_back(reinterpret_cast<uintptr_t>(start), bytes);
  else readable.clear();
}
// What was done against the rules since the last call, or null.
const char* host_violation() { return std::exchange(violation, nullptr); }
}
