// The host's part of the kernel for few tiles: which widths there are, when they are quicker, the launch.
#include "few.cuh"
#include "run.cuh"

#ifdef __CUDACC_RTC__  // where nothing launches them, templates have to be asked for
namespace {
template __global__ void few<128, 0>(const __grid_constant__ FewMaps, const __grid_constant__ Problem);
template __global__ void few<192, 0>(const __grid_constant__ FewMaps, const __grid_constant__ Problem);
template __global__ void few<256, 0>(const __grid_constant__ FewMaps, const __grid_constant__ Problem);
template __global__ void few<192, 192>(const __grid_constant__ FewMaps, const __grid_constant__ Problem);
template __global__ void few<256, 192>(const __grid_constant__ FewMaps, const __grid_constant__ Problem);
template __global__ void few<256, 256>(const __grid_constant__ FewMaps, const __grid_constant__ Problem);
}  // namespace
#else
namespace {

template <int WIDE, int NARROW>
Status launch_few(const Machine& machine, cudaStream_t stream, const Work& w) {
  using T = Few<WIDE, NARROW>;
  FewMaps maps = {};
  Maps second = {};
  Status status = encode_all<WIDE>(machine, w, maps.all);
  if (!status) status = encode<Output, 2>(machine, maps.all.c, w.C, {w.N, w.M}, {w.ldc}, {64, 64});
  if constexpr (NARROW > 0) {
    if (!status) status = encode_all<NARROW>(machine, w, second);
    maps.narrow = second.b;
  }
  if (status) return status;
  Problem problem = {static_cast<int>(w.m), static_cast<int>(w.n), static_cast<int>(w.k), false, false, w.M, w.N, w.C, w.ldc,
                     w.alpha / kDivisor};
#ifdef SUBCUBIC_EPILOGUE
  problem.extras = w.extras;
#endif  // SUBCUBIC_EPILOGUE
  // A kernel of the same stream that comes after this one may be launched before its end, and this one may be: it waits for
  // the end of the one before by itself.
  cudaLaunchAttribute early = {};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = static_cast<unsigned>(2 * tiles_of(w.m, w.n, WIDE + NARROW));
  config.blockDim = kThreads;
  config.dynamicSmemBytes = T::shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = 1;
  return checked(cudaLaunchKernelEx(&config, few<WIDE, NARROW>, maps, problem), "the kernel for few tiles");
}

template <int WIDE, int NARROW>
Status load_one() {
  return checked(cudaFuncSetAttribute(few<WIDE, NARROW>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      Few<WIDE, NARROW>::shared_bytes),
                 "loading the kernel for few tiles");
}

// Narrower tiles move more bytes for each product; costs are those of a column.
struct FewWay {
  int columns, least;  // of a pair, and steps
  double time;         // of each step, in columns of the widest tile
  Status (*load)();
  Status (*launch)(const Machine&, cudaStream_t, const Work&);
};

template <int WIDE, int NARROW>
constexpr FewWay way() {
  constexpr auto time = [](int columns) { return columns * (columns == 256 ? 1 : columns == 192 ? kNarrowCost : 1.04); };
  return {WIDE + NARROW, Few<WIDE, NARROW>::least, time(WIDE) + time(NARROW), load_one<WIDE, NARROW>, launch_few<WIDE, NARROW>};
}

constexpr FewWay kFewWays[] = {way<128, 0>(), way<192, 0>(), way<256, 0>(), way<192, 192>(), way<256, 192>(), way<256, 256>()};

Status load_few() {
  for (const FewWay& one : kFewWays)
    if (Status status = one.load()) return status;
  return kDone;
}

Status (*few_tiles(const Machine& machine, const Work& w, double others))(const Machine&, cudaStream_t, const Work&) {
  if (w.a.copies || w.b.copies || w.m <= kTileM) return nullptr;  // of fewer rows one of two blocks would have none
  const int steps = Few<256, 0>::steps(static_cast<int>(w.k));
  for (const FewWay& one : kFewWays)  // the quickest first
    if (steps >= one.least && tiles_of(w.m, w.n, one.columns) <= machine.clusters)
      return one.time * steps <= others ? one.launch : nullptr;
  return nullptr;
}

}  // namespace
#endif
