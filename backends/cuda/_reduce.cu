#include "_common.cuh"
// Reductions: KIND 0 sum, 1 max, 2 mean, 3 argmax (the first of equals; the first NaN wins).
//
// Macros: T, R (types of x and of the result), A (of the sums), KIND. reduce_rows: GROUP threads a
// row, ROWS rows a block, VEC elements an access. PARTIAL (1: each split stores its own result,
// `reduce_finish` puts them together). Deterministic: no atomics.
struct State {
  A value;
  i64 index;
};
DEVICE State shuffle_xor(State x, int mask) {
  x.value = ::shuffle_xor(x.value, mask);
  if constexpr (KIND == 3) x.index = ::shuffle_xor(x.index, mask);
  return x;
}
struct Merge {
  DEVICE State operator()(State x, State y) const {
    if constexpr (KIND == 0 || KIND == 2) return State{x.value + y.value, 0};
    else if constexpr (KIND == 1) return State{nan_maximum(x.value, y.value), 0};
    else {
      if (y.index < 0) return x;
      if (x.index < 0) return y;
      bool x_nan = is_nan(x.value), y_nan = is_nan(y.value);
      bool tied = x.value == y.value || (x_nan && y_nan);
      bool take_y = tied ? y.index < x.index : y_nan || (!x_nan && y.value > x.value);
      return take_y ? y : x;
    }
  }
};
// Nothing yet. The maximum starts from any element instead: there is at least one.
DEVICE State nothing(A any) { return State{KIND == 1 ? any : (A)0, -1}; }
DEVICE R result(State x, i64 n) {
#if KIND == 3
  return (R)x.index;
#elif KIND == 2
  return from_float<R>(x.value / (A)n);
#else
  return from_float<R>(x.value);
#endif
}
DEVICE A number(T x) { return (A)to_float(x); }

#ifdef GROUP
// x (rows, n), rows `stride` apart. Grid: x = rows / ROWS, y = splits of n, whole in VEC.
KERNEL(GROUP *ROWS) reduce_rows(R *y, A *values, i64 *indices, const T *x, i64 rows, i64 n,
                                i64 stride) {
  __shared__ State scratch[GROUP / WARP + 1];
  int id = threadIdx.x % GROUP;
  i64 row = (i64)blockIdx.x * ROWS + threadIdx.x / GROUP;
  bool live = row < rows;
  const T *from = x + (live ? row : 0) * stride;
  i64 packs = n / VEC, first = packs * blockIdx.y / gridDim.y * VEC;
  i64 last = packs * (blockIdx.y + 1) / gridDim.y * VEC;
  State run = nothing(n ? number(from[0]) : (A)0);
#pragma unroll 4
  for (i64 at = first + id * VEC; at < last; at += GROUP * VEC) {
    Pack<T, VEC> p = load<VEC>(from + at);
    UNROLL
    for (int j = 0; j < VEC; j++) run = Merge()(run, State{number(p.v[j]), at + j});
  }
  run = row_reduce<GROUP>(run, Merge(), scratch);
  if (id == 0 && live) {
#if PARTIAL
    values[blockIdx.y * rows + row] = run.value;
    if (KIND == 3) indices[blockIdx.y * rows + row] = run.index;
#else
    y[row] = result(run, n);
#endif
  }
}
#else
// x (outer, n, inner), dense: 32 neighbouring columns, 8 threads share one.
// Grid: x = columns / 32, y = splits of n.
KERNEL(256) reduce_columns(R *y, A *values, i64 *indices, const T *x, i64 columns, i64 n,
                           i64 inner) {
  __shared__ State scratch[8][32];
  int tx = threadIdx.x % 32, ty = threadIdx.x / 32;
  i64 first = n * blockIdx.y / gridDim.y, last = n * (blockIdx.y + 1) / gridDim.y;
  for (i64 c0 = blockIdx.x * 32LL; c0 < columns; c0 += gridDim.x * 32LL) {
    i64 c = c0 + tx;
    State run = nothing(0);
    if (c < columns) {
      const T *from = x + c / inner * n * inner + c % inner;
      run = nothing(n ? number(from[0]) : (A)0);
#pragma unroll 4
      for (i64 i = first + ty; i < last; i += 8)
        run = Merge()(run, State{number(from[i * inner]), i});
    }
    scratch[ty][tx] = run;
    __syncthreads();
    if (ty == 0 && c < columns) {
      for (int t = 1; t < 8; t++) run = Merge()(run, scratch[t][tx]);
#if PARTIAL
      values[blockIdx.y * columns + c] = run.value;
      if (KIND == 3) indices[blockIdx.y * columns + c] = run.index;
#else
      y[c] = result(run, n);
#endif
    }
    __syncthreads();
  }
}

// y[i] from the partial results (splits, count).
KERNEL(256) reduce_finish(R *y, const A *values, const i64 *indices, i64 count, i64 splits, i64 n) {
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    State run = {values[i], KIND == 3 ? indices[i] : 0};
    for (i64 s = 1; s < splits; s++)
      run = Merge()(run, State{values[s * count + i], KIND == 3 ? indices[s * count + i] : 0});
    y[i] = result(run, n);
  }
}
#endif
