// The spare warps: they take complete blocks of C in FP32, apply the steps of an epilogue and write C, while the others
// multiply. See handover.cuh for how blocks come to them.
#include "finish.cuh"
#include "handover.cuh"

namespace {

// Four neighbours of C of each lane at a time, eight lanes beside each other. Rows of C are aligned to 16 bytes and blocks
// of it end at multiples of 8 columns, so the four are there or not. Operands are aligned for pairs.
struct Quads {
  const Problem& problem;
  i64 row, column;  // of the first four in C
  bool inside;      // columns are those of the block
  int rows;         // of the block from there on
  Fetched<4> with[4];  // of each fourth row

  // `m`, `n`: in the block.
  __device__ __forceinline__ Quads(const Problem& problem, int publication, int m, int n) : problem(problem) {
    row = static_cast<i64>(kPublications[publication].row) * problem.M + m;
    column = static_cast<i64>(kPublications[publication].column) * problem.N + n;
    inside = n < problem.N && column < problem.columns;
    rows = static_cast<int>(min(static_cast<i64>(problem.M - m), problem.rows - row));
    // Where a tile reaches beyond C they are of its last elements.
    const i64 from = min(column, problem.columns - 4);
#pragma unroll
    for (int i = 0; i < Steps::operands; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        if (j > 0 && !(Steps::matrices >> i & 1)) {
          with[j].of[i] = with[0].of[i];
          continue;
        }
        const Unit* pairs = reinterpret_cast<const Unit*>(extra_at(problem.extras, i, min(row + 4 * j, problem.rows - 1), from));
        with[j].of[i].word[0] = {__ldg(pairs), __ldg(pairs + 1)};
      }
  }

  // The jth fourth row.
  __device__ __forceinline__ void finish(const float (&sums)[4], int j, bool& fine) const {
    if (!inside || 4 * j >= rows) return;
    float v[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float x = unscaled_at(sums[e], problem, row + 4 * j, column + e);
      fine &= finite(x);
      v[e] = finished_unless_spoiled(x, [&](float y) { return finished(y, problem.extras, with[j], e); });
    }
    float* to = reinterpret_cast<float*>(static_cast<Output*>(problem.C) + (row + 4 * j) * problem.ldc + column);
    global_store_pair(to, packed<Output>(v[0], v[1]), packed<Output>(v[2], v[3]));
  }
};

// The part number `turn % kParts` of a portion of the block that a publication completes.
template <int TILE_N>
__device__ __forceinline__ void finish_part(const Problem& p, u32 shared, int publication, int number, u32 block, int m, int n) {
  using T = Tile<TILE_N>;
  using P = Portions<T>;
  const Handover<T> barriers(shared);
  const int turn = number / kParts, part = number % kParts, group = part / 4, lane = threadIdx.x & 31;
  Quads quads(p, publication, m + 16 * part + lane / 8, n + 32 * P::columns(turn) + lane % 8 * 4);
  bool fine = true;
  if (P::lent == 0 || turn < P::through) {
    const int b = P::buffer(turn);
    const u32 from = shared + T::stages * T::stage_bytes + (group * T::buffers + b) * kBoxBytes + found_at(part, lane);
    barrier_wait(barriers.of_part(part, b, kFull), P::parity(turn, block));
    unrolled<0, 4>([&](auto J) {
      constexpr int j = decltype(J)::value;
      float sums[4];
      shared_load<128 * j>(from, sums);
      quads.finish(sums, j, fine);
    });
    if (turn >= P::through - T::buffers) fence_shared();
    __syncwarp();
    if (lane == 0) barrier_tell(barriers.of_part(part, b, kFree));
  } else {
    // As the publisher's slot after those of pending tiles.
    const char* from = slot_of<TILE_N>(p, kSlots, 0, group) + (turn - P::through) * kBoxBytes + found_at(part, lane);
    barrier_wait(barriers.of_memory(group, kFull), block & 1);
    unrolled<0, 4>([&](auto J) {
      constexpr int j = decltype(J)::value;
      float sums[4];
      global_load<128 * j>(from, sums);
      quads.finish(sums, j, fine);
    });
  }
  note_unless(fine, p.header);
}

// All whole tiles of a block of the grid; called by the spare warps.
template <int TILE_N>
__device__ __forceinline__ void finish_blocks(const Problem& p, u32 shared) {
  using P = Portions<Tile<TILE_N>>;
  const int warp = static_cast<int>(threadIdx.x / 32) - 1;
  const Handover<Tile<TILE_N>> barriers(shared);
  const Raster<TILE_N> raster(p);
  u32 block = 0;
#pragma unroll 1
  for (int phase = kBoundary > 0 ? 0 : 1; phase < 2; ++phase) {
    const int first = phase == 0 || kBoundary == 0 ? 0 : kTurns[kBoundary].first;
    const int end = phase == 0 ? kTurns[kBoundary].first : kPublicationCount;
#pragma unroll 1
    for (int number = 0;; ++number) {
      const Job job = job_of<TILE_N, false>(p, number);
      if (job.steps == 0 || shares<false>(p, number)) break;
      int m, n;
      raster.place(job.tile, m, n);
      m += cluster_rank() * kTileM;
#pragma unroll 1
      for (int publication = first; publication < end; ++publication) {
        if (!finishes(publication)) continue;
#pragma unroll 1
        for (int i = warp; i < kParts * P::count; i += kSpareWarps)
          finish_part<TILE_N>(p, shared, publication, i, block, m, n);
        if (P::lent > 0) {
          fence_global();
          __syncwarp();
          if (threadIdx.x % 32 < kGroups) barrier_tell(barriers.of_memory(threadIdx.x % 32, kFree));
        }
        block ^= 1;
      }
    }
  }
}

}  // namespace
