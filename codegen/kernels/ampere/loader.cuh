// One thread's share of the copies to shared memory, for all products of all tiles of its CTA in order.
#include "tile.cuh"

namespace {

// A stage holds kTileM rows of A with kTileK elements (64 bytes, 4 chunks), then kTileK rows of B with kTileN elements
// (256 bytes, 16 chunks). Chunks of 16 bytes trade places within a row, so that eight rows of a chunk, which one
// ldmatrix reads, lie in different banks.
__device__ __forceinline__ uint32_t place_in_a(int row, int chunk) { return row * 64 + ((chunk ^ (row / 2 & 3)) << 4); }
__device__ __forceinline__ uint32_t place_in_b(int row, int chunk) {
  return kBytesA + row * 256 + ((chunk ^ (row & 7)) << 4);
}

class Loader {
 public:
  __device__ __forceinline__ Loader(const Work& work, int tiles_m, int tiles_n)
      : work_(work), tiles_m_(tiles_m), tiles_n_(tiles_n), tile_(blockIdx.x), turn_(0) {
    next_product();
  }

  // Starts the copies of the next kTileK of K into a stage, or none after the last product of the last tile.
  __device__ __forceinline__ void load(uint32_t stage) {
    if (tile_ < tiles_m_ * tiles_n_) {
      const uint32_t to_a = stage + place_in_a(row_a(), chunk_a()), to_b = stage + place_in_b(row_b(), chunk_b());
      const int bytes = min(max(columns_a_, 0), 8) * 2;
      copy_async(to_a, a_, rows_a_ > 0 ? bytes : 0);
      copy_async(to_a + kHalfA * 64, a_ + kHalfA * int64_t(ld_a_), rows_a_ > kHalfA ? bytes : 0);
      copy_async(to_b, b_, rows_b_ > 0 ? bytes_b_ : 0);
      copy_async(to_b + kHalfB * 256, b_ + kHalfB * int64_t(ld_b_), rows_b_ > kHalfB ? bytes_b_ : 0);
      a_ += kTileK * 2;
      columns_a_ -= kTileK;
      b_ += kTileK * int64_t(ld_b_);
      rows_b_ -= kTileK;
      left_ -= kTileK;
      if (left_ <= 0) {
        if (++turn_ == kTurnCount) {
          turn_ = 0;
          tile_ += gridDim.x;
        }
        next_product();
      }
    }
    commit_copies();
  }

 private:
  // A thread copies two chunks of A and two of B, half a tile's rows apart, where the swizzle is the same.
  static constexpr int kHalfA = kThreads / 4, kHalfB = kThreads / 16;
  static __device__ __forceinline__ int row_a() { return threadIdx.x / 4; }
  static __device__ __forceinline__ int chunk_a() { return threadIdx.x % 4; }
  static __device__ __forceinline__ int row_b() { return threadIdx.x / 16; }
  static __device__ __forceinline__ int chunk_b() { return threadIdx.x % 16; }
  static_assert(2 * kHalfA == kTileM && 2 * kHalfB == kTileK && kHalfA % 8 == 0 && kHalfB % 8 == 0, "two chunks each");

  __device__ __forceinline__ void next_product() {
    const Tile tile = tile_at(tile_, tiles_m_, tiles_n_);
    const Factor a = factor<BlocksOfA>(work_.a, kTurns[turn_].a), b = factor<BlocksOfB>(work_.b, kTurns[turn_].b);
    a_ = a.data + (tile.row + row_a()) * a.ld + chunk_a() * 16;
    ld_a_ = a.ld;
    rows_a_ = a.rows - tile.row - row_a();
    columns_a_ = a.columns - chunk_a() * 8;
    b_ = b.data + row_b() * b.ld + (tile.column + chunk_b() * 8) * 2;
    ld_b_ = b.ld;
    rows_b_ = b.rows - row_b();
    bytes_b_ = min(max(b.columns - tile.column - chunk_b() * 8, 0), 8) * 2;
    left_ = static_cast<int>(work_.k);
  }

  const Work& work_;
  const int tiles_m_, tiles_n_;
  int tile_, turn_, left_;                         // left_: of K, in this product
  int rows_a_, columns_a_, rows_b_, bytes_b_;      // what exists from this thread's first chunk on
  const char *a_, *b_;                             // its first chunk
  int ld_a_, ld_b_;
};

}  // namespace
