// All products of a tile of every block of C in one accumulator, for sm_80 and later.
#include "loader.cuh"

namespace {

using Accumulators = float[kFragmentsM][kFragmentsN][4];

// Where the thread's fragments of C begin inside a tile: fragment (i, j) is 16 i rows and 8 j columns further, its
// elements 2 and 3 eight rows below 0 and 1.
__device__ __forceinline__ int warp_row() { return threadIdx.x / 128 * 64; }
__device__ __forceinline__ int warp_column() { return threadIdx.x / 32 % 4 * 32; }

// One stage: kTileK of K. Each lane names one row of four 8 x 8 matrices; the order of these is that of the fragments.
template <class T>
__device__ __forceinline__ void multiply_stage(Accumulators& sums, uint32_t stage) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < kTileK; k += 16) {
    uint32_t a[4], b[kFragmentsN / 2][4];
#pragma unroll
    for (int j = 0; j < kFragmentsN / 2; ++j)
      load_transposed(b[j], stage + place_in_b(k + lane % 16, warp_column() / 8 + 2 * j + lane / 16));
#pragma unroll
    for (int i = 0; i < kFragmentsM; ++i) {
      load_matrices(a, stage + place_in_a(warp_row() + 16 * i + lane % 16, k / 8 + lane / 16));
#pragma unroll
      for (int j = 0; j < kFragmentsN; ++j) multiply_add<T>(sums[i][j], a, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
  }
}

// The ring of stages: `stage` counts those used so far, modulo kStages.
struct Ring {
  uint32_t base;
  int stage;
};

__device__ __forceinline__ uint32_t stage_after(const Ring& ring, int steps) {
  const int stage = ring.stage + steps;
  return ring.base + (stage < kStages ? stage : stage - kStages) * kStageBytes;
}

// Adds one product. One barrier a stage: behind it all copies into this stage have landed, and every warp is done with
// the stage before, which is the one that the new copies overwrite.
template <class T>
__device__ __forceinline__ void add_product(Accumulators& sums, Loader& loader, Ring& ring, int steps) {
#pragma unroll 1
  for (; steps > 0; --steps) {
    wait_copies<kStages - 2>();
    __syncthreads();
    loader.load(stage_after(ring, kStages - 1));
    multiply_stage<T>(sums, stage_after(ring, 0));
    ring.stage = ring.stage + 1 < kStages ? ring.stage + 1 : 0;
  }
}

// C = alpha * sum / divisor + beta * C for two neighbours of a row, of which `valid` exist; the first is at (row, column).
__device__ __forceinline__ void write_pair(const Work& work, Output* to, int64_t row, int64_t column, int valid,
                                           bool aligned, Pack<2> sum) {
  if (valid <= 0) return;
  if (kDivisor != 1) {
    sum.v[0] /= kDivisor;
    sum.v[1] /= kDivisor;
  }
  sum = work.alpha * sum;
  const bool two = valid > 1;
  sum.v[0] = unscaled_at(sum.v[0], work, row, column);
  if (two) sum.v[1] = unscaled_at(sum.v[1], work, row, column + 1);
  if (work.beta != 0) {
    Accumulator old[2] = {0, 0};
    widen(to[0], old[0]);
    if (two) widen(to[1], old[1]);
    sum.v[0] += work.beta * old[0];
    sum.v[1] += work.beta * old[1];
  }
  note_unless(finite(sum.v[0]) && (!two || finite(sum.v[1])), work.counters);
#ifdef SUBCUBIC_EPILOGUE
  const Fetched<2> with = fetched_edge<2>(work.extras, row, column, valid);
#pragma unroll
  for (int e = 0; e < 2; ++e)
    sum.v[e] = finished_unless_spoiled(sum.v[e], [&](Accumulator x) { return finished(x, work.extras, with, e); });
#endif  // SUBCUBIC_EPILOGUE
  if (two && aligned) return store<2>(to, sum);
  narrow(sum.v[0], to[0]);
  if (two) narrow(sum.v[1], to[1]);
}

// Writes the accumulator, times a coefficient, to its pending tile or to C. A thread meets only its own elements in
// the scratch, which lie so that a warp's accesses are contiguous.
__device__ __forceinline__ void publish(const Accumulators& sums, const Publication& publication, const Work& work,
                                        const Tile& tile) {
  const bool read = publication.kind == kAdd || publication.kind == kFinish;
  const bool keep = publication.kind == kPark || publication.kind == kAdd;
  constexpr int fragments = kFragmentsM * kFragmentsN;
  float4* pending = work.scratch + (static_cast<int64_t>(blockIdx.x) * kSlots + publication.slot) * fragments * kThreads +
                    threadIdx.x;
  const int row = tile.row + warp_row() + threadIdx.x % 32 / 4, column = tile.column + warp_column() + threadIdx.x % 4 * 2;
  const int64_t first_row = publication.row * work.m, first_column = publication.column * work.n;
  // What exists of the block from the thread's first element on.
  const int rows = static_cast<int>(min(work.m, work.M - first_row)) - row;
  const int columns = static_cast<int>(min(work.n, work.N - first_column)) - column;
  Output* to = work.C + (first_row + row) * work.ldc + first_column + column;
  const bool aligned = reinterpret_cast<uintptr_t>(work.C) % (2 * sizeof(Output)) == 0 && work.ldc % 2 == 0;
#pragma unroll
  for (int i = 0; i < kFragmentsM; ++i) {
#pragma unroll
    for (int j = 0; j < kFragmentsN; ++j) {
      const float* v = sums[i][j];
      const float c = publication.coefficient;
      float4 sum = {c * v[0], c * v[1], c * v[2], c * v[3]};
      float4* at = pending + (i * kFragmentsN + j) * kThreads;
      if (read) {
        const float4 old = __ldcg(at);
        sum = {sum.x + old.x, sum.y + old.y, sum.z + old.z, sum.w + old.w};
      }
      if (keep) {
        __stcg(at, sum);
        continue;
      }
      const int64_t of_row = first_row + row + 16 * i, of_column = first_column + column + 8 * j;
      if (16 * i < rows) write_pair(work, to + 8 * j, of_row, of_column, columns - 8 * j, aligned, {sum.x, sum.y});
      if (16 * i + 8 < rows)
        write_pair(work, to + 8 * work.ldc + 8 * j, of_row + 8, of_column, columns - 8 * j, aligned, {sum.z, sum.w});
    }
    to += 16 * work.ldc;
  }
}

__global__ void __launch_bounds__(kThreads, kCtasPerMultiprocessor) products(const __grid_constant__ Work work) {
  const int tiles_m = static_cast<int>((work.m + kTileM - 1) / kTileM);
  const int tiles_n = static_cast<int>((work.n + kTileN - 1) / kTileN);
  const int steps = static_cast<int>((work.k + kTileK - 1) / kTileK);
  Ring ring = {shared_base(), 0};
  Loader loader(work, tiles_m, tiles_n);
#pragma unroll 1
  for (int stage = 0; stage < kStages - 1; ++stage) loader.load(ring.base + stage * kStageBytes);
  Accumulators sums;
  for (int index = blockIdx.x; index < tiles_m * tiles_n; index += gridDim.x) {
    for (int t = 0; t < kTurnCount; ++t) {
      if (kTurns[t].clear) {
#pragma unroll
        for (int i = 0; i < kFragmentsM * kFragmentsN * 4; ++i) (&sums[0][0][0])[i] = 0;
      }
      if constexpr (kConverted) {
        if (kTurns[t].plain)
          add_product<Input>(sums, loader, ring, steps);
        else
          add_product<Plane>(sums, loader, ring, steps);
      } else {
        add_product<Input>(sums, loader, ring, steps);
      }
      // What only this needs is read and computed here, not kept in registers that the products have no room for.
      for (int p = 0; p < kTurns[t].count; ++p)
        publish(sums, kPublications[kTurns[t].first + p], work, tile_at(index, tiles_m, tiles_n));
    }
  }
}

}  // namespace
