#include "_common.cuh"
// Normalisation over the last axis.
//   KIND 0  layer_norm    y = (x - mean) / sqrt(var + eps) * weight + bias
//   KIND 1  rms_norm      y = x / sqrt(mean(x^2) + eps) * weight
//   KIND 2  add_rms_norm  s = x + residual (stored rounded), y = rms_norm of the unrounded s
//
// Macros: T; KIND WEIGHT BIAS; GROUP threads a row, ROWS rows a block, VEC elements an access,
// ITEMS accesses a thread keeps in registers (0: the row is read twice).
typedef Accumulator<T>::type A;

// Count c, mean a and sum of squared distances b of two parts, put together (Chan et al.).
struct MomentsMerge {
  DEVICE Triple<A> operator()(Triple<A> x, Triple<A> y) const {
    A count = x.c + y.c, delta = y.a - x.a;
    if (count == (A)0) return x;
    A share = y.c / count;
    return Triple<A>{x.a + delta * share, x.b + y.b + delta * delta * x.c * share, count};
  }
};

// Reads VEC elements of the row (KIND 2: of both operands, and stores their sum).
DEVICE void read(A *v, const T *x, const T *residual, T *s, i64 at, bool write) {
  Pack<T, VEC> p = load<VEC>(x + at);
#if KIND == 2
  Pack<T, VEC> q = load<VEC>(residual + at), r;
  UNROLL
  for (int j = 0; j < VEC; j++) {
    v[j] = to_float(p.v[j]) + to_float(q.v[j]);
    r.v[j] = from_float<T>(v[j]);
  }
  if (write) store<VEC>(s + at, r);
#else
  UNROLL
  for (int j = 0; j < VEC; j++) v[j] = to_float(p.v[j]);
#endif
}

DEVICE void write(T *y, const A *v, A mean, A scale, const T *weight, const T *bias, i64 at) {
  Pack<T, VEC> p;
#if WEIGHT
  Pack<T, VEC> w = load<VEC>(weight + at);
#endif
#if BIAS
  Pack<T, VEC> b = load<VEC>(bias + at);
#endif
  UNROLL
  for (int j = 0; j < VEC; j++) {
    A z = (v[j] - mean) * scale;
#if WEIGHT
    z *= to_float(w.v[j]);
#endif
#if BIAS
    z += to_float(b.v[j]);
#endif
    p.v[j] = from_float<T>(z);
  }
  store<VEC>(y + at, p);
}

// x (rows, n), elements of a row adjacent, rows `stride` apart (residual too); y and s dense.
// Grid: x = rows / ROWS.
KERNEL(GROUP *ROWS) norm_rows(T *y, T *s, const T *x, const T *residual, const T *weight,
                              const T *bias, i64 rows, i64 n, i64 stride, double eps) {
  __shared__ A scratch[GROUP / WARP + 1];
  int id = threadIdx.x % GROUP;
  i64 row = (i64)blockIdx.x * ROWS + threadIdx.x / GROUP;
  bool live = row < rows;  // all threads stay for the reductions
  const T *from = x + (live ? row : 0) * stride, *other = residual + (live ? row : 0) * stride;
  T *to = y + (live ? row : 0) * n, *sum_to = s + (live ? row : 0) * n;
  A mean = 0, square = 0;
#if ITEMS
  A v[ITEMS][VEC];
  UNROLL
  for (int i = 0; i < ITEMS; i++) {  // reads the row once, keeps it
    i64 at = ((i64)i * GROUP + id) * VEC;
    UNROLL
    for (int j = 0; j < VEC; j++) v[i][j] = 0;
    if (at < n) read(v[i], from, other, sum_to, at, live);
  }
#if KIND == 0
  UNROLL
  for (int i = 0; i < ITEMS; i++)
    UNROLL
    for (int j = 0; j < VEC; j++) mean += v[i][j];
  mean = row_reduce<GROUP>(mean, Sum(), scratch) / (A)n;
#endif
  UNROLL
  for (int i = 0; i < ITEMS; i++)
    if (((i64)i * GROUP + id) * VEC < n)
      UNROLL
      for (int j = 0; j < VEC; j++) square += (v[i][j] - mean) * (v[i][j] - mean);
  square = row_reduce<GROUP>(square, Sum(), scratch);
  A scale = (A)1 / sqrt_of(square / (A)n + (A)eps);
  UNROLL
  for (int i = 0; i < ITEMS; i++) {
    i64 at = ((i64)i * GROUP + id) * VEC;
    if (live && at < n) write(to, v[i], mean, scale, weight, bias, at);
  }
#else
  A v[VEC];
#if KIND == 0
  __shared__ Triple<A> parts[GROUP / WARP + 1];
  Triple<A> run = {0, 0, 0};
  for (i64 at = id * VEC; at < n; at += GROUP * VEC) {
    read(v, from, other, sum_to, at, live);
    UNROLL
    for (int j = 0; j < VEC; j++) {
      run.c += (A)1;
      A delta = v[j] - run.a;
      run.a += delta / run.c;
      run.b += delta * (v[j] - run.a);
    }
  }
  run = row_reduce<GROUP>(run, MomentsMerge(), parts);
  mean = run.a, square = run.b;
#else
  for (i64 at = id * VEC; at < n; at += GROUP * VEC) {
    read(v, from, other, sum_to, at, live);
    UNROLL
    for (int j = 0; j < VEC; j++) square += v[j] * v[j];
  }
  square = row_reduce<GROUP>(square, Sum(), scratch);
#endif
  A scale = (A)1 / sqrt_of(square / (A)n + (A)eps);
  for (i64 at = id * VEC; live && at < n; at += GROUP * VEC) {
    read(v, from, other, sum_to, at, false);
    write(to, v, mean, scale, weight, bias, at);
  }
#endif
}
