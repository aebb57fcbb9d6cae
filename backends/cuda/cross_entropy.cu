#include "_common.cuh"
// loss[i] = log(sum exp logits[i]) - logits[i, targets[i]], and its sum or mean.
//
// Macros: T; I (type of the targets); IGNORE (1: rows whose target is `ignored` count nothing);
// REDUCE (0 none, 1 sum, 2 mean); GROUP threads a row, ROWS rows a block, VEC elements an access.
typedef Accumulator<T>::type A;

#ifdef GROUP
// x (rows, n), rows `stride` apart; losses go to y (REDUCE 0) or to `losses`. Grid: x = rows / ROWS.
KERNEL(GROUP *ROWS) cross_entropy_rows(T *y, A *losses, const T *x, const I *targets, i64 rows,
                                       i64 n, i64 stride, i64 ignored) {
  __shared__ Pair<A> scratch[GROUP / WARP + 1];
  int id = threadIdx.x % GROUP;
  i64 row = (i64)blockIdx.x * ROWS + threadIdx.x / GROUP;
  bool live = row < rows;
  const T *from = x + (live ? row : 0) * stride;
  Pair<A> run = {-infinity<A>(), 0};
  for (i64 at = id * VEC; at < n; at += GROUP * VEC) {
    A v[VEC];
    load_as<VEC>(v, from + at);
    UNROLL
    for (int j = 0; j < VEC; j++) softmax_add(run, v[j]);
  }
  run = row_reduce<GROUP>(run, SoftmaxMerge(), scratch);
  if (id == 0 && live) {
    i64 target = (i64)targets[row];
    bool counts = !(IGNORE && target == ignored);
    A loss = 0;
    if (counts && target >= 0 && target < n) loss = log_of(run.b) + (run.a - to_float(from[target]));
    if (REDUCE) losses[row] = loss;
    else y[row] = from_float<T>(loss);
  }
}

#else
// y[0] = sum or mean of the losses; one block, so that the order is fixed.
KERNEL(1024) cross_entropy_reduce(T *y, const A *losses, const I *targets, i64 rows, i64 ignored) {
  __shared__ A scratch[1024 / WARP];
  A sum = 0, count = 0;
  for (i64 i = threadIdx.x; i < rows; i += 1024) {
    sum += losses[i];
    count += IGNORE && (i64)targets[i] == ignored ? (A)0 : (A)1;
  }
  sum = block_reduce<1024>(sum, Sum(), scratch);
  count = block_reduce<1024>(count, Sum(), scratch);
  if (threadIdx.x == 0) y[0] = from_float<T>(REDUCE == 2 ? sum / count : sum);
}
#endif
