// Thin kernels besides: clusters of CTAs that read each other's shared memory, and bulk copies of boxes of a tensor. Comes
// after fused_on_host.h and the types.
#include <cmath>
#include <map>

[[maybe_unused]] static const int with_clusters = capability = 9;
static std::vector<std::vector<float>> cluster_floats;  // shared memory of each CTA
static Barrier cluster_barrier, start_barrier;

static std::vector<unsigned> received;  // bytes that came, of each CTA
static std::vector<unsigned> expected;  // that it has waited for, of all turns
constexpr int kCounterBytes = 16;

static float* shared_floats() { return cluster_floats[blockIdx.x].data(); }
static int cluster_size() { return gridDim.x; }
static int cluster_rank() { return blockIdx.x; }
static void cluster_wait() { arrive(cluster_barrier, gridDim.x * blockDim.x); }
static void let_next_come() {}

// What comes before the wait reads nothing, but with early 2 of B.
static std::vector<bool> waited;  // by thread
static const char *first_of_b, *end_of_b;  // that may be read then
static void wait_for_before() { waited[running] = true; }
static void require_waited(const void* from) {
  const char* place = static_cast<const char*>(from);
  require(waited[running] || (place >= first_of_b && place < end_of_b), "a load does not wait for the kernel before");
}
template <class T>
void computed_here(T*&) {}

// What is sent lands at once, or if copies are late when its receiver waits for it.
static std::vector<std::pair<float*, float>> under_way;
static std::vector<bool> told;  // by thread: that its block is there
static void begin_to_receive() { told[running] = true; }
static void wait_for_others() {
  require(told[running], "a thread waits for the others without having told them");
  told[running] = false;
  arrive(start_barrier, gridDim.x * blockDim.x);
}
static void expect(int bytes) {
  require(threadIdx.x == 0, "one thread says what comes");
  expected[blockIdx.x] += bytes;
}
static void send(const float* mine, int rank, float value) {
  const size_t place = mine - shared_floats();
  require(rank < static_cast<int>(gridDim.x) && place < cluster_floats[rank].size(), "a number goes outside the cluster's memory");
  require(rank != static_cast<int>(blockIdx.x), "a block sends to itself");
  if (violation) return;
  if (copies_late) under_way.emplace_back(&cluster_floats[rank][place], value);
  else cluster_floats[rank][place] = value;
  received[rank] += sizeof(float);
}
static void receive(int) {
  const unsigned here = blockIdx.x;
  while (received[here] < expected[here]) {
    Fiber& fiber = current();
    fiber.waits_for = &received[here];
    fiber.seen = received[here];
    swapcontext(&fiber.context, &scheduler);
  }
  require(received[here] == expected[here], "more came than was expected");
  for (const auto& [place, value] : under_way) *place = value;
  under_way.clear();
}

template <class T>
T fetch(const T* from) {
  require_waited(from);
  return __ldg(from);
}

template <int WORDS>
static void stream(uint32_t (&to)[WORDS], const void* from, bool there) {
  for (uint32_t& word : to) word = 0;
  if (!there) return;
  require_waited(from);
  const bool inside = may_read(from, sizeof to), aligned = reinterpret_cast<uintptr_t>(from) % sizeof to == 0;
  require(inside, "a load reads outside the matrices");
  require(aligned, "a load is not aligned");
  if (inside && aligned) memcpy(&to, from, sizeof to);
}

template <int SIDE>
uint32_t halves(uint32_t first, uint32_t second) {
  return SIDE ? first >> 16 | (second & 0xFFFF0000u) : (first & 0xFFFFu) | second << 16;
}

static void multiply_add(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  const uint32_t a[4] = {a0, a1, a2, a3};
  multiply_add<Input>(d, a, b0, b1);
}

static void __syncwarp() { arrive(warps[running / 32].barrier, 32); }

