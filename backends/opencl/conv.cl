// Convolution on CPUs as an implicit matrix product: C (filters, pixels) = W (filters, taps) times
// the patches of x, which exist only as packed panels. Taps are (channel, row, column).
DEFINE_MICRO(micro, i * KP + k, NR)

typedef struct {
  int h, w, oh, ow, kh, kw, sy, sx, py, px, dy, dx; // image, output, kernel, stride, padding, dilation
} Shape;

// Panel of `taps` rows from tap k0 on, for the `count` pixels from p0 on; zeros beyond.
inline void pack_patches(const __global S* x, long xc, long xh, long xw, const Shape g, int k0,
                         int taps, int p0, int count, __global A* dst) {
  int area = g.kh * g.kw;
  for (int k = 0; k < taps; k++) {
    int tap = k0 + k, c = tap / area, r = tap % area / g.kw, s = tap % g.kw;
    const __global S* plane = x + c * xc;
    __global A* row = dst + k * NR;
    for (int j = 0; j < NR; j += VW) sta((AV)(0), row + j);
    int oy = p0 / g.ow, ox = p0 % g.ow;
    for (int j = 0; j < count;) {
      int run = min(count - j, g.ow - ox); // pixels of one output row
      int iy = oy * g.sy - g.py + r * g.dy, ix = ox * g.sx - g.px + s * g.dx;
      if (iy >= 0 && iy < g.h) {
        const __global S* p = plane + iy * xh;
        int first = ix >= 0 ? 0 : (-ix + g.sx - 1) / g.sx;
        int last = min(run, ix >= g.w ? 0 : (g.w - 1 - ix) / g.sx + 1);
        int e = first;
        if (g.sx == 1 && xw == 1)
          for (; e + VW <= last; e += VW) sta(ldv(p + ix + e), row + j + e);
        for (; e < last; e++) row[j + e] = LD(p + (ix + e * g.sx) * xw);
      }
      j += run;
      ox = 0;
      oy++;
    }
  }
}

KERNEL void conv(const __global S* x, long x0, const __global S* w, long w0, const __global S* bias,
                 long bias0, int has_bias, __global S* y, long y0, __global A* scratch,
                 long scratch0, volatile __global int* counter, long counter0, int images, int groups,
                 int channels, int filters, long xn, long xc, long xh, long xw, int h, int width_in,
                 int oh, int ow, int kh, int kw, int sy, int sx, int py, int px, int dy, int dx,
                 int MB, int NB) {
  const Shape g = {h, width_in, oh, ow, kh, kw, sy, sx, py, px, dy, dx};
  __global A* pa = scratch + scratch0 + get_group_id(0) * (long)(MB * KP + KC * NR) +
                   get_group_id(0) * (long)MB * NB;
  __global A* pb = pa + MB * KP;
  __global A* acc = pb + KC * NR;
  int m = filters, n = oh * ow, taps = channels * kh * kw, IP = MB / MR;
  int tm = (m + MB - 1) / MB, tn = (n + NB - 1) / NB;
  long tiles = (long)images * groups * tm * tn;
  for (long t = atomic_inc(counter + counter0); t < tiles; t = atomic_inc(counter + counter0)) {
    int i0 = t % tm * MB, j0 = t / tm % tn * NB;
    int group = t / ((long)tm * tn) % groups;
    long image = t / ((long)tm * tn) / groups;
    int mb = min(MB, m - i0), nb = min(NB, n - j0);
    int ips = (mb + MR - 1) / MR, jps = (nb + NR - 1) / NR;
    const __global S* xt = x + x0 + image * xn + (long)group * channels * xc;
    const __global S* wt = w + w0 + ((long)group * filters + i0) * taps;
    for (int k0 = 0; k0 < taps; k0 += KC) {
      int kc = min(KC, taps - k0);
      pack(wt + k0, taps, 1, mb, kc, pa, KP);
      clear_rows(pa, mb, ips * MR, kc, KP);
      for (int jp = 0; jp < jps; jp++) {
        pack_patches(xt, xc, xh, xw, g, k0, kc, j0 + jp * NR, min(NR, nb - jp * NR), pb);
        for (int ip = 0; ip < ips; ip++)
          micro(pa + ip * MR * KP, pb, acc + (jp * IP + ip) * MR * NR, kc, k0 == 0);
      }
    }
    for (int i = 0; i < mb; i++) {
      int filter = group * filters + i0 + i;
      A shift = has_bias ? LD(bias + bias0 + filter) : 0;
      __global S* out = y + y0 + ((image * groups * filters) + filter) * n + j0;
      for (int j = 0; j < nb; j += VW) {
        AV v = lda(acc + ((j / NR * IP + i / MR) * MR + i % MR) * NR + j % NR) + shift;
        if (nb - j >= VW) stv(v, out + j);
        else stv_part(v, out + j, nb - j);
      }
    }
  }
}
