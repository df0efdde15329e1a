// C = alpha A B + beta C for few rows: B goes once through the device, as fast as memory gives it.
//
// A block takes some columns of C. Its warps share the depth, and so do the blocks of a cluster. Each warp has several
// pieces of B under way all the time; then their sums meet in shared memory, and those of a cluster's blocks across it,
// always in the same order. Nothing but C is written, so there is no workspace and nothing to be cleared.
#include "piece.cuh"
#include "write.cuh"

namespace {

// What a block does.
template <int COLUMN_WARPS, int DEPTH_WARPS, int STRIPES, int AHEAD>
struct Tile {
  static constexpr int column_warps = COLUMN_WARPS, depth_warps = DEPTH_WARPS, stripes = STRIPES, ahead = AHEAD;
  static constexpr int threads = 32 * COLUMN_WARPS * DEPTH_WARPS;
};

template <class Tile, int ROWS>
struct Shape {
  using Part = Piece<kTransposedB, ROWS, Tile::stripes>;
  static constexpr int columns = Tile::column_warps * Part::columns, pitch = columns + 2;
  static constexpr int sums = ROWS * pitch;  // floats of the warps that share columns
  // Behind the sums of all warps, what other blocks send: each as much as this one has, in whole chunks.
  static constexpr int inbox = Tile::depth_warps * sums, chunk = 32, received = ROWS * columns + 16 * chunk;
  static constexpr int shared_bytes = kCounterBytes + (inbox + received) * sizeof(float);
};

// Registers for two blocks on a multiprocessor, or for one of many warps: what counts is how many loads are under way.
template <class Tile>
constexpr int kBlocksAtOnce = Tile::threads > 256 ? 1 : 512 / Tile::threads;

template <class Tile, int ROWS, bool WHOLE>
__global__ void __launch_bounds__(Tile::threads, kBlocksAtOnce<Tile>) thin(const __grid_constant__ Task task) {
  using S = Shape<Tile, ROWS>;
  using Part = typename S::Part;
  constexpr int ahead = ROWS > 8 && Tile::ahead > 1 ? Tile::ahead - 1 : Tile::ahead;  // sums of more rows take registers
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int across = warp % Tile::column_warps, down = warp / Tile::column_warps;
  const int first_column = blockIdx.y * S::columns, columns = min(S::columns, task.N - first_column);
  const int workers = cluster_size() * Tile::depth_warps, worker = cluster_rank() * Tile::depth_warps + down;
  const int steps = (task.K + Part::depth - 1) / Part::depth;
  const int64_t group = blockIdx.z;
  const int k = worker * Part::depth + lane % 4 * Part::lane_depth;
  const int row = lane / 4, column = across * Part::columns + lane / 4 * Part::lane_columns;
  // Where this lane begins; A is not known yet.
  Cursor begin = {nullptr, task.B + group * task.stride_b, task.lda, task.ldb, k, task.K, 0, columns - column};
  begin.b += kTransposedB ? (first_column + column) * task.ldb + k : k * task.ldb + first_column + column;
  Part parts[ahead];
  const auto load_first_of_b = [&] {
    Cursor at = begin;
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      parts[i].template load_b<WHOLE>(at);
      at.move(workers * Part::depth, !kTransposedB);
    }
  };
  let_next_come();
  if (cluster_size() > 1) begin_to_receive();
  const bool early = task.early == 2 && !task.offsets;
  computed_here(begin.b);  // and not behind the wait, while memory has nothing to do
  if (!early) wait_for_before();
  const Group own_rows = group_of(task, group);
  const int count = own_rows.count;
  if (count <= 0) return;  // a group that is empty has no use for B
  load_first_of_b();
  if (early) wait_for_before();
  const Input* const A = rows_of_a(task, own_rows);
  const Writer write(task, own_rows);
  float* const shared = shared_floats();
  for (int first = 0; first < count; first += ROWS) {
    const int rows = min(ROWS, count - first);
    begin.a = A + (first + row) * task.lda + k;
    begin.rows = rows - row;
    float sums[Part::blocks][ROWS / 8][4] = {};
    Cursor at = begin;
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      parts[i].template load_a<WHOLE>(at);
      at.move(workers * Part::depth, !kTransposedB);
    }
#pragma unroll 1
    for (int step = worker; step < steps; step += ahead * workers)
#pragma unroll
      for (int i = 0; i < ahead; ++i) {  // what lies behind the depth is zero
        parts[i].multiply(sums);
        parts[i].template load_b<WHOLE>(at);
        parts[i].template load_a<WHOLE>(at);
        at.move(workers * Part::depth, !kTransposedB);
      }
#pragma unroll
    for (int j = 0; j < Part::blocks; ++j)
#pragma unroll
      for (int i = 0; i < ROWS / 8; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e)
          shared[down * S::sums + (8 * i + 2 * (lane % 4) + e % 2) * S::pitch + across * Part::columns +
                 Part::column(j, e / 2)] = sums[j][i][e];
    __syncthreads();
    const int count_here = rows * S::columns, size = cluster_size(), rank = cluster_rank();
    // Chunks of 32 are dealt out to the blocks of the cluster; a warp has the sums of its block for one.
    const int chunks = (count_here + S::chunk - 1) / S::chunk, each = (chunks + size - 1) / size * S::chunk;
    float* const inbox = shared + S::inbox;
    const int own = (chunks - rank + size - 1) / size;  // chunks that this block adds up
    if (size > 1 && threadIdx.x == 0) expect((size - 1) * own * S::chunk * static_cast<int>(sizeof(float)));
    if (size > 1 && first == 0) wait_for_others();
    for (int c = warp; c < chunks; c += Tile::threads / 32) {
      const int e = c * S::chunk + lane;
      const float* const place = shared + e / S::columns * S::pitch + e % S::columns;
      float sum = *place;
#pragma unroll
      for (int i = 1; i < Tile::depth_warps; ++i) sum += place[i * S::sums];
      const int owner = c % size;
      float* const there = inbox + rank * each + c / size * S::chunk + lane;
      if (size == 1) {
        if (e < count_here && e % S::columns < columns) write(first + e / S::columns, first_column + e % S::columns, sum);
      } else if (owner == rank) {
        *there = sum;
      } else {
        send(there, owner, sum);
      }
    }
    if (size > 1) {
      __syncthreads();  // what the block has sent itself
      receive(first / ROWS & 1);
      for (int c = rank + warp * size; c < chunks; c += Tile::threads / 32 * size) {
        const int e = c * S::chunk + lane;
        float sum = 0.f;
        for (int from = 0; from < size; ++from) sum += inbox[from * each + c / size * S::chunk + lane];
        if (e < count_here && e % S::columns < columns) write(first + e / S::columns, first_column + e % S::columns, sum);
      }
    }
    if (first + ROWS < count) {
      load_first_of_b();
      size > 1 ? cluster_wait() : __syncthreads();  // before anything is written again
    }
  }
}

}  // namespace
