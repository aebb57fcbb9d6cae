#include "_common.cuh"
#include "_mma.cuh"
#include "_quantized.cuh"
// C (m, n) = (scale_a A) (scale_b B) on the matrix units; A (m, k) rows, int8 or fp8 e4m3.
//
// int8 sums in int32 (IMMA), exactly. fp8 is widened to f16 (exact) on its way into shared memory
// and sums in f32 (HMMA): the fp8 units of some GPUs keep too few bits in their sums.
//
// Macros: INT8; R (result); tile BM BN BK; WARPS_M WARPS_N; B_N (1: B's n axis is adjacent, 0: k);
// VA VB (rows start on 16 bytes); BLOCKED (1: scales change along k, at multiples of BK).
#if INT8
typedef i8 S;  // in shared memory
typedef int A;
constexpr int FK = 32;  // k of one mma
#else
typedef f16 S;
typedef float A;
constexpr int FK = 16;
#endif
constexpr int THREADS = WARPS_M * WARPS_N * 32, WM = BM / WARPS_M, WN = BN / WARPS_N;
constexpr int FM = WM / 16, FN = WN / 8;
// int8 B lies k-adjacent in shared memory always: there is no transposing ldmatrix for bytes.
constexpr bool B_ROWS_K = B_N && !INT8;
constexpr int PAD = 16 / sizeof(S), A_PITCH = BK + PAD, B_PITCH = (B_ROWS_K ? BN : BK) + PAD;
constexpr int CHUNKS_A = BM * BK / 16 / THREADS, CHUNKS_B = BN * BK / 16 / THREADS;
static_assert(CHUNKS_A * 16 * THREADS == BM * BK && CHUNKS_B * 16 * THREADS == BN * BK, "tile");
static_assert(FM >= 1 && FN % 2 == 0 && BK % 32 == 0, "tile");

struct Chunk { alignas(16) u8 v[16]; };

// 16 elements along the adjacent axis, zeros outside.
template <bool VECTOR> DEVICE Chunk fetch(const u8 *from, bool row_valid, i64 left) {
  Chunk c = {};
  if (!row_valid) return c;
  if (VECTOR) {
    if (left > 0) c = *reinterpret_cast<const Chunk *>(from);
  } else {
    UNROLL
    for (int i = 0; i < 16; i++)
      if (i < left) c.v[i] = from[i];
  }
  return c;
}
DEVICE u32 word(const Chunk &c, int i) {
  return c.v[i] | c.v[i + 1] << 8 | c.v[i + 2] << 16 | (u32)c.v[i + 3] << 24;
}
// 16 elements into shared memory.
DEVICE void stow(S *to, const Chunk &c) {
#if INT8
  UNROLL
  for (int i = 0; i < 4; i++) reinterpret_cast<u32 *>(to)[i] = word(c, 4 * i);
#else
  UNROLL
  for (int i = 0; i < 8; i++)
    reinterpret_cast<u32 *>(to)[i] = e4m3x2_to_f16x2(c.v[2 * i] | c.v[2 * i + 1] << 8);
#endif
}

struct Tile {
  Chunk a[CHUNKS_A], b[CHUNKS_B];
};
// Reads one step of A (rows m0.., k0..) and B into registers.
DEVICE void fetch_tile(Tile &t, const u8 *a, const u8 *b, i64 lda, i64 ldb, i64 m_left, i64 n_left,
                       i64 k_left) {
  UNROLL
  for (int l = 0; l < CHUNKS_A; l++) {
    int i = threadIdx.x + l * THREADS, row = i / (BK / 16), k = i % (BK / 16) * 16;
    t.a[l] = fetch<VA>(a + row * lda + k, row < m_left, k_left - k);
  }
  UNROLL
  for (int l = 0; l < CHUNKS_B; l++) {
    int i = threadIdx.x + l * THREADS;
#if !B_N
    int col = i / (BK / 16), k = i % (BK / 16) * 16;
    t.b[l] = fetch<VB>(b + col * ldb + k, col < n_left, k_left - k);
#elif !INT8
    int k = i / (BN / 16), col = i % (BN / 16) * 16;
    t.b[l] = fetch<VB>(b + k * ldb + col, k < k_left, n_left - col);
#else  // four rows of four columns
    int k = i / (BN / 4) * 4, col = i % (BN / 4) * 4;
    UNROLL
    for (int r = 0; r < 4; r++)
      UNROLL
      for (int c = 0; c < 4; c++) t.b[l].v[4 * r + c] = 0;
    UNROLL
    for (int r = 0; r < 4; r++) {
      const u8 *from = b + (k + r) * ldb + col;
      if (k + r >= k_left) continue;
      if (VB) {
        if (col < n_left) {
          Pack<u8, 4> x = load<4>(from);
          UNROLL
          for (int c = 0; c < 4; c++) t.b[l].v[4 * r + c] = x.v[c];
        }
      } else {
        UNROLL
        for (int c = 0; c < 4; c++)
          if (col + c < n_left) t.b[l].v[4 * r + c] = from[c];
      }
    }
#endif
  }
}
DEVICE void stow_tile(S *as, S *bs, const Tile &t) {
  UNROLL
  for (int l = 0; l < CHUNKS_A; l++) {
    int i = threadIdx.x + l * THREADS;
    stow(as + i / (BK / 16) * A_PITCH + i % (BK / 16) * 16, t.a[l]);
  }
  UNROLL
  for (int l = 0; l < CHUNKS_B; l++) {
    int i = threadIdx.x + l * THREADS;
#if !B_N
    stow(bs + i / (BK / 16) * B_PITCH + i % (BK / 16) * 16, t.b[l]);
#elif !INT8
    stow(bs + i / (BN / 16) * B_PITCH + i % (BN / 16) * 16, t.b[l]);
#else  // the 4 x 4 bytes change rows and columns
    int k = i / (BN / 4) * 4, col = i % (BN / 4) * 4;
    const Chunk &x = t.b[l];
    UNROLL
    for (int c = 0; c < 4; c++)
      *reinterpret_cast<u32 *>(bs + (col + c) * B_PITCH + k) =
          x.v[c] | x.v[4 + c] << 8 | x.v[8 + c] << 16 | (u32)x.v[12 + c] << 24;
#endif
  }
}
DEVICE void load_a(u32 *f, const S *as, int row, int kk, int lane) {
  ldmatrix4<false>(f, as + (row + lane % 16) * A_PITCH + kk + lane / 16 * (FK / 2));
}
DEVICE void load_b(u32 *f, const S *bs, int col, int kk, int lane) {
  int j = lane / 8, r = lane % 8;
  if (B_ROWS_K) ldmatrix4<true>(f, bs + (kk + r + j % 2 * 8) * B_PITCH + col + j / 2 * 8);
  else ldmatrix4<false>(f, bs + (col + r + j / 2 * 8) * B_PITCH + kk + j % 2 * (FK / 2));
}