// The halves of a barrier of the cluster.
static std::vector<unsigned> cluster_seen;  // by thread: the generation at its arrival
static void cluster_arrive() {
  const unsigned members = gridDim.x * blockDim.x;
  cluster_seen[running] = cluster_barrier.generation;
  if (++cluster_barrier.arrived == members) cluster_barrier.arrived = 0, ++cluster_barrier.generation;
}
static void wait_while(const unsigned& value, unsigned is) {
  if (value != is) return;
  Fiber& fiber = current();
  fiber.waits_for = &value;
  fiber.seen = is;
  swapcontext(&fiber.context, &scheduler);
}
static void cluster_join() { wait_while(cluster_barrier.generation, cluster_seen[running]); }
static float4 four_of(const float* mine, int rank) {
  float4 found;
  const size_t place = mine - shared_floats();
  const bool inside = rank < static_cast<int>(gridDim.x) && place + 4 <= cluster_floats[rank].size();
  require(inside, "a block reads outside the cluster's memory");
  if (!violation) memcpy(&found, &cluster_floats[rank][place], sizeof found);
  return found;
}

// Bulk copies. Their bytes are counted at once; they land at once, or if copies are late when somebody waits for them.
struct Counter {
  int bytes;
  bool armed;
  unsigned turns;
  std::vector<std::function<void()>> late;
};
static std::vector<std::map<uint32_t, Counter>> counters;  // of each CTA, by address
struct TensorMap {
  const uint16_t* base;
  int64_t sizes[3], steps[2];
  int along, lines;
  bool swizzled;
};
constexpr int kRingAlignment = 1024;
static uint32_t ring_address() { return 0; }
static float* floats_at(uint32_t address) { return shared_floats() + address / sizeof(float); }
static char* bytes_at(uint32_t address) { return reinterpret_cast<char*>(shared_floats()) + address; }
static size_t bytes_here() { return cluster_floats[blockIdx.x].size() * sizeof(float); }

static void ready(uint32_t barriers, int count) {
  for (int i = 0; i < count; ++i) {
    require(barriers % 8 == 0 && barriers + 8 * (i + 1) <= bytes_here(), "a barrier lies outside shared memory");
    counters[blockIdx.x][barriers + 8 * i] = {};
  }
}
static Counter& counter_at(uint32_t barrier) {
  const bool there = counters[blockIdx.x].count(barrier);
  require(there, "a barrier is used before it is ready");
  return counters[blockIdx.x][barrier];
}
static void settle(Counter& counter) {
  if (counter.armed && counter.bytes == 0) counter.armed = false, ++counter.turns;
}
static void expect(uint32_t barrier, int bytes) {
  Counter& counter = counter_at(barrier);
  require(!counter.armed, "a barrier's turn is not over");
  counter.armed = true;
  counter.bytes += bytes;
  settle(counter);
}
static void await(uint32_t barrier, int parity) {
  Counter& counter = counter_at(barrier);
  wait_while(counter.turns, (counter.turns & 1) == static_cast<unsigned>(parity) ? counter.turns : counter.turns + 1);
  for (const auto& copy : std::exchange(counter.late, {})) copy();
}

static bool swizzled_banks;
static void copy_box(uint32_t to, const TensorMap& map, uint32_t barrier, int along, int line, int group) {
  const uint32_t bytes = 2 * map.along * map.lines;
  Counter& counter = counter_at(barrier);
  require(to % (map.swizzled ? 1024 : 128) == 0 && to + bytes <= bytes_here(), "a box does not fit into shared memory");
  require(map.swizzled ? map.along == 64 : map.along % 8 == 0, "there is no such box");
  require(along >= 0 && line >= 0 && group >= 0 && group < map.sizes[2], "a box begins outside the matrix");
  if (violation) return;
  swizzled_banks = map.swizzled;
  std::vector<uint16_t> box(map.along * map.lines, 0);
  const int64_t there = min<int64_t>(map.along, map.sizes[0] - along);
  for (int64_t i = 0; i < map.lines && line + i < map.sizes[1] && there > 0; ++i) {
    const uint16_t* from = map.base + group * map.steps[1] + (line + i) * map.steps[0] + along;
    require_waited(from);
    const bool inside = may_read(from, 2 * there);
    require(inside, "a box is read outside the matrices");
    if (inside) memcpy(&box[i * map.along], from, 2 * there);
  }
  const auto land = [=, target = bytes_at(to), swizzled = map.swizzled] {
    for (uint32_t at = 0; at < bytes; at += 16)
      memcpy(target + (swizzled ? at ^ (at >> 7 & 7) << 4 : at), reinterpret_cast<const char*>(box.data()) + at, 16);
  };
  if (copies_late) counter.late.push_back(land);
  else land();
  counter.bytes -= bytes;
  settle(counter);
}
static void ask_for_box(const TensorMap& map, int along, int line, int group) {
  require(along >= 0 && line >= 0 && group >= 0 && group < map.sizes[2], "a box begins outside the matrix");
}
static void ask_for_map(const TensorMap&) {}

