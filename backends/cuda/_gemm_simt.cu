#include "_common.cuh"
// C (m, n) = act(A (m, k) B (k, n) + bias) + residual on the vector units: any type, any strides.
//
// Macros: T; tile BM BN BK; TM TN elements a thread (multiples of 4); A_K, B_N: which axis is read
// along neighbouring threads; ACT BIAS RESIDUAL. Sums in Accumulator<T>.
typedef Accumulator<T>::type A;
constexpr int TX = BN / TN, TY = BM / TM, THREADS = TX * TY;
constexpr int LOADS_A = BM * BK / THREADS, LOADS_B = BK * BN / THREADS;
static_assert(LOADS_A * THREADS == BM * BK && LOADS_B * THREADS == BK * BN, "tile");
static_assert(TM % 4 == 0 && TN % 4 == 0, "elements a thread");

// Grid: x = tiles, z = batch. Strides in elements; C and residual are dense.
KERNEL(THREADS) gemm_simt(T *c, const T *a, const T *b, const T *bias, const T *residual, i64 m,
                          i64 n, i64 k, i64 am, i64 ak, i64 bk, i64 bn, i64 batch, i64 batch1,
                          i64 a0, i64 a1, i64 b0, i64 b1) {
  alignas(32) __shared__ A as[2][BK][BM + 4], bs[2][BK][BN + 4];
  int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
  i64 tiles_n = (n + BN - 1) / BN;
  i64 m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  i64 k_tiles = (k + BK - 1) / BK;

  for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {
    const T *az = a + z / batch1 * a0 + z % batch1 * a1;
    const T *bz = b + z / batch1 * b0 + z % batch1 * b1;
    A acc[TM][TN] = {};
    T ra[LOADS_A], rb[LOADS_B];

    // Reads the next tile into registers while the present one is used; two shared buffers.
    for (i64 kt = -1; kt < k_tiles; kt++) {
      int now = kt & 1, next = 1 - now;
      if (kt + 1 < k_tiles) {
        i64 k0 = (kt + 1) * BK;
        UNROLL
        for (int l = 0; l < LOADS_A; l++) {
          int i = threadIdx.x + l * THREADS;
          i64 row = m0 + (A_K ? i / BK : i % BM), kk = k0 + (A_K ? i % BK : i / BM);
          ra[l] = row < m && kk < k ? az[row * am + kk * ak] : T{};
        }
        UNROLL
        for (int l = 0; l < LOADS_B; l++) {
          int i = threadIdx.x + l * THREADS;
          i64 col = n0 + (B_N ? i % BN : i / BK), kk = k0 + (B_N ? i / BN : i % BK);
          rb[l] = col < n && kk < k ? bz[kk * bk + col * bn] : T{};
        }
      }
      if (kt >= 0) {
        UNROLL
        for (int kk = 0; kk < BK; kk++) {
          A fa[TM], fb[TN];
          UNROLL
          for (int i = 0; i < TM; i += 4) {
            Pack<A, 4> p = load<4>(&as[now][kk][i * TY + ty * 4]);
            UNROLL
            for (int q = 0; q < 4; q++) fa[i + q] = p.v[q];
          }
          UNROLL
          for (int j = 0; j < TN; j += 4) {
            Pack<A, 4> p = load<4>(&bs[now][kk][j * TX + tx * 4]);
            UNROLL
            for (int q = 0; q < 4; q++) fb[j + q] = p.v[q];
          }
          UNROLL
          for (int i = 0; i < TM; i++)
            UNROLL
            for (int j = 0; j < TN; j++) acc[i][j] += fa[i] * fb[j];
        }
      }
      if (kt + 1 < k_tiles) {
        UNROLL
        for (int l = 0; l < LOADS_A; l++) {
          int i = threadIdx.x + l * THREADS;
          as[next][A_K ? i % BK : i / BM][A_K ? i / BK : i % BM] = to_float(ra[l]);
        }
        UNROLL
        for (int l = 0; l < LOADS_B; l++) {
          int i = threadIdx.x + l * THREADS;
          bs[next][B_N ? i / BN : i % BK][B_N ? i % BN : i / BK] = to_float(rb[l]);
        }
      }
      __syncthreads();  // `next` is written and `now` is read by all
    }

    // Rows i * TY + ty * 4 + q, columns j * TX + tx * 4 + q.
    i64 base = z * m * n;
    UNROLL
    for (int i = 0; i < TM; i++)
      UNROLL
      for (int j = 0; j < TN; j++) {
        i64 row = m0 + i / 4 * 4 * TY + ty * 4 + i % 4, col = n0 + j / 4 * 4 * TX + tx * 4 + j % 4;
        if (row < m && col < n)
          c[base + row * n + col] = finish<ACT, BIAS, RESIDUAL>(acc[i][j], bias, residual + base,
                                                                row, col, n);
      }
  }
}
