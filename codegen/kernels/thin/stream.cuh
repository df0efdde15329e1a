// C = alpha A B + beta C for few rows, with B brought through shared memory by bulk copies of a tensor: from sm_90 on.
//
// What a multiprocessor has under way then takes no registers and no instructions of loads, and most of shared memory can
// be on its way. Each warp has a ring of slots of its own, and a barrier for each of them. One lane asks for boxes of B,
// and the warp multiplies what has come; no warp waits for another one before their sums meet. A block does one tile of
// columns after the other, also of other groups, and its rings run on from one to the next: memory is busy while sums meet
// and C is written. Zeros come for what lies beyond the matrix.
#include "kernel.cuh"
#include "stream_ptx.cuh"

namespace {

template <int COLUMNS, int WARPS, int DEPTH, int SLOTS>
struct Streamed {
  static constexpr int columns = COLUMNS, warps = WARPS, depth = DEPTH, slots = SLOTS, threads = 32 * WARPS;
};

constexpr int kStreamShared = 227 * 1024;  // that a block may have

// A box of B: elements along the rows of memory, and rows.
struct Box {
  int along, lines;
  bool swizzled;
};

// What a tile has in shared memory. A slot is some boxes of 128 bytes by rows, swizzled, so that the rows of an ldmatrix lie
// in different banks. Where the columns of a B as it is are no multiple of that, it is one box as it lies: pairs of rows
// then share banks, which costs less than columns that nobody needs.
template <class Tile, int ROWS>
struct Ring {
  static constexpr int columns = Tile::columns, depth = Tile::depth, warps = Tile::warps;
  static constexpr bool swizzled = kTransposedB || columns % 64 == 0;
  static constexpr Box box = {swizzled ? 64 : columns, kTransposedB ? columns : depth, swizzled};
  static constexpr int boxes = (kTransposedB ? depth : columns) / box.along;
  static constexpr int box_bytes = box.along * box.lines * static_cast<int>(sizeof(Input)), slot_bytes = boxes * box_bytes;
  // Sums of each warp, with a pitch that spreads the rows of a result over the banks.
  static constexpr int pitch = columns + 4, sums = ROWS * pitch, sum_bytes = warps * sums * static_cast<int>(sizeof(float));
  static constexpr int room = (kStreamShared - kRingAlignment - sum_bytes) / (warps * (slot_bytes + 8));
  static constexpr int slots = room < Tile::slots ? room : Tile::slots;  // sums of more rows leave fewer
  static constexpr int ring_bytes = warps * slots * slot_bytes, barrier_bytes = warps * slots * 8;
  static constexpr int shared_bytes = kRingAlignment + ring_bytes + barrier_bytes + sum_bytes;
  static_assert(room >= 1, "there is no room for a slot of each warp");
  static_assert(columns % 16 == 0 && depth % 16 == 0 && (!kTransposedB || depth % 64 == 0), "no whole instructions");
  static_assert(box_bytes % (swizzled ? kRingAlignment : 128) == 0 && box.along <= 256 && box.lines <= 256, "no box");
  static_assert(warps % 2 == 0, "sums would not lie on 16-byte boundaries behind the barriers");