template <bool TRANSPOSED>
void matrices(uint32_t (&to)[4], uint32_t from) {
  const uint32_t(*rows)[6] = exchange(&from, 1);
  const unsigned lane = threadIdx.x % 32;
  for (int i = 0; i < 4; ++i) {
    unsigned banks = 0;
    for (int row = 0; row < 8; ++row) {
      const uint32_t at = rows[8 * i + row][0];
      require(at % 16 == 0 && at + 16 <= bytes_here(), "ldmatrix has a wrong address");
      banks |= 1u << at / 16 % 8;
    }
    // Of columns that are no multiple of 64, rows share banks in pairs.
    require(__builtin_popcount(banks) >= (swizzled_banks ? 8 : 4), "the rows of an ldmatrix lie in the same banks");
    if (violation) return;
    uint16_t pair[2];
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned row = TRANSPOSED ? 2 * (lane % 4) + e : lane / 4, column = TRANSPOSED ? lane / 4 : 2 * (lane % 4) + e;
      memcpy(&pair[e], bytes_at(rows[8 * i + row][0] + 2 * column), 2);
    }
    to[i] = pair[0] | static_cast<uint32_t>(pair[1]) << 16;
  }
}

using Encoder = const char*;
static Encoder encoder = "an encoder";
static Encoder find_encoder() { return encoder; }
template <class Product, class Box>
Status encode(Encoder, const Product& p, const Box& box, TensorMap& map) {
  const int64_t along = kTransposedB ? p.K : p.N, lines = kTransposedB ? p.N : p.K;
  const bool apart = p.groups > 1 && p.stride_b > 0;
  map = {static_cast<const uint16_t*>(p.B), {along, lines, apart ? p.groups : 1}, {p.ldb, p.stride_b}, box.along, box.lines,
         box.swizzled};
  return kDone;
}

static int clusters_at_once(const void*, int, size_t, int size) { return multiprocessors / size; }

// The grid's first dimension is one cluster.
template <class Task>
cudaError_t run_clusters(dim3 grid, int threads, size_t floats, const Task& task, std::function<void()> call) {
  gridDim = grid;
  blockDim = dim3(threads);
  first_of_b = reinterpret_cast<const char*>(task.B);
  const auto elements_of_b = (task.groups - 1) * task.stride_b + (kTransposedB ? task.N : task.K) * task.ldb;
  const bool early = task.early == 2 && !task.offsets;
  end_of_b = early ? reinterpret_cast<const char*>(task.B + elements_of_b) : first_of_b;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      blockIdx.x = 0;
      cluster_floats.assign(grid.x, std::vector<float>(floats, NAN));
      received.assign(grid.x, 0);
      expected.assign(grid.x, 0);
      counters.assign(grid.x, {});
      told.assign(grid.x * threads, false);
      waited.assign(grid.x * threads, false);
      cluster_seen.assign(grid.x * threads, 0);
      cluster_barrier = start_barrier = {};
      run_cta(threads, call, grid.x);
    }
  return violation ? 1 : cudaSuccess;
}
template <class Kernel, class Task>
cudaError_t queue(Kernel kernel, dim3 grid, int threads, size_t shared, cudaStream_t, bool, const Task& task) {
  return run_clusters(grid, threads, (shared - kCounterBytes) / sizeof(float), task, [&] { kernel(task); });
}
template <class Kernel, class Task>
cudaError_t queue(Kernel kernel, dim3 grid, int threads, size_t shared, cudaStream_t, bool, const TensorMap& map,
                  const Task& task) {
  return run_clusters(grid, threads, (shared - kRingAlignment) / sizeof(float), task, [&] { kernel(map, task); });
}
