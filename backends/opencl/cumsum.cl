// Running sums of contiguous rows, or along an axis with `inner` elements between neighbours.

// Inclusive sums inside of a vector: log2(VW) shifted additions.
#if VW == 16
#define Z (A)0
inline AV scan_v(AV v) {
  v += (AV)(Z, v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7, v.s8, v.s9, v.sa, v.sb, v.sc, v.sd, v.se);
  v += (AV)(Z, Z, v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7, v.s8, v.s9, v.sa, v.sb, v.sc, v.sd);
  v += (AV)(Z, Z, Z, Z, v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6, v.s7, v.s8, v.s9, v.sa, v.sb);
  v += (AV)(Z, Z, Z, Z, Z, Z, Z, Z, v.lo);
  return v;
}
#define LAST(v) v.sf
#elif VW == 8
#define Z (A)0
inline AV scan_v(AV v) {
  v += (AV)(Z, v.s0, v.s1, v.s2, v.s3, v.s4, v.s5, v.s6);
  v += (AV)(Z, Z, v.s0, v.s1, v.s2, v.s3, v.s4, v.s5);
  v += (AV)(Z, Z, Z, Z, v.lo);
  return v;
}
#define LAST(v) v.s7
#else
#define Z (A)0
inline AV scan_v(AV v) {
  v += (AV)(Z, v.x, v.y, v.z);
  v += (AV)(Z, Z, v.x, v.y);
  return v;
}
#define LAST(v) v.w
#endif

KERNEL void cumsum_rows(const __global S* x, long x0, __global S* y, long y0, long rows, long n,
                        long xs) {
  for (long r = get_global_id(0); r < rows; r += get_global_size(0)) {
    const __global S* p = x + x0 + r * xs;
    __global S* o = y + y0 + r * n;
    A carry = 0;
    long i = 0;
    for (; i + VW <= n; i += VW) {
      AV v = scan_v(ldv(p + i));
      stv(v + carry, o + i);
      carry += LAST(v);
    }
    for (; i < n; i++) {
      carry += LD(p + i);
      ST(carry, o + i);
    }
  }
}

KERNEL void cumsum_columns(const __global S* x, long x0, __global S* y, long y0, long outer, long n,
                           long inner) {
  long blocks = (inner + VW - 1) / VW;
  for (long t = get_global_id(0); t < outer * blocks; t += get_global_size(0)) {
    long at = t / blocks * n * inner + t % blocks * VW;
    int width = (int)min((long)VW, inner - t % blocks * VW);
    const __global S* p = x + x0 + at;
    __global S* o = y + y0 + at;
    AV v = (AV)(0);
    for (long i = 0; i < n; i++) {
      if (width == VW) {
        v += ldv(p + i * inner);
        stv(v, o + i * inner);
      } else {
        v += ldv_part(p + i * inner, width, 0);
        stv_part(v, o + i * inner, width);
      }
    }
  }
}
