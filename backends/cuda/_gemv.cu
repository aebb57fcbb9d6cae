#include "_common.cuh"
// C (m, n) = act(A (m, k) B (k, n) + bias) + residual for few rows: B is read once, from memory,
// and sets the time. Macros: T; M (rows, 1..8); VEC (elements of B in one access); THREADS;
// B_N (1: n is B's adjacent axis, 0: k); SPLIT; ACT BIAS RESIDUAL.
typedef Accumulator<T>::type A;

#if B_N
// TX threads side by side take VEC columns each; TY rows of them take every TY-th k.
// Grid: x = columns, y = splits of k.
constexpr int TX = 16, TY = THREADS / TX, COLS = TX * VEC;
KERNEL(THREADS) gemv(T *c, A *partial, const T *a, const T *b, const T *bias, const T *residual,
                     i64 m, i64 n, i64 k, i64 am, i64 ak, i64 ldb) {
  __shared__ A part[TY][COLS];
  int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
  i64 col = (i64)blockIdx.x * COLS + tx * VEC;
  i64 first = k * blockIdx.y / gridDim.y, last = k * (blockIdx.y + 1) / gridDim.y;
  A acc[M][VEC] = {};
  if (col < n) {
#pragma unroll(M > 2 ? 2 : 4)  // loads in flight; more would take registers from occupancy
    for (i64 kk = first + ty; kk < last; kk += TY) {
      Pack<T, VEC> x = load<VEC>(b + kk * ldb + col);
      UNROLL
      for (int i = 0; i < M; i++) {
        A s = i < m ? (A)to_float(a[i * am + kk * ak]) : (A)0;
        UNROLL
        for (int v = 0; v < VEC; v++) acc[i][v] += s * to_float(x.v[v]);
      }
    }
  }
  // Adds the TY parts of each column, one row of C after the other.
  UNROLL
  for (int i = 0; i < M; i++) {
    UNROLL
    for (int v = 0; v < VEC; v++) part[ty][tx * VEC + v] = acc[i][v];
    __syncthreads();
    for (int j = threadIdx.x; j < COLS; j += THREADS) {
      A sum = 0;
      for (int t = 0; t < TY; t++) sum += part[t][j];
      i64 at = (i64)blockIdx.x * COLS + j;
      if (i < m && at < n) {
#if SPLIT
        partial[(blockIdx.y * m + i) * n + at] = sum;
#else
        c[i * n + at] = finish<ACT, BIAS, RESIDUAL>(sum, bias, residual, i, at, n);
#endif
      }
    }
    __syncthreads();
  }
}
#else
// One warp a column; its lanes read VEC adjacent k each. Grid: x = columns / warps of a block.
KERNEL(THREADS) gemv(T *c, A *partial, const T *a, const T *b, const T *bias, const T *residual,
                     i64 m, i64 n, i64 k, i64 am, i64 ak, i64 ldb) {
  int lane = threadIdx.x % WARP;
  i64 col = (i64)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
  A acc[M] = {};
  if (col < n) {
#pragma unroll(M > 2 ? 2 : 4)
    for (i64 kk = lane * VEC; kk < k; kk += WARP * VEC) {
      Pack<T, VEC> x = load<VEC>(b + col * ldb + kk);
      UNROLL
      for (int i = 0; i < M; i++)
        if (i < m) {
          UNROLL
          for (int v = 0; v < VEC; v++)
            acc[i] += to_float(a[i * am + (kk + v) * ak]) * to_float(x.v[v]);
        }
    }
  }
  UNROLL
  for (int i = 0; i < M; i++) {
    A sum = group_reduce<WARP>(acc[i], Sum());
    if (lane == 0 && i < m && col < n)
      c[i * n + col] = finish<ACT, BIAS, RESIDUAL>(sum, bias, residual, i, col, n);
  }
}
#endif
