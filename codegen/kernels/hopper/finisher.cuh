// The spare warps: they take complete blocks of C in FP32, apply the steps of an epilogue and write C, while the others
// multiply. See handover.cuh for how blocks come to them.
#include "finish.cuh"
#include "handover.cuh"

namespace {

// Registers are few, and those that hold several elements at once are worth most: so what follows from the number of a lane,
// or is the same for several parts, is found again for each. The compiler would keep it.
__device__ __forceinline__ u32 lane_again() {
  u32 lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// A part of a portion: of each lane four neighbours in each of four rows, which are four rows apart. Rows of C are aligned
// to 16 bytes and blocks of it end at multiples of 8 columns, so the four are there or not. Operands are aligned for pairs.
struct Quads {
  const Problem& problem;
  int i, j;            // of the first of them in C
  int valid;           // rows that are there, from the first one on
  Fetched<4> with[4];  // of each row; of vectors all the same

  // `row`, `column`: in the block.
  __device__ __forceinline__ Quads(const Problem& problem, int publication, int row, int column) : problem(problem) {
    const int rows = all_rows(), columns = all_columns();
    i = kPublications[publication].row * problem.M + row;
    j = kPublications[publication].column * problem.N + column;
    valid = column < problem.N && j < columns ? min(problem.M - row, rows - i) : 0;
    // Where a tile reaches beyond C they are of its last elements.
#pragma unroll
    for (int o = 0; o < Steps::operands; ++o)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        if (r == 0 || Steps::matrices >> o & 1) {
          const Extra* from = extra_at(problem.extras, o, min(i + 4 * r + 1, rows) - 1, min(j + 4, columns) - 4);
          Unit* pairs = reinterpret_cast<Unit*>(with[r].of[o].word);
          for (int h = 0; h < 2; ++h) pairs[h] = __ldg(reinterpret_cast<const Unit*>(from) + h);
        } else {
          with[r].of[o] = with[0].of[o];
        }
      }
  }

  __device__ __forceinline__ int all_rows() const { return static_cast<int>(problem.rows); }
  __device__ __forceinline__ int all_columns() const { return static_cast<int>(problem.columns); }

  // Two rows from number R on. What is not there goes through the steps too, so that nothing stands between those of
  // different elements.
  template <int R>
  __device__ __forceinline__ void finish(const float (&sums)[2][4], bool& fine) {
    float v[2][4];
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float x = sums[r][e];
        if constexpr (kScaled)
          x = unscaled_at(x, problem, min(i + 4 * (R + r) + 1, all_rows()) - 1, min(j + 4, all_columns()) - 4 + e);
        if constexpr (kGuarded) fine &= finite(x) || 4 * (R + r) >= valid;
        v[r][e] = finished_unless_spoiled(x, [&](float y) { return finished(y, problem.extras, with[R + r], e); });
      }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      Output* to = static_cast<Output*>(problem.C) + (i + 4 * (R + r)) * problem.ldc + j;
      if (4 * (R + r) < valid) global_store_pair(to, packed<Output>(v[r][0], v[r][1]), packed<Output>(v[r][2], v[r][3]));
    }
  }
};

// A part of portion number `turn` of the block that a publication completes.
template <int TILE_N>
__device__ __forceinline__ void finish_part(const Problem& p, u32 shared, int publication, u32 turn, u32 part, u32 block, int m,
                                            int n) {
  using T = Tile<TILE_N>;
  using P = Portions<T>;
  const Handover<T> barriers(shared);
  const u32 group = part / 4, lane = lane_again();
  asm volatile("" : "+r"(turn), "+r"(publication), "+r"(block));
  Quads quads(p, publication, m + 16 * part + lane / 8, n + 32 * P::columns(turn) + lane % 8 * 4);
  // One path for shared and for global memory, since the steps are long.
  const char* from;
  u32 full, parity;
  if (P::lent > 0 && turn >= P::through) {
    from = slot_of<TILE_N>(p, kSlots, 0, group) + (turn - P::through) * kBoxBytes;
    full = barriers.of_memory(group, kFull);
    parity = block;
  } else {
    const u32 b = P::buffer(turn);
    from = static_cast<const char*>(generic(shared + T::stages * T::stage_bytes + (group * T::buffers + b) * kBoxBytes));
    full = barriers.of_part(part, b, kFull);
    parity = P::parity(turn, block);
  }
  from += found_at(part, lane);
  barrier_wait(full, parity);
  bool fine = true;
  unrolled<0, 2>([&](auto H) {
    constexpr int h = decltype(H)::value;
    float sums[2][4];
    fresh_load<256 * h>(from, sums[0]);
    fresh_load<256 * h + 128>(from, sums[1]);
    if constexpr (h == 1) {
      loads_done();
      if (P::lent > 0 && turn >= P::through)
        fence_global();
      else if (turn >= P::through - T::buffers)
        fence_shared();
      __syncwarp();
      if (lane_again() == 0) barrier_tell(full + 8);
    }
    quads.template finish<2 * h>(sums, fine);
  });
  note_unless(fine, p.header);
}

// All whole tiles of a block of the grid; called by the spare warps.
template <int TILE_N>
__device__ __forceinline__ void finish_blocks(const Problem& p, u32 shared) {
  using P = Portions<Tile<TILE_N>>;
  const u32 warp = threadIdx.x / 32 - 1;
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
      Raster<TILE_N> raster(p);
      raster.place(job.tile, m, n);
      m += cluster_rank() * kTileM;
#pragma unroll 1
      for (int publication = first; publication < end; ++publication) {
        if (!finishes(publication)) continue;
        // The part of a residual, while the products before still run.
        for (u32 row = 32 * warp + lane_again(); Steps::matrices != 0 && row < kTileM; row += 32 * kSpareWarps)
          ask_for<TILE_N>(p, static_cast<i64>(kPublications[publication].row) * p.M + m + row,
                          static_cast<i64>(kPublications[publication].column) * p.N + n);
#pragma unroll 1
        for (u32 turn = 0; turn < P::count; ++turn)
#pragma unroll 1
          for (u32 part = warp; part < kParts; part += kSpareWarps)
            finish_part<TILE_N>(p, shared, publication, turn, part, block, m, n);
        block ^= 1;
      }
    }
  }
}

}  // namespace
