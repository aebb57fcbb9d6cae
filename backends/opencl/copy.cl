// Strided copies of elements of 1, 2, 4 or 8 bytes, up to six outer axes (extent, source stride,
// destination stride each) and one or two inner ones.
typedef ELEMENT E;
#define OUTER                                                                               \
  long n0, long s0, long d0, long n1, long s1, long d1, long n2, long s2, long d2, long n3, \
      long s3, long d3, long n4, long s4, long d4, long n5, long s5, long d5
#define LOCATE(index)                                             \
  long r_ = (index), so = 0, dd = 0, q_;                          \
  q_ = r_ % n5; so += q_ * s5; dd += q_ * d5; r_ /= n5;           \
  q_ = r_ % n4; so += q_ * s4; dd += q_ * d4; r_ /= n4;           \
  q_ = r_ % n3; so += q_ * s3; dd += q_ * d3; r_ /= n3;           \
  q_ = r_ % n2; so += q_ * s2; dd += q_ * d2; r_ /= n2;           \
  q_ = r_ % n1; so += q_ * s1; dd += q_ * d1; r_ /= n1;           \
  so += r_ * s0; dd += r_ * d0;
#define COUNT (n0 * n1 * n2 * n3 * n4 * n5)

// The last axis: n elements, source stride s, destination stride d, in blocks.
KERNEL void copy_rows(const __global E* src, long src0, __global E* dst, long dst0, OUTER, long n,
                      long s, long d, long block) {
  long blocks = (n + block - 1) / block;
  for (long t = get_group_id(0); t < COUNT * blocks; t += get_num_groups(0)) {
    LOCATE(t / blocks)
    long from = (t % blocks) * block, to = min(n, from + block);
    const __global E* x = src + src0 + so;
    __global E* y = dst + dst0 + dd;
    if (s == 1 && d == 1) {
      for (long i = from + get_local_id(0); i < to; i += LOCAL) y[i] = x[i];
    } else {
      for (long i = from + get_local_id(0); i < to; i += LOCAL) y[i * d] = x[i * s];
    }
  }
}

// Transposing copy: axis p is contiguous in the source, axis q in the destination.
#define TILE 16
typedef CAT(ELEMENT, 16) EV;
// One butterfly stage: vectors d apart exchange blocks of d lanes; four of them transpose.
#define LO8(a, b) (EV)(a.s01234567, b.s01234567)
#define HI8(a, b) (EV)(a.s89abcdef, b.s89abcdef)
#define LO4(a, b) (EV)(a.s0123, b.s0123, a.s89ab, b.s89ab)
#define HI4(a, b) (EV)(a.s4567, b.s4567, a.scdef, b.scdef)
#define LO2(a, b) (EV)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)
#define HI2(a, b) (EV)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#define LO1(a, b)                                                                                \
  (EV)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc, b.sc, a.se, \
       b.se)
#define HI1(a, b)                                                                                \
  (EV)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd, b.sd, a.sf, \
       b.sf)
#define EXCHANGE(d)                              \
  UNROLL for (int i_ = 0; i_ < TILE; i_++) {     \
    if (!(i_ & d)) {                             \
      EV a_ = tile[i_], b_ = tile[i_ + d];       \
      tile[i_] = CAT(LO, d)(a_, b_);             \
      tile[i_ + d] = CAT(HI, d)(a_, b_);         \
    }                                            \
  }
KERNEL void copy_tiles(const __global E* src, long src0, __global E* dst, long dst0, OUTER, long np,
                       long dp, long nq, long sq) {
  long blocks = (np + TILE - 1) / TILE;
  for (long t = get_group_id(0); t < COUNT * blocks; t += get_num_groups(0)) {
    LOCATE(t / blocks)
    long p0 = (t % blocks) * TILE;
    int pn = (int)min((long)TILE, np - p0);
    const __global E* x = src + src0 + so + p0;
    __global E* y = dst + dst0 + dd + p0 * dp;
    for (long q0 = get_local_id(0) * TILE; q0 < nq; q0 += LOCAL * TILE) {
      int qn = (int)min((long)TILE, nq - q0);
      if (pn == TILE && qn == TILE) {
        EV tile[TILE];
        UNROLL for (int j = 0; j < TILE; j++) tile[j] = vload16(0, x + (q0 + j) * sq);
        EXCHANGE(8) EXCHANGE(4) EXCHANGE(2) EXCHANGE(1)
        UNROLL for (int i = 0; i < TILE; i++) vstore16(tile[i], 0, y + i * dp + q0);
      } else {
        for (int i = 0; i < pn; i++)
          for (int j = 0; j < qn; j++) y[i * dp + q0 + j] = x[(q0 + j) * sq + i];
      }
    }
  }
}
