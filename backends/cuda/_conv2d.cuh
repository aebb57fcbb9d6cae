// Convolution as a product without an im2col matrix: for each group
//   y (filters, pixels) = w (filters, taps) x_gathered (taps, pixels) + bias,
// taps = channel x kernel row x kernel column, pixels = image x output row x output column.
//
// MATRIX (from the two sources: 1 matrix units, f16 or bf16; 0 vector units).
// Macros: T; tile BM filters, BN pixels,
// BK taps; WARPS_M WARPS_N (MATRIX) or TM TN (vector: elements a thread); VW (rows of w start on 16
// bytes); BIAS.
typedef Accumulator<T>::type A;
#if MATRIX
constexpr int THREADS = WARPS_M * WARPS_N * 32, PAD = 8;
constexpr int WM = BM / WARPS_M, WN = BN / WARPS_N, FM = WM / 16, FN = WN / 8;
#else
constexpr int TX = BN / TN, TY = BM / TM, THREADS = TX * TY, PAD = 1;
#endif
constexpr int A_PITCH = BK + PAD, B_PITCH = BN + PAD, LOADS = BK * BN / THREADS;
static_assert(THREADS % BN == 0 && LOADS * THREADS == BK * BN, "a thread gathers one pixel");

struct Sizes {
  i64 images, channels, height, width;  // of x; channels in one group
  i64 filters, out_height, out_width;   // filters in one group
  i64 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups;
};

// What tap k adds to a pixel's place in x.
struct Tap {
  int row, col;
  i64 offset;
};
DEVICE Tap tap_of(const Sizes &n, i64 k) {
  int area = (int)(n.kernel_h * n.kernel_w), channel = (int)(k / area), in_area = (int)(k % area);
  int row = in_area / (int)n.kernel_w * (int)n.dilation_h;
  int col = in_area % (int)n.kernel_w * (int)n.dilation_w;
  return Tap{row, col, channel * n.height * n.width + row * n.width + col};
}