  // Where a lane's row of four matrices lies in a slot: 16 of the depth by 16 columns.
  static __device__ __forceinline__ uint32_t place(int step, int block) {
    const int lane = threadIdx.x % 32, side = lane / 8 % 2, half = lane / 16, within = lane % 8;
    if constexpr (kTransposedB) {
      const int line = 16 * block + 8 * side + within, chunk = (2 * step + half) % 8;
      return step / 4 * box_bytes + line * 128 + ((chunk ^ within) << 4);
    } else if constexpr (swizzled) {
      const int line = 16 * step + 8 * half + within, chunk = 2 * (block % 4) + side;
      return block / 4 * box_bytes + line * 128 + ((chunk ^ within) << 4);
    } else {
      return (16 * step + 8 * half + within) * (2 * columns) + 32 * block + 16 * side;
    }
  }
};

// What a warp asks for next: a step of a pass over a tile's columns.
struct Request {
  uint32_t tile;
  int group, column, passes, step;
};

__device__ __forceinline__ void add(float4& to, const float4& more) {
  to.x += more.x, to.y += more.y, to.z += more.z, to.w += more.w;
}

template <class Tile, int ROWS>
__global__ void __launch_bounds__(Tile::threads, 1)
    streamed([[maybe_unused]] const __grid_constant__ TensorMap map, [[maybe_unused]] const __grid_constant__ Task task) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  using R = Ring<Tile, ROWS>;
  constexpr int steps = R::depth / 16, blocks = R::columns / 16, quads = R::columns / 4;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const uint32_t start = ring_address(), ring = start + warp * R::slots * R::slot_bytes;
  const uint32_t barriers = start + R::ring_bytes + warp * R::slots * 8;
  float* const shared = floats_at(start + R::ring_bytes + R::barrier_bytes);
  const int size = cluster_size(), rank = cluster_rank();
  const int workers = size * R::warps, worker = rank * R::warps + warp;
  const int slices = (task.K + R::depth - 1) / R::depth, mine = (slices - worker + workers - 1) / workers;
  const uint32_t across = (task.N + R::columns - 1) / R::columns, tiles = across * task.groups;
  if (lane == 0) ready(barriers, R::slots), ask_for_map(map);
  __syncwarp();
  let_next_come();

  Request next = {blockIdx.y, 0, 0, 0, 0};
  const auto find = [&] {  // the first tile from this one on that has rows
    for (; next.tile < tiles; next.tile += gridDim.y) {
      next.group = next.tile / across, next.column = next.tile % across * R::columns;
      next.passes = (group_of(task, next.group).count + ROWS - 1) / ROWS;
      if (next.passes > 0) return;
    }
  };
  const auto each_box = [&](auto&& take) {
    const int k = (worker + next.step * workers) * R::depth;
    const int along = kTransposedB ? k : next.column, line = kTransposedB ? next.column : k;
    const int group = task.stride_b ? next.group : 0;  // of a B that all groups share, the map has one
#pragma unroll
    for (int i = 0; i < R::boxes; ++i) take(i, along + i * R::box.along, line, group);
  };
  const auto request = [&](int slot) {
    if (next.tile >= tiles || mine == 0) return;
    if (lane == 0) {
      const uint32_t barrier = barriers + 8 * slot;
      expect(barrier, R::slot_bytes);
      each_box([&](int i, int along, int line, int group) {
        copy_box(ring + slot * R::slot_bytes + i * R::box_bytes, map, barrier, along, line, group);
      });
    }
    if (++next.step < mine) return;
    next.step = 0;
    if (--next.passes > 0) return;
    next.tile += gridDim.y;
    find();
  };
  // Where offsets say which groups have rows, nothing is known of them before the wait. Else L2 is asked for a first slot:
  // that is right whoever writes B, since loads look there, and find what is written meanwhile. More would only be in the
  // way of what the kernel before still reads.
  const bool early = task.early == 2 && !task.offsets;
  if (!task.offsets) find();
  if (task.early == 1 && !task.offsets && mine > 0 && lane == 0)
    each_box([&](int, int along, int line, int group) { ask_for_box(map, along, line, group); });
  if (!early) wait_for_before();
  if (task.offsets) find();
#pragma unroll 1  // a short way to the first copy: what comes after it is in the instruction cache
  for (int i = 0; i < R::slots; ++i) request(i);
  if (early) wait_for_before();

