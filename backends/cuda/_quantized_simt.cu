#include "_common.cuh"
#include "_quantized.cuh"
// C (m, n) = (scale_a A) (scale_b B) on the vector units: any strides, any block, any device.
// Macros: INT8; T (i8 or f8e4m3); R (result). Tiles of 64 x 64, 4 x 4 elements a thread.
#if INT8
typedef int A;
#else
typedef float A;
#endif
constexpr int BM = 64, BN = 64, BK = 16;
KERNEL(256) quantized_simt(R *c, const T *a, const T *b, i64 m, i64 n, i64 k, i64 am, i64 ak_, i64 bk_,
                           i64 bn_, SCALE_ARGUMENTS) {
  alignas(16) __shared__ A as[BK][BM + 4], bs[BK][BN + 4];
  Scales scales = SCALE_VALUES;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  i64 tiles_n = (n + BN - 1) / BN;
  i64 m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  A acc[4][4] = {};
  float total[4][4] = {};
  for (i64 k0 = 0; k0 < k; k0 += BK) {
    UNROLL
    for (int l = 0; l < 4; l++) {
      int i = threadIdx.x + l * 256, kk = i % BK, row = i / BK, col = i % BN, kb = i / BN;
      bool va = m0 + row < m && k0 + kk < k, vb = n0 + col < n && k0 + kb < k;
      as[kk][row] = va ? (A)to_float(a[(m0 + row) * am + (k0 + kk) * ak_]) : (A)0;
      bs[kb][col] = vb ? (A)to_float(b[(k0 + kb) * bk_ + (n0 + col) * bn_]) : (A)0;
    }
    __syncthreads();
    for (int kk = 0; kk < BK && k0 + kk < k; kk++) {
      Pack<A, 4> x = load<4>(&as[kk][ty * 4]), y = load<4>(&bs[kk][tx * 4]);
      UNROLL
      for (int i = 0; i < 4; i++)
        UNROLL
        for (int j = 0; j < 4; j++) acc[i][j] += x.v[i] * y.v[j];
      // At the end of a block of k, or of all: scale the sums and start anew.
      i64 here = k0 + kk;
      if ((here + 1) % block != 0 && here + 1 != k) continue;
      UNROLL
      for (int i = 0; i < 4; i++)
        UNROLL
        for (int j = 0; j < 4; j++) {
          i64 row = min(m0 + ty * 4 + i, m - 1), col = min(n0 + tx * 4 + j, n - 1);
          total[i][j] += (float)acc[i][j] * (scales.row(row, here) * scales.col(here, col));
          acc[i][j] = 0;
        }
    }
    __syncthreads();
  }
  UNROLL
  for (int i = 0; i < 4; i++)
    UNROLL
    for (int j = 0; j < 4; j++) {
      i64 row = m0 + ty * 4 + i, col = n0 + tx * 4 + j;
      if (row < m && col < n) c[row * n + col] = from_float<R>(total[i][j]);
    }
}
