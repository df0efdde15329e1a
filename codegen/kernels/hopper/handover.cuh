// How a block of C goes from the warpgroups that multiply to the warps that apply the steps of an epilogue to it.
//
// The steps take more than ten instructions an element, during which the tensor cores would wait. Three warps of the first
// warpgroup have nothing else to do. So right after its last product a block is kept in FP32 as a partial sum would be, in
// the window, the buffers and the stage that is lent, and the spare warps take it from there while the next product runs.
//
// A portion is 16 sums of each thread of a warpgroup, or 32 columns; each of the eight warps that multiply has a part of
// 16 rows of it. Portions pass in a fixed order. The first ones lie in the buffers at once (256 columns) and the next ones
// come there out of the window; those of the stage that is lent go to memory, since the ring needs it back. A part has two
// barriers for each buffer, and what is in memory has two for each warpgroup:
//   full       a warp has written its part; the part in memory is complete.
//   free       a spare warp has read it, so that it may be written again.
// A part is always read by the same spare warp: so it is never two phases ahead of a barrier, whose parity would be the same.
// Both sides walk through the same tiles, publications and portions, so no message says what a part is, and the parity of
// a barrier follows from the numbers of the block and of the portion.
//
// Nobody waits in a circle. A spare warp waits for full alone, in the order of the portions. A warp that multiplies waits for
// a free one at fixed places of its program: that is for portions which all warps of its block have handed on when they come
// to the same place. The warp that is furthest behind, among those of both blocks of a cluster, finds its stages of the ring
// filled, since all others have given back more of them, and what it has to wait for free needs only parts that it and
// those before it have handed on; so it goes on. The thread that copies waits for no spare warp, and the part in memory is
// told full after a fixed number of steps, which waits for stores alone.
//
// Spare warps need about 16,000 clocks for a tile of 128 x 256 (700 for a part, of which each has 24), a product of depth K
// takes 16 K. With the pauses between portions, and what comes in for the next publication, nobody waits for them from 26 steps
// of 64 on, a depth of the blocks of 1664; below that all wait at the end of the product, which is correct but slow.
//
// Proxies: parts in buffers are written and read by ordinary accesses. Before the buffers serve bulk copies again, and
// before the part in memory is overwritten by one, the spare warps fence what they have read and say free, and the thread
// that copies comes after it. What it reads in memory, bulk stores have completed before full.
#include "jobs.cuh"

namespace {

constexpr int kSpareWarps = 3, kParts = 8;  // parts: warps that multiply
constexpr int kPause = 3;  // steps from one portion to the next, which take half as long again as the spare warps do
constexpr int kFull = 0, kFree = 1;  // barriers

// Whether a block of C is complete after a publication.
__device__ __forceinline__ bool finishes(int publication) {
  return kPublications[publication].kind == kFinish || kPublications[publication].kind == kWhole;
}

// Byte of a part in a buffer where a lane's first two sums of each four begin, those of float4 number `of` of the portion;
// the other two, 8 rows further down, are 256 bytes behind. 8 columns of 16 rows lie together, and rows change places with
// the columns' number, so that neither side meets a bank twice.
__host__ __device__ constexpr unsigned put_at(unsigned part, unsigned lane, unsigned of) {
  return (part % 4 * 512 + lane / 4 * 32 + lane % 4 * 8) ^ (of * 32 + of * 2048);
}

// Where a lane of a spare warp finds four neighbours in the row lane / 8, the columns from 4 * (lane % 8) on. Each fourth
// row after it is 128 bytes behind.
__host__ __device__ constexpr unsigned found_at(unsigned part, unsigned lane) {
  return part % 4 * 512 + lane % 8 / 2 * 2048 + (lane / 8 ^ lane % 8 / 2) * 32 + lane % 2 * 16;
}

// A group's part of a slot.
template <int TILE_N>
__device__ __forceinline__ char* slot_of(const Problem& problem, int number, int job, int group) {
  // What is carried from the first phase to the second one has a slot for each tile.
  i64 place = number;
  if constexpr (kCarried > 0) {
    const int clusters = gridDim.x / 2, rounds = (Raster<TILE_N>(problem).count() + clusters - 1) / clusters;
    place = place < kCarried ? place * rounds + job : place + kCarried * (rounds - 1);
  }
  place = place * gridDim.x + blockIdx.x;
  return static_cast<char*>(problem.scratch) + place * Tile<TILE_N>::slot_bytes + group * Tile<TILE_N>::group_bytes;
}

template <class T>
struct Portions {
  static constexpr unsigned count = T::sums / 16, held = T::window / 16;    // of a block, of those in the window
  static constexpr unsigned ahead = T::lent ? T::buffers : 0;               // that lie in the buffers first
  static constexpr unsigned through = ahead + held, lent = count - through;  // of the buffers, of memory
  static_assert(through % T::buffers == 0, "each buffer holds as many of a block");

  // Which 32 columns come as number `turn`.
  static __host__ __device__ constexpr unsigned columns(unsigned turn) {
    return turn < ahead ? held + turn : turn < through ? turn - ahead : turn;
  }
  static __host__ __device__ constexpr unsigned buffer(unsigned turn) { return turn % T::buffers; }
  // Of the full barrier, and of the free barrier after it; `block`: how many were before.
  static __host__ __device__ constexpr unsigned parity(unsigned turn, unsigned block) {
    return (block * (through / T::buffers % 2) + turn / T::buffers) & 1;
  }
};

// The barriers of a block of the grid; `which`: a buffer, or of the parts in memory `T::buffers`.
template <class T>
struct Handover {
  u32 barriers;

  __device__ __forceinline__ explicit Handover(u32 shared) : barriers(shared + T::handover) {}
  __device__ __forceinline__ u32 of_part(u32 part, u32 buffer, int kind) const {
    return barriers + 8 * ((part * T::buffers + buffer) * 2 + kind);
  }
  __device__ __forceinline__ u32 of_memory(u32 group, int kind) const {
    return barriers + 8 * ((kParts * T::buffers + group) * 2 + kind);
  }
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < 2 * kParts * T::buffers; ++i) barrier_init(barriers + 8 * i, 1);
    for (int group = 0; group < kGroups; ++group) {
      barrier_init(of_memory(group, kFull), 1);
      barrier_init(of_memory(group, kFree), kParts / kGroups * Portions<T>::lent + (Portions<T>::lent == 0));
    }
  }
};

}  // namespace