// Grid: x = tiles. Two shared buffers; the next step is read into registers while one is used.
KERNEL(THREADS) quantized_mma(R *c, const u8 *a, const u8 *b, i64 m, i64 n, i64 k, i64 lda, i64 ldb,
                              SCALE_ARGUMENTS) {
  DYNAMIC_SHARED(memory);
  constexpr int A_TILE = BM * A_PITCH, B_TILE = (B_ROWS_K ? BK : BN) * B_PITCH;
  S *as = reinterpret_cast<S *>(memory), *bs = as + 2 * A_TILE;
  Scales scales = SCALE_VALUES;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int warp_row = warp / WARPS_N * WM, warp_col = warp % WARPS_N * WN;
  i64 tiles_n = (n + BN - 1) / BN;
  i64 m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  i64 row0 = m0 + warp_row + lane / 4, col0 = n0 + warp_col + lane % 4 * 2;
  a += m0 * lda;
  b += B_N ? n0 : n0 * ldb;

  A acc[FM][FN][4] = {};
  float total[FM][FN][4] = {};
  Tile next;
  i64 steps = (k + BK - 1) / BK;
  for (i64 step = -1; step < steps; step++) {
    i64 k0 = (step + 1) * BK;
    bool more = step + 1 < steps;
    if (more) fetch_tile(next, a + k0, b + k0 * (B_N ? ldb : 1), lda, ldb, m - m0, n - n0, k - k0);
    if (step >= 0) {
      const S *at = as + (step & 1) * A_TILE, *bt = bs + (step & 1) * B_TILE;
      UNROLL
      for (int kk = 0; kk < BK; kk += FK) {
        u32 fa[FM][4], fb[FN][2];
        UNROLL
        for (int i = 0; i < FM; i++) load_a(fa[i], at, warp_row + i * 16, kk, lane);
        UNROLL
        for (int j = 0; j < FN; j += 2) load_b(fb[j], bt, warp_col + j * 8, kk, lane);
        UNROLL
        for (int i = 0; i < FM; i++)
          UNROLL
          for (int j = 0; j < FN; j++) mma(acc[i][j], fa[i], fb[j], S());
      }
#if BLOCKED
      // The step lies in one block of k: scale its sums and start anew.
      UNROLL
      for (int i = 0; i < FM; i++)
        UNROLL
        for (int j = 0; j < FN; j++)
          UNROLL
          for (int e = 0; e < 4; e++) {
            i64 row = min(row0 + i * 16 + e / 2 * 8, m - 1), col = min(col0 + j * 8 + e % 2, n - 1);
            float x = scales.row(row, step * BK) * scales.col(step * BK, col);
            total[i][j][e] += (float)acc[i][j][e] * x;
            acc[i][j][e] = 0;
          }
#endif
    }
    if (more) stow_tile(as + (~step & 1) * A_TILE, bs + (~step & 1) * B_TILE, next);
    __syncthreads();  // the next buffer is written, this one has been read
  }

  UNROLL
  for (int i = 0; i < FM; i++)
    UNROLL
    for (int j = 0; j < FN; j++)
      UNROLL
      for (int e = 0; e < 4; e++) {
        i64 row = row0 + i * 16 + e / 2 * 8, col = col0 + j * 8 + e % 2;
        if (row >= m || col >= n) continue;
        float x = total[i][j][e];
        if (!BLOCKED) x = (float)acc[i][j][e] * (scales.row(row, 0) * scales.col(0, col));
        c[row * n + col] = from_float<R>(x);
      }
}
