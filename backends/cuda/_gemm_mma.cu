#include "_common.cuh"
#include "_mma.cuh"
// C (m, n) = act(A (m, k) B (k, n) + bias) + residual on the matrix units, f16 or bf16, f32 sums.
//
// Macros: T; tile BM BN BK; WARPS_M WARPS_N; STAGES of the cp.async pipeline; A_K (1: A's k axis
// is adjacent, 0: its m axis); B_N (1: B's n axis is adjacent, 0: its k axis); VA VB (rows start
// on 16 bytes); PAIRS (n is even); SPLIT (1: write f32 partial sums, `gemm_finish` adds them); ACT BIAS RESIDUAL.
constexpr int THREADS = WARPS_M * WARPS_N * 32;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N;  // a warp's part of the tile
constexpr int FM = WM / 16, FN = WN / 8;             // ... in fragments
// Eight more elements a row put the eight rows of an ldmatrix into different banks.
constexpr int A_ROWS = A_K ? BM : BK, A_COLS = A_K ? BK : BM, A_PITCH = A_COLS + 8;
constexpr int B_ROWS = B_N ? BK : BN, B_COLS = B_N ? BN : BK, B_PITCH = B_COLS + 8;
constexpr int A_TILE = A_ROWS * A_PITCH, B_TILE = B_ROWS * B_PITCH;
static_assert(FM * 16 * WARPS_M == BM && FN * 8 * WARPS_N == BN && FN % 2 == 0, "tile");

// Reads A (m0.., k0..) and B (k0.., n0..); writes one stage of shared memory, zeros outside.
DEVICE void load_stage(T *as, T *bs, const T *a, const T *b, i64 lda, i64 ldb, i64 m_left,
                       i64 n_left, i64 k_left) {
  load_tile<THREADS, A_ROWS, A_COLS, A_PITCH, VA>(as, a, lda, A_K ? m_left : k_left,
                                                  A_K ? k_left : m_left);
  load_tile<THREADS, B_ROWS, B_COLS, B_PITCH, VB>(bs, b, ldb, B_N ? k_left : n_left,
                                                  B_N ? n_left : k_left);
}

// Fragments of 16 rows of A and 16 columns of B at depth kk of a stage.
DEVICE void load_a(u32 *f, const T *as, int row, int kk, int lane) {
  int j = lane / 8, r = lane % 8;
  if (A_K) ldmatrix4<false>(f, as + (row + r + j % 2 * 8) * A_PITCH + kk + j / 2 * 8);
  else ldmatrix4<true>(f, as + (kk + r + j / 2 * 8) * A_PITCH + row + j % 2 * 8);
}
DEVICE void load_b(u32 *f, const T *bs, int col, int kk, int lane) {
  int j = lane / 8, r = lane % 8;
  if (B_N) ldmatrix4<true>(f, bs + (kk + r + j % 2 * 8) * B_PITCH + col + j / 2 * 8);
  else ldmatrix4<false>(f, bs + (col + r + j / 2 * 8) * B_PITCH + kk + j % 2 * 8);
}

// Two neighbours; with PAIRS (n is even) always both, in one access.
template <class P> DEVICE void put(P *to, P low, P high, bool both) {
  if (PAIRS) {
    store<2>(to, Pack<P, 2>{low, high});
  } else {
    to[0] = low;
    if (both) to[1] = high;
  }
}