// Grid: x = tiles of filters x pixels, y = groups. x, w, y dense.
KERNEL(THREADS) conv2d(T *y, const T *x, const T *w, const T *bias, i64 images, i64 channels,
                       i64 height, i64 width, i64 filters, i64 out_height, i64 out_width,
                       i64 kernel_h, i64 kernel_w, i64 stride_h, i64 stride_w, i64 pad_h, i64 pad_w,
                       i64 dilation_h, i64 dilation_w, i64 groups) {
  Sizes n = {images, channels, height, width, filters, out_height, out_width, kernel_h, kernel_w,
             stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups};
  alignas(128) __shared__ T as[2][BM * A_PITCH], bs[2][BK * B_PITCH];
  __shared__ Tap taps[2][BK];
  i64 k = channels * kernel_h * kernel_w, plane = out_height * out_width, pixels = images * plane;
  i64 tiles_n = (pixels + BN - 1) / BN, group = blockIdx.y;
  i64 m0 = blockIdx.x / tiles_n * BM, n0 = blockIdx.x % tiles_n * BN;
  w += group * filters * k + m0 * k;

  // The pixel that this thread gathers: its corner in x, in the group's first channel.
  int column = threadIdx.x % BN, first_tap = threadIdx.x / BN;
  i64 pixel = n0 + column, image = pixel / plane, in_plane = pixel % plane;
  bool inside = pixel < pixels;
  int row0 = (int)(in_plane / out_width * stride_h - pad_h);
  int col0 = (int)(in_plane % out_width * stride_w - pad_w);
  const T *corner = x + (inside ? image : 0) * groups * channels * height * width +
                    group * channels * height * width + (i64)row0 * width + col0;

#if MATRIX
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int warp_row = warp / WARPS_N * WM, warp_col = warp % WARPS_N * WN;
  float acc[FM][FN][4] = {};
#else
  int tx = threadIdx.x % TX, ty = threadIdx.x / TX;
  A acc[TM][TN] = {};
#endif
  i64 steps = (k + BK - 1) / BK;
  if (threadIdx.x < BK) taps[0][threadIdx.x] = tap_of(n, threadIdx.x);
  __syncthreads();

  // Two shared buffers: while one step is multiplied, the next one is on its way to registers.
  for (i64 step = -1; step < steps; step++) {
    int now = (int)(step & 1), next = 1 - now;
    i64 k0 = (step + 1) * BK;
    bool more = step + 1 < steps;
    T gathered[LOADS];
    if (more) {
#if MATRIX
      load_tile<THREADS, BM, BK, A_PITCH, VW>(as[next], w + k0, k, filters - m0, k - k0);
      async_commit();
#else
      for (int i = threadIdx.x; i < BM * BK; i += THREADS) {
        int row = i / BK, col = i % BK;
        bool valid = m0 + row < filters && k0 + col < k;
        as[next][row * A_PITCH + col] = valid ? w[row * k + k0 + col] : T{};
      }
#endif
      UNROLL
      for (int l = 0; l < LOADS; l++) {
        int j = first_tap + l * (THREADS / BN);
        Tap tap = taps[next][j];
        int row = row0 + tap.row, col = col0 + tap.col;
        bool valid = inside && k0 + j < k && row >= 0 && row < height && col >= 0 && col < width;
        gathered[l] = valid ? corner[tap.offset] : T{};
      }
    }
    if (k0 + BK < k && threadIdx.x < BK) taps[now][threadIdx.x] = tap_of(n, k0 + BK + threadIdx.x);
    if (step >= 0) {
      const T *at = as[now], *bt = bs[now];
#if MATRIX
      UNROLL
      for (int kk = 0; kk < BK; kk += 16) {
        u32 fa[FM][4], fb[FN][2];
        int j8 = lane / 8, r = lane % 8;
        UNROLL
        for (int i = 0; i < FM; i++)
          ldmatrix4<false>(fa[i], at + (warp_row + i * 16 + lane % 16) * A_PITCH + kk + lane / 16 * 8);
        UNROLL
        for (int j = 0; j < FN; j += 2)
          ldmatrix4<true>(fb[j],
                          bt + (kk + r + j8 % 2 * 8) * B_PITCH + warp_col + j * 8 + j8 / 2 * 8);
        UNROLL
        for (int i = 0; i < FM; i++)
          UNROLL
          for (int j = 0; j < FN; j++) mma(acc[i][j], fa[i], fb[j], T());
      }
#else
      UNROLL
      for (int kk = 0; kk < BK; kk++) {
        A fa[TM], fb[TN];
        UNROLL
        for (int i = 0; i < TM; i++) fa[i] = to_float(at[(ty + i * TY) * A_PITCH + kk]);
        UNROLL
        for (int j = 0; j < TN; j++) fb[j] = to_float(bt[kk * B_PITCH + tx + j * TX]);
        UNROLL
        for (int i = 0; i < TM; i++)
          UNROLL
          for (int j = 0; j < TN; j++) acc[i][j] += fa[i] * fb[j];
      }
#endif
    }
    if (more) {
      UNROLL
      for (int l = 0; l < LOADS; l++)
        bs[next][(first_tap + l * (THREADS / BN)) * B_PITCH + column] = gathered[l];
    }
#if MATRIX
    async_wait<0>();
#endif
    __syncthreads();  // the next step is there, this one has been used
  }

  // Neighbouring lanes write neighbouring pixels of one filter.
#if MATRIX
  UNROLL
  for (int i = 0; i < FM; i++)
    UNROLL
    for (int j = 0; j < FN; j++)
      UNROLL
      for (int e = 0; e < 4; e++) {
        i64 filter = m0 + warp_row + i * 16 + lane / 4 + e / 2 * 8;
        i64 p = n0 + warp_col + j * 8 + lane % 4 * 2 + e % 2;
        float sum = acc[i][j][e];
#else
  UNROLL
  for (int i = 0; i < TM; i++)
    UNROLL
    for (int j = 0; j < TN; j++) {
      {
        i64 filter = m0 + ty + i * TY, p = n0 + tx + j * TX;
        A sum = acc[i][j];
#endif
        if (filter >= filters || p >= pixels) continue;
        i64 channel = group * filters + filter;
        if (BIAS) sum += to_float(bias[channel]);
        y[(p / plane * groups * filters + channel) * plane + p % plane] = from_float<T>(sum);
#if !MATRIX
      }
#endif
      }
}
