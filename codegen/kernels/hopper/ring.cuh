// What keeps loads and products together: the ring of stages inside a block, and the pace of all blocks.
#include "jobs.cuh"

namespace {

constexpr int kPaceDepth = 64;  // of a piece of work
constexpr u32 kPaceLag = 2, kPatience = 1024;

// Keeps blocks in step, so that those which read the same rows or columns find them in L2: a block that is more than
// kPaceLag pieces of work ahead of the average of those that are at work waits. It is a hint and nothing depends on it: a
// block that has waited for kPatience polls goes on and never waits again in this launch. So a launch ends however few of
// its blocks run at the same time, and no block ever waits for another without bound.
struct Pace {
  u64* all;   // pieces of all blocks at work, and above the 32nd bit their number; zero between launches
  u64 seen;   // what they were one piece ago, so that nobody has to wait for the answer
  u32 pieces;
  bool patient;

  // Joins, as far as the others have come.
  __device__ __forceinline__ explicit Pace(u32* header) : all(reinterpret_cast<u64*>(header)), patient(true) {
    seen = load();
    const u32 blocks = static_cast<u32>(seen >> 32);
    pieces = blocks ? static_cast<u32>(seen) / blocks : 0;
    atomicAdd(all, 1ull << 32 | pieces);
  }
  __device__ __forceinline__ ~Pace() { atomicAdd(all, 0 - (1ull << 32 | pieces)); }

  __device__ __forceinline__ u64 load() const {
    u64 now;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(now) : "l"(all) : "memory");
    return now;
  }

  __device__ __forceinline__ void step() {
    asm volatile("red.relaxed.gpu.global.add.u64 [%0], 1;" ::"l"(all) : "memory");
    ++pieces;
    for (u32 polls = 0; kPaced && pieces > kPaceLag && patient; ++polls) {
      if (static_cast<u32>(seen) >= static_cast<u32>(seen >> 32) * (pieces - kPaceLag)) break;
      patient = polls < kPatience;
      seen = load();
    }
    seen = load();
  }
};

// A place in the ring of stages: the stage in the lowest bits, from the eighth bit on a parity for each stage, and whether
// a stage is lent, all in one register, of which a consumer has none to spare.
template <class T>
struct Ring {
  u32 shared;
  int place;

  __device__ __forceinline__ explicit Ring(u32 shared, int place = 0) : shared(shared), place(place) {}
  __device__ __forceinline__ int stage() const { return place & 7; }
  __device__ __forceinline__ u32 parity() const { return place >> (8 + stage()) & 1; }
  __device__ __forceinline__ u32 full() const { return shared + T::barriers + 8 * stage(); }
  __device__ __forceinline__ u32 empty(int which) const { return shared + T::barriers + 8 * (T::stages + which); }
  __device__ __forceinline__ void advance() {
    place ^= 256 << stage();
    skip();
  }
  static constexpr int kLent = 1 << 16;

  // Past a stage that is lent, which is soon behind this one.
  __device__ __forceinline__ void lend() {
    skip();
    place |= kLent;
  }
  __device__ __forceinline__ void skip() { place = stage() + 1 == T::stages ? place + 1 - T::stages : place + 1; }
  // The stage that many places before or after this one.
  __device__ __forceinline__ int before(int back) const {
    return stage() >= back ? stage() - back : stage() + T::stages - back;
  }
  __device__ __forceinline__ int next() const { return stage() + 1 == T::stages ? 0 : stage() + 1; }
};

// Whether a stage is lent to the publications after a turn: that of the last step but three, the next one in the ring,
// which is left out once. So the others are filled while something is published.
template <class T>
__device__ __forceinline__ bool lends(int publications, bool share) {
  return T::staged && (kPartialSums || share) && publications > 0;
}

}  // namespace
