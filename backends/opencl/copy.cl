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
        E tile[TILE][TILE];
        for (int j = 0; j < TILE; j++)
          UNROLL for (int i = 0; i < TILE; i++) tile[j][i] = x[(q0 + j) * sq + i];
        for (int i = 0; i < TILE; i++)
          UNROLL for (int j = 0; j < TILE; j++) y[i * dp + q0 + j] = tile[j][i];
      } else {
        for (int i = 0; i < pn; i++)
          for (int j = 0; j < qn; j++) y[i * dp + q0 + j] = x[(q0 + j) * sq + i];
      }
    }
  }
}
