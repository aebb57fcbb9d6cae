#include "_common.cuh"
// Winograd's F(2x2, 3x3): tiles of 2x2 results from 4x4 inputs with 16 products in place of 36.
// (Lavin and Gray, 2015.) The products between the two transforms are a batched matrix product:
//   m[i] (filters, tiles) = u[i] (filters, channels) v[i] (channels, tiles),  i = 0..15.
// Macros: T; BIAS. Transforms in A, the accumulator's type.
typedef Accumulator<T>::type A;

// u (16, filters, channels) = G w G'; one thread a 3x3 filter. count = filters x channels.
KERNEL(256) winograd_filter(A *u, const T *w, i64 count) {
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    A g[3][3], half[4][3];
    UNROLL
    for (int j = 0; j < 9; j++) g[j / 3][j % 3] = to_float(w[i * 9 + j]);
    UNROLL
    for (int c = 0; c < 3; c++) {
      A outer = (A)0.5 * (g[0][c] + g[2][c]), middle = (A)0.5 * g[1][c];
      half[0][c] = g[0][c], half[1][c] = outer + middle, half[2][c] = outer - middle;
      half[3][c] = g[2][c];
    }
    UNROLL
    for (int r = 0; r < 4; r++) {
      A outer = (A)0.5 * (half[r][0] + half[r][2]), middle = (A)0.5 * half[r][1];
      u[(r * 4 + 0) * count + i] = half[r][0];
      u[(r * 4 + 1) * count + i] = outer + middle;
      u[(r * 4 + 2) * count + i] = outer - middle;
      u[(r * 4 + 3) * count + i] = half[r][2];
    }
  }
}

// v (16, channels, tiles) = B' d B; one thread a 4x4 tile. Tiles: (image, tile row, tile column).
KERNEL(256) winograd_input(A *v, const T *x, i64 images, i64 channels, i64 height, i64 width,
                           i64 pad_h, i64 pad_w, i64 rows, i64 cols) {
  i64 tiles = images * rows * cols, count = channels * tiles;
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    i64 channel = i / tiles, tile = i % tiles, image = tile / (rows * cols);
    i64 row0 = tile / cols % rows * 2 - pad_h, col0 = tile % cols * 2 - pad_w;
    const T *from = x + (image * channels + channel) * height * width;
    A d[4][4], half[4][4];
    UNROLL
    for (int r = 0; r < 4; r++)
      UNROLL
      for (int c = 0; c < 4; c++) {
        i64 row = row0 + r, col = col0 + c;
        bool valid = row >= 0 && row < height && col >= 0 && col < width;
        d[r][c] = valid ? (A)to_float(from[row * width + col]) : (A)0;
      }
    UNROLL
    for (int c = 0; c < 4; c++) {
      half[0][c] = d[0][c] - d[2][c], half[1][c] = d[1][c] + d[2][c];
      half[2][c] = d[2][c] - d[1][c], half[3][c] = d[1][c] - d[3][c];
    }
    UNROLL
    for (int r = 0; r < 4; r++) {
      v[(r * 4 + 0) * count + i] = half[r][0] - half[r][2];
      v[(r * 4 + 1) * count + i] = half[r][1] + half[r][2];
      v[(r * 4 + 2) * count + i] = half[r][2] - half[r][1];
      v[(r * 4 + 3) * count + i] = half[r][1] - half[r][3];
    }
  }
}

// y (images, filters, height, width) = A' m A + bias; one thread a 2x2 tile.
KERNEL(256) winograd_output(T *y, const A *m, const T *bias, i64 images, i64 filters, i64 height,
                            i64 width, i64 rows, i64 cols) {
  i64 tiles = images * rows * cols, count = filters * tiles;
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < count; i += gridDim.x * 256LL) {
    i64 filter = i / tiles, tile = i % tiles, image = tile / (rows * cols);
    i64 row0 = tile / cols % rows * 2, col0 = tile % cols * 2;
    A half[2][4];
    UNROLL
    for (int c = 0; c < 4; c++) {
      A a = m[c * count + i], b = m[(4 + c) * count + i], d = m[(8 + c) * count + i];
      A e = m[(12 + c) * count + i];
      half[0][c] = a + b + d, half[1][c] = b - d - e;
    }
    A shift = BIAS ? (A)to_float(bias[filter]) : (A)0;
    T *to = y + (image * filters + filter) * height * width;
    UNROLL
    for (int r = 0; r < 2; r++) {
      A left = half[r][0] + half[r][1] + half[r][2], right = half[r][1] - half[r][2] - half[r][3];
      i64 row = row0 + r;
      if (row >= height) continue;
      to[row * width + col0] = from_float<T>(left + shift);
      if (col0 + 1 < width) to[row * width + col0 + 1] = from_float<T>(right + shift);
    }
  }
}
