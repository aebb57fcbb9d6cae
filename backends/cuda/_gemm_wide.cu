#include "_common.cuh"
#include "_mma.cuh"
// C (m, n) = act(A (m, k) B (k, n) + bias) + residual on the matrix units for wide types: double,
// and float rounded to tf32 (only where the caller allows it). Any strides.
//
// Macros: T (float or double); tile BM BN BK; WARPS_M WARPS_N; A_K, B_N: which axis is read along
// neighbouring threads; ACT BIAS RESIDUAL.
constexpr bool DOUBLE = sizeof(T) == 8;
constexpr int FR = DOUBLE ? 8 : 16, FK = DOUBLE ? 4 : 8;  // rows and k of one mma; 8 columns
constexpr int THREADS = WARPS_M * WARPS_N * 32, WM = BM / WARPS_M, WN = BN / WARPS_N;
constexpr int FM = WM / FR, FN = WN / 8, PARTS = DOUBLE ? 2 : 4;
constexpr int LOADS_A = BM * BK / THREADS, LOADS_B = BK * BN / THREADS;
static_assert(LOADS_A * THREADS == BM * BK && LOADS_B * THREADS == BK * BN, "tile");
static_assert(FM * FR * WARPS_M == BM && FN * 8 * WARPS_N == BN && BK % FK == 0, "tile");

// How a number lies in shared memory: tf32 is rounded once, on its way in.
DEVICE double stored(double x) { return x; }
DEVICE u32 stored(float x) { return to_tf32(x); }
typedef decltype(stored(T())) S;

// One mma's depth of the warp's tile: g = lane / 4, t = lane % 4 (layouts in _mma.cuh).
template <class P, class Q>
DEVICE void step(double (*acc)[FN][PARTS], const P &as, const Q &bs, int row, int col, int kk, int g,
                 int t) {
  double fa[FM], fb[FN];
  UNROLL
  for (int i = 0; i < FM; i++) fa[i] = as[kk + t][row + i * 8 + g];
  UNROLL
  for (int j = 0; j < FN; j++) fb[j] = bs[kk + t][col + j * 8 + g];
  UNROLL
  for (int i = 0; i < FM; i++)
    UNROLL
    for (int j = 0; j < FN; j++) mma(acc[i][j], fa[i], fb[j]);
}
template <class P, class Q>
DEVICE void step(float (*acc)[FN][PARTS], const P &as, const Q &bs, int row, int col, int kk, int g,
                 int t) {
  u32 fa[FM][4], fb[FN][2];
  UNROLL
  for (int i = 0; i < FM; i++)
    UNROLL
    for (int r = 0; r < 4; r++) fa[i][r] = as[kk + t + r / 2 * 4][row + i * 16 + g + r % 2 * 8];
  UNROLL
  for (int j = 0; j < FN; j++)
    UNROLL
    for (int r = 0; r < 2; r++) fb[j][r] = bs[kk + t + r * 4][col + j * 8 + g];
  UNROLL
  for (int i = 0; i < FM; i++)
    UNROLL
    for (int j = 0; j < FN; j++) mma(acc[i][j], fa[i], fb[j], float());
}

// Grid: x = tiles, z = batch. Strides in elements; C and residual are dense. See gemm_simt.
KERNEL(THREADS) gemm_wide(T *c, const T *a, const T *b, const T *bias, const T *residual, i64 m,
                          i64 n, i64 k, i64 am, i64 ak, i64 bk, i64 bn, i64 batch, i64 batch1,
                          i64 a0, i64 a1, i64 b0, i64 b1) {
  // Eight more elements a row put the four k of a fragment into different banks.
  typedef S RowA[BM + 8];
  typedef S RowB[BN + 8];
  __shared__ RowA as[2][BK];
  __shared__ RowB bs[2][BK];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  int warp_row = warp / WARPS_N * WM, warp_col = warp % WARPS_N * WN;
  i64 tiles_n = (n + BN - 1) / BN;
  i64 m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  i64 k_tiles = (k + BK - 1) / BK;

  for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {
    const T *az = a + z / batch1 * a0 + z % batch1 * a1;
    const T *bz = b + z / batch1 * b0 + z % batch1 * b1;
    T acc[FM][FN][PARTS] = {};
    T ra[LOADS_A], rb[LOADS_B];
    // Reads the next tile into registers while the present one is used; two shared buffers.
    for (i64 kt = -1; kt < k_tiles; kt++) {
      int now = kt & 1, next = 1 - now;
      i64 k0 = (kt + 1) * BK;
      if (kt + 1 < k_tiles) {
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
        for (int kk = 0; kk < BK; kk += FK)
          step(acc, as[now], bs[now], warp_row, warp_col, kk, g, t);
      }
      if (kt + 1 < k_tiles) {
        UNROLL
        for (int l = 0; l < LOADS_A; l++) {
          int i = threadIdx.x + l * THREADS;
          as[next][A_K ? i % BK : i / BM][A_K ? i / BK : i % BM] = stored(ra[l]);
        }
        UNROLL
        for (int l = 0; l < LOADS_B; l++) {
          int i = threadIdx.x + l * THREADS;
          bs[next][B_N ? i / BN : i % BK][B_N ? i % BN : i / BK] = stored(rb[l]);
        }
      }
      __syncthreads();  // `next` is written and `now` is read by all
    }
    i64 base = z * m * n;
    UNROLL
    for (int i = 0; i < FM; i++)
      UNROLL
      for (int j = 0; j < FN; j++)
        UNROLL
        for (int e = 0; e < PARTS; e++) {
          i64 row = m0 + warp_row + i * FR + g + e / 2 * 8;
          i64 col = n0 + warp_col + j * 8 + t * 2 + e % 2;
          if (row < m && col < n)
            c[base + row * n + col] = finish<ACT, BIAS, RESIDUAL>(acc[i][j][e], bias,
                                                                  residual + base, row, col, n);
        }
  }
}
