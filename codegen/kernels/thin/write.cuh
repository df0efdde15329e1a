// Where the rows of a group lie, and how sums become elements of C: for every kind of tile.
#include "task.cuh"

namespace {

// Rows of one product: those of other groups before them, and how many they are.
struct Group {
  int64_t number, before;
  int count;
};

__device__ __forceinline__ Group group_of(const Task& task, int64_t number) {
  if (!task.offsets) return {number, number * task.M, task.M};
  const int64_t before = task.offsets[number];
  return {number, before, task.offsets[number + 1] - static_cast<int>(before)};
}

__device__ __forceinline__ const Input* rows_of_a(const Task& task, const Group& group) {
  return task.A + (task.offsets ? group.before * task.lda : group.number * task.stride_a);
}

struct Writer {
  const Task& task;
  Output* C;
#ifdef SUBCUBIC_EPILOGUE
  int64_t before;
  Extras extras;
#endif  // SUBCUBIC_EPILOGUE

  __device__ __forceinline__ Writer(const Task& task, const Group& group)
      : task(task), C(task.C + (task.offsets ? group.before * task.ldc : group.number * task.stride_c)) {
#ifdef SUBCUBIC_EPILOGUE
    before = group.before;
    extras = task.extras;
#pragma unroll
    for (int i = 0; i < Steps::operands; ++i)
      if (!(Steps::matrices >> i & 1))
        extras.data[i] = static_cast<const Extra*>(extras.data[i]) + group.number * task.stride_vectors;
#endif  // SUBCUBIC_EPILOGUE
  }

  // What an element of C becomes. Row and column are the group's.
  __device__ __forceinline__ float finished([[maybe_unused]] int row, [[maybe_unused]] int column, float sum,
                                            const Output* old) const {
    float value = task.alpha * sum;
    if (task.beta != 0.f) value += task.beta * static_cast<float>(*old);
#ifdef SUBCUBIC_EPILOGUE
    value = Steps::apply(value, extras.scale, [&](int operand) {
      Accumulator of_step;
      widen(fetch(extra_at(extras, operand, before + row, column)), of_step);
      return of_step;
    });
#endif  // SUBCUBIC_EPILOGUE
    return value;
  }

  __device__ __forceinline__ void operator()(int row, int column, float sum) const {
    Output* to = C + row * task.ldc + column;
    narrow(finished(row, column, sum, to), *to);
  }

  // Four neighbours, of which so many are in C, by one store where that can be.
  __device__ __forceinline__ void four(int row, int column, const float4& sums, int there) const {
    Output* to = C + row * task.ldc + column;
    const float all[4] = {sums.x, sums.y, sums.z, sums.w};
    if (there >= 4 && reinterpret_cast<uintptr_t>(to) % (4 * sizeof(Output)) == 0) {
      Pack<4> pack;
#pragma unroll
      for (int i = 0; i < 4; ++i) pack.v[i] = finished(row, column + i, all[i], to + i);
      store<4>(to, pack);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (i < there) (*this)(row, column + i, all[i]);
    }
  }
};

}  // namespace
