#include "_common.cuh"
// Running sums along one axis of a dense tensor. Macros: T, A (of the sums).
//
// Rows are cut into segments of `length`; with more than one, `scan_totals` adds each up, the
// totals are scanned as rows of their own, and `scan_rows` starts each segment from the carry.
constexpr int THREADS = 256, EACH = 4, CHUNK = THREADS * EACH;

// Sum over the threads before this one in the block; `total` is the whole block's. Nothing is
// subtracted, so that an infinity stays where it is.
DEVICE A block_scan(A x, A *scratch, A &total) {
  int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  UNROLL
  for (int delta = 1; delta < WARP; delta *= 2) {
    A below = shuffle_up(x, delta);
    if (lane >= delta) x += below;
  }
  if (lane == WARP - 1) scratch[warp] = x;
  __syncthreads();
  A before = 0;
  total = 0;
  for (int i = 0; i < THREADS / WARP; i++) {
    if (i < warp) before += scratch[i];
    total += scratch[i];
  }
  __syncthreads();
  A below = shuffle_up(x, 1);
  return lane ? before + below : before;
}

// totals (rows, segments) of x (rows, n). Grid: x = segments, y = rows.
KERNEL(256) scan_totals(A *totals, const T *x, i64 rows, i64 n, i64 length) {
  __shared__ A scratch[THREADS / WARP];
  i64 first = blockIdx.x * length, last = min(first + length, n);
  for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
    A sum = 0;
    for (i64 i = first + threadIdx.x; i < last; i += THREADS) sum += (A)to_float(x[row * n + i]);
    sum = block_reduce<THREADS>(sum, Sum(), scratch);
    if (threadIdx.x == 0) totals[row * gridDim.x + blockIdx.x] = sum;
  }
}

// y (rows, n); carry (rows, segments) holds the inclusive sums of the segments, if CARRY.
KERNEL(256) scan_rows(T *y, const T *x, const A *carry, i64 rows, i64 n, i64 length) {
  __shared__ A scratch[THREADS / WARP];
  i64 first = blockIdx.x * length, last = min(first + length, n);
  for (i64 row = blockIdx.y; row < rows; row += gridDim.y) {
    A sum = gridDim.x > 1 && blockIdx.x > 0 ? carry[row * gridDim.x + blockIdx.x - 1] : (A)0;
    for (i64 chunk = first; chunk < last; chunk += CHUNK) {
      A v[EACH], total;
      i64 at = chunk + threadIdx.x * EACH;
      UNROLL
      for (int j = 0; j < EACH; j++) {
        v[j] = at + j < last ? (A)to_float(x[row * n + at + j]) : (A)0;
        if (j) v[j] += v[j - 1];
      }
      A before = sum + block_scan(v[EACH - 1], scratch, total);
      UNROLL
      for (int j = 0; j < EACH; j++)
        if (at + j < last) y[row * n + at + j] = from_float<T>(before + v[j]);
      sum += total;
    }
  }
}

// x, y (outer, n, inner): one thread a column, neighbouring threads read neighbours.
KERNEL(256) scan_columns(T *y, const T *x, i64 columns, i64 n, i64 inner) {
  for (i64 c = blockIdx.x * 256LL + threadIdx.x; c < columns; c += gridDim.x * 256LL) {
    i64 base = c / inner * n * inner + c % inner;
    A sum = 0;
    for (i64 i = 0; i < n; i++) {
      sum += (A)to_float(x[base + i * inner]);
      y[base + i * inner] = from_float<T>(sum);
    }
  }
}