// Grid: x = tiles, grouped so that 8 rows of tiles share B in the cache; y = splits of k; z = batch.
// Matrix z of the batch lies at (z / batch1) a0 + (z % batch1) a1; C and the residual are dense.
KERNEL(THREADS) gemm_mma(T *c, float *partial, const T *a, const T *b, const T *bias,
                         const T *residual, i64 m, i64 n, i64 k, i64 lda, i64 ldb, i64 batch,
                         i64 batch1, i64 a0, i64 a1, i64 b0, i64 b1) {
  DYNAMIC_SHARED(memory);
  T *as = reinterpret_cast<T *>(memory), *bs = as + STAGES * A_TILE;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int warp_row = warp / WARPS_N * WM, warp_col = warp % WARPS_N * WN;

  i64 tiles_m = (m + BM - 1) / BM, tiles_n = (n + BN - 1) / BN, tile = blockIdx.x;
  i64 group = tile / (8 * tiles_n), in_group = tile % (8 * tiles_n);
  i64 group_rows = min(tiles_m - group * 8, (i64)8);
  i64 m0 = (group * 8 + in_group % group_rows) * BM, n0 = in_group / group_rows * BN;
  i64 k_tiles = (k + BK - 1) / BK, splits = gridDim.y;
  i64 first = k_tiles * blockIdx.y / splits, last = k_tiles * (blockIdx.y + 1) / splits;

  for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {
    const T *az = a + z / batch1 * a0 + z % batch1 * a1 + (A_K ? m0 * lda : m0);
    const T *bz = b + z / batch1 * b0 + z % batch1 * b1 + (B_N ? n0 : n0 * ldb);
    float acc[FM][FN][4] = {};

    // Fill all stages but one.
    for (int s = 0; s < STAGES - 1; s++) {
      i64 k0 = (first + s) * BK;
      if (first + s < last)
        load_stage(as + s * A_TILE, bs + s * B_TILE, az + k0 * (A_K ? 1 : lda),
                   bz + k0 * (B_N ? ldb : 1), lda, ldb, m - m0, n - n0, k - k0);
      async_commit();
    }
    int slot = 0;
    for (i64 kt = first; kt < last; kt++) {
      async_wait<STAGES - 2>();  // this stage has arrived ...
      __syncthreads();           // ... for all threads, and the one to be filled has been read
      i64 ahead = kt + STAGES - 1, k0 = ahead * BK;
      int fill = (slot + STAGES - 1) % STAGES;
      if (ahead < last)
        load_stage(as + fill * A_TILE, bs + fill * B_TILE, az + k0 * (A_K ? 1 : lda),
                   bz + k0 * (B_N ? ldb : 1), lda, ldb, m - m0, n - n0, k - k0);
      async_commit();
      const T *at = as + slot * A_TILE, *bt = bs + slot * B_TILE;
      UNROLL
      for (int kk = 0; kk < BK; kk += 16) {
        u32 fa[FM][4], fb[FN][2];
        UNROLL
        for (int i = 0; i < FM; i++) load_a(fa[i], at, warp_row + i * 16, kk, lane);
        UNROLL
        for (int j = 0; j < FN; j += 2) load_b(fb[j], bt, warp_col + j * 8, kk, lane);
        UNROLL
        for (int i = 0; i < FM; i++)
          UNROLL
          for (int j = 0; j < FN; j++) mma(acc[i][j], fa[i], fb[j], T());
      }
      slot = (slot + 1) % STAGES;
    }
    async_wait<0>();
    __syncthreads();  // shared memory is free for the next batch

    // Writes two adjacent elements of a fragment row at once; a quad of lanes covers 8.
    i64 base = z * m * n;
    UNROLL
    for (int i = 0; i < FM; i++)
      UNROLL
      for (int j = 0; j < FN; j++)
        UNROLL
        for (int e = 0; e < 4; e += 2) {
          i64 row = m0 + warp_row + i * 16 + lane / 4 + e / 2 * 8;
          i64 col = n0 + warp_col + j * 8 + lane % 4 * 2;
          if (row >= m || col >= n) continue;
          float *x = acc[i][j] + e;
#if SPLIT
          put(partial + (blockIdx.y * batch + z) * m * n + row * n + col, x[0], x[1], col + 1 < n);
#else
          const T *r = residual + base;
          T low = finish<ACT, BIAS, RESIDUAL>(x[0], bias, r, row, col, n), high = low;
          if (PAIRS || col + 1 < n) high = finish<ACT, BIAS, RESIDUAL>(x[1], bias, r, row, col + 1, n);
          put(c + base + row * n + col, low, high, col + 1 < n);
#endif
        }
  }
}