  int slot = 0, parity = 0;
  bool again = false;
  for (uint32_t tile = blockIdx.y; tile < tiles; tile += gridDim.y) {
    const Group group = group_of(task, tile / across);
    const int first_column = tile % across * R::columns, width = task.N - first_column;
    const Writer write(task, group);
    for (int first = 0; first < group.count; first += ROWS) {
      const int rows = min(ROWS, group.count - first);
      float sums[blocks][ROWS / 8][4] = {};
      // A is loaded a step ahead; what is not there counts as zero, also behind the last step.
      uint32_t ahead[ROWS / 8][steps][2], a[ROWS / 8][steps][2];
      const Input* from = rows_of_a(task, group) + (first + lane / 4) * task.lda + worker * R::depth + lane % 4 * 2;
      int left = task.K - worker * R::depth;
      const auto load_ahead = [&] {
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i)
#pragma unroll
          for (int e = 0; e < 2 * steps; ++e) {
            ahead[i][e / 2][e % 2] = 0;
            if (lane / 4 + 8 * i < rows && 8 * e < left)
              ahead[i][e / 2][e % 2] = fetch(reinterpret_cast<const uint32_t*>(from + 8 * i * task.lda + 8 * e));
          }
        from += workers * R::depth, left -= workers * R::depth;
      };
      load_ahead();
#pragma unroll 1
      for (int step = 0; step < mine; ++step) {
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i)
#pragma unroll
          for (int h = 0; h < steps; ++h) a[i][h][0] = ahead[i][h][0], a[i][h][1] = ahead[i][h][1];
        load_ahead();
        await(barriers + 8 * slot, parity);
        const uint32_t here = ring + slot * R::slot_bytes;
#pragma unroll
        for (int h = 0; h < steps; ++h)
#pragma unroll
          for (int j = 0; j < blocks; ++j) {
            uint32_t b[4];
            matrices<!kTransposedB>(b, here + R::place(h, j));
#pragma unroll
            for (int i = 0; i < ROWS / 8; ++i) multiply_add(sums[j][i], b[0], b[1], b[2], b[3], a[i][h][0], a[i][h][1]);
          }
        // Before the slot is filled again. What was read of it is in registers, since products need it, or will be, some
        // hundred clocks before a copy could come.
        __syncwarp();
        request(slot);
        if (++slot == R::slots) slot = 0, parity ^= 1;
      }
      // Nobody reads the sums of the turn before any more, neither here nor from another block.
      if (again) size > 1 ? cluster_join() : __syncthreads();
      again = true;
#pragma unroll
      for (int j = 0; j < blocks; ++j)
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int of = 8 * i + 2 * (lane % 4) + e % 2;
            if (of < rows) shared[warp * R::sums + of * R::pitch + 16 * j + lane / 4 + 8 * (e / 2)] = sums[j][i][e];
          }
      __syncthreads();
      for (int e = threadIdx.x; e < rows * quads; e += Tile::threads) {
        const int of = e / quads, column = e % quads * 4;
        float* const place = shared + of * R::pitch + column;
        float4 sum = *reinterpret_cast<const float4*>(place);
#pragma unroll
        for (int i = 1; i < R::warps; ++i) add(sum, *reinterpret_cast<const float4*>(place + i * R::sums));
        if (size == 1)
          write.four(first + of, first_column + column, sum, width - column);
        else
          *reinterpret_cast<float4*>(place) = sum;
      }
      if (size == 1) continue;
      cluster_arrive();
      cluster_join();
      // The blocks of the cluster take quads by turns, as many as a warp has lanes.
      for (int e = (rank + size * warp) * 32 + lane; e < rows * quads; e += size * Tile::threads) {
        const int of = e / quads, column = e % quads * 4;
        const float* const place = shared + of * R::pitch + column;
        float4 sum = four_of(place, 0);
        for (int i = 1; i < size; ++i) add(sum, four_of(place, i));
        write.four(first + of, first_column + column, sum, width - column);
      }
      cluster_arrive();
    }
  }
  if (again && size > 1) cluster_join();  // before this block's memory is gone
#endif
}

}  // namespace
