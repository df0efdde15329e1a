// Thin kernels besides: clusters of CTAs that read each other's shared memory. Comes after fused_on_host.h and the types.
#include <cmath>

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

// The grid's first dimension is one cluster.
template <class Kernel, class Task>
cudaError_t queue(Kernel kernel, dim3 grid, int threads, size_t shared, cudaStream_t, bool, const Task& task) {
  gridDim = grid;
  blockDim = dim3(threads);
  first_of_b = reinterpret_cast<const char*>(task.B);
  const auto elements_of_b = (grid.z - 1) * task.stride_b + (kTransposedB ? task.N : task.K) * task.ldb;
  end_of_b = task.early == 2 ? reinterpret_cast<const char*>(task.B + elements_of_b) : first_of_b;
  std::function<void()> call = [&] { kernel(task); };
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      blockIdx.x = 0;
      cluster_floats.assign(grid.x, std::vector<float>((shared - kCounterBytes) / sizeof(float), NAN));
      received.assign(grid.x, 0);
      expected.assign(grid.x, 0);
      told.assign(grid.x * threads, false);
      waited.assign(grid.x * threads, false);
      cluster_barrier = start_barrier = {};
      run_cta(threads, call, grid.x);
    }
  return violation ? 1 : cudaSuccess;
}
