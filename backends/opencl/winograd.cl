// Winograd's F(2x2, 3x3): Y = A' [(G g G') * (B' d B)] A with 4x4 tiles, transforms kept as A.
// Source of the matrices: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2015.

// u (16, filters, channels) from w (filters, channels, 3, 3).
KERNEL void winograd_filters(const __global S* w, long w0, __global A* u, long u0, long count) {
  for (long i = get_global_id(0); i < count; i += get_global_size(0)) {
    A t[4][3];
    for (int c = 0; c < 3; c++) {
      A a = LD(w + w0 + i * 9 + c), b = LD(w + w0 + i * 9 + 3 + c), d = LD(w + w0 + i * 9 + 6 + c);
      t[0][c] = a;
      t[1][c] = (a + d + b) * (A)0.5;
      t[2][c] = (a + d - b) * (A)0.5;
      t[3][c] = d;
    }
    for (int r = 0; r < 4; r++) {
      __global A* o = u + u0 + r * 4 * count + i;
      o[0] = t[r][0];
      o[count] = (t[r][0] + t[r][2] + t[r][1]) * (A)0.5;
      o[2 * count] = (t[r][0] + t[r][2] - t[r][1]) * (A)0.5;
      o[3 * count] = t[r][2];
    }
  }
}

// v (16, channels, tiles) from x (images, channels, h, w), contiguous; VW neighbouring tiles of a
// row of tiles at a time. `stride` is the distance of the 16 planes.
KERNEL void winograd_inputs(const __global S* x, long x0, __global A* v, long v0, int images,
                            int channels, int h, int w, int py, int px, int rows, int cols) {
  long per_image = (long)rows * cols, tiles = images * per_image, plane = channels * tiles;
  int blocks = (cols + VW - 1) / VW;
  long tasks = (long)channels * images * rows;
  for (long t = get_global_id(0); t < tasks; t += get_global_size(0)) {
    int row = t % rows, image = t / rows % images, channel = t / rows / images;
    const __global S* p = x + x0 + ((long)image * channels + channel) * h * w;
    __global A* out = v + v0 + channel * tiles + image * per_image + (long)row * cols;
    for (int b = 0; b < blocks; b++) {
      AV d[4][4];
      for (int r = 0; r < 4; r++) {
        A line[2 * VW + 2];
        int y = row * 2 + r - py, left = b * VW * 2 - px;
        for (int i = 0; i < 2 * VW + 2; i++) {
          int at = left + i;
          line[i] = y >= 0 && y < h && at >= 0 && at < w ? LD(p + (long)y * w + at) : 0;
        }
        AV a0 = VLOAD(0, line), a1 = VLOAD(1, line), b0 = VLOAD(0, line + 2), b1 = VLOAD(1, line + 2);
        d[r][0] = (AV)(a0.even, a1.even);
        d[r][1] = (AV)(a0.odd, a1.odd);
        d[r][2] = (AV)(b0.even, b1.even);
        d[r][3] = (AV)(b0.odd, b1.odd);
      }
      AV s[4][4];
      UNROLL for (int c = 0; c < 4; c++) {
        s[0][c] = d[0][c] - d[2][c];
        s[1][c] = d[1][c] + d[2][c];
        s[2][c] = d[2][c] - d[1][c];
        s[3][c] = d[1][c] - d[3][c];
      }
      int width = min(VW, cols - b * VW);
      UNROLL for (int r = 0; r < 4; r++) {
        AV e[4] = {s[r][0] - s[r][2], s[r][1] + s[r][2], s[r][2] - s[r][1], s[r][1] - s[r][3]};
        UNROLL for (int c = 0; c < 4; c++) {
          __global A* o = out + (r * 4 + c) * plane + b * VW;
          if (width == VW) {
            VSTORE(e[c], 0, o);
          } else {
            A lane[VW];
            VSTORE(e[c], 0, lane);
            for (int i = 0; i < width; i++) o[i] = lane[i];
          }
        }
      }
    }
  }
}

// y (images, filters, oh, ow) from m (16, filters, tiles).
KERNEL void winograd_outputs(const __global A* m, long m0, const __global S* bias, long bias0,
                             int has_bias, __global S* y, long y0, int images, int filters, int oh,
                             int ow, int rows, int cols) {
  long per_image = (long)rows * cols, tiles = images * per_image, plane = filters * tiles;
  long tasks = (long)filters * images * rows;
  for (long t = get_global_id(0); t < tasks; t += get_global_size(0)) {
    int row = t % rows, image = t / rows % images, filter = t / rows / images;
    const __global A* p = m + m0 + filter * tiles + image * per_image + (long)row * cols;
    __global S* o = y + y0 + (((long)image * filters + filter) * oh + row * 2) * ow;
    A shift = has_bias ? LD(bias + bias0 + filter) : 0;
    for (int c = 0; c < cols; c++) {
      A s[2][4];
      UNROLL for (int j = 0; j < 4; j++) {
        A a = p[j * plane + c], b = p[(4 + j) * plane + c], d = p[(8 + j) * plane + c],
          e = p[(12 + j) * plane + c];
        s[0][j] = a + b + d;
        s[1][j] = b - d - e;
      }
      for (int r = 0; r < 2 && row * 2 + r < oh; r++) {
        ST(s[r][0] + s[r][1] + s[r][2] + shift, o + r * ow + c * 2);
        if (c * 2 + 1 < ow) ST(s[r][1] - s[r][2] - s[r][3] + shift, o + r * ow + c * 2 + 1);
      }
    }
  }
}
