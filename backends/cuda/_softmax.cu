#include "_common.cuh"
// y = exp(x - max) / sum exp(x - max), or its logarithm (LOG), along one axis.
//
// Macros: T; LOG. softmax_rows: GROUP threads a row, ROWS rows a block, VEC elements an access,
// ITEMS accesses a thread keeps in registers (0: the row is read twice). softmax_columns: none.
typedef Accumulator<T>::type A;

DEVICE T result(A x, A top, A sum) {
  if (LOG) return from_float<T>(x - top - log_of(sum));
  return from_float<T>(exp_of(x - top) / sum);
}

// x (rows, n), elements of a row adjacent, rows `stride` apart; y dense. Grid: x = rows / ROWS.
#ifdef GROUP
KERNEL(GROUP *ROWS) softmax_rows(T *y, const T *x, i64 rows, i64 n, i64 stride) {
  int id = threadIdx.x % GROUP;
  i64 row = (i64)blockIdx.x * ROWS + threadIdx.x / GROUP;
  bool live = row < rows;  // all threads stay for the reductions
  const T *from = x + (live ? row : 0) * stride;
  T *to = y + (live ? row : 0) * n;
#if ITEMS
  __shared__ A scratch[GROUP / WARP + 1];
  A v[ITEMS][VEC], top = -infinity<A>(), sum = 0;
  UNROLL
  for (int i = 0; i < ITEMS; i++) {  // reads the row once, keeps it
    i64 at = ((i64)i * GROUP + id) * VEC;
    if (at < n) {
      Pack<T, VEC> p = load<VEC>(from + at);
      UNROLL
      for (int j = 0; j < VEC; j++) v[i][j] = to_float(p.v[j]), top = maximum(top, v[i][j]);
    }
  }
  top = row_reduce<GROUP>(top, Max(), scratch);
  UNROLL
  for (int i = 0; i < ITEMS; i++)
    if (((i64)i * GROUP + id) * VEC < n)
      UNROLL
      for (int j = 0; j < VEC; j++) sum += exp_of(v[i][j] - top);
  sum = row_reduce<GROUP>(sum, Sum(), scratch);
  UNROLL
  for (int i = 0; i < ITEMS; i++) {
    i64 at = ((i64)i * GROUP + id) * VEC;
    if (live && at < n) {
      Pack<T, VEC> p;
      UNROLL
      for (int j = 0; j < VEC; j++) p.v[j] = result(v[i][j], top, sum);
      store<VEC>(to + at, p);
    }
  }
#else
  __shared__ Pair<A> scratch[GROUP / WARP + 1];
  Pair<A> run = {-infinity<A>(), 0};
  for (i64 at = id * VEC; at < n; at += GROUP * VEC) {
    Pack<T, VEC> p = load<VEC>(from + at);
    UNROLL
    for (int j = 0; j < VEC; j++) softmax_add(run, (A)to_float(p.v[j]));
  }
  run = row_reduce<GROUP>(run, SoftmaxMerge(), scratch);
  for (i64 at = id * VEC; live && at < n; at += GROUP * VEC) {
    Pack<T, VEC> p = load<VEC>(from + at);
    UNROLL
    for (int j = 0; j < VEC; j++) p.v[j] = result(to_float(p.v[j]), run.a, run.b);
    store<VEC>(to + at, p);
  }
#endif
}
#else
// x, y (outer, n, inner), dense: one thread a column, neighbouring threads read neighbours.
KERNEL(256) softmax_columns(T *y, const T *x, i64 columns, i64 n, i64 inner) {
  for (i64 c = blockIdx.x * 256LL + threadIdx.x; c < columns; c += gridDim.x * 256LL) {
    i64 base = c / inner * n * inner + c % inner;
    Pair<A> run = {-infinity<A>(), 0};
    for (i64 i = 0; i < n; i++) softmax_add(run, (A)to_float(x[base + i * inner]));
    for (i64 i = 0; i < n; i++)
      y[base + i * inner] = result(to_float(x[base + i * inner]), run.a, run.b);
  }
}
#endif
