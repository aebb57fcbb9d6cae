#include "_common.cuh"
// Rotates pairs of the last axis: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin.
//
// Macros: T; C (type of the tables); INTERLEAVED (pairs 2i, 2i+1; else i, i + half); PAIRS of one
// thread. The leading axes are up to 4 extents n0..n3 with strides for x and both tables (0 where
// broadcast); the last axis is adjacent in all; y is dense.
typedef Accumulator<T>::type A;

KERNEL(256) rope(T *y, const T *x, const C *cosines, const C *sines, i64 total, i64 half, i64 n1,
                 i64 n2, i64 n3, i64 x0, i64 x1, i64 x2, i64 x3, i64 c0, i64 c1, i64 c2, i64 c3,
                 i64 s0, i64 s1, i64 s2, i64 s3) {
  i64 each = half / PAIRS;  // threads of a row
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < total; i += gridDim.x * 256LL) {
    i64 row = i / each, pair = i % each * PAIRS;
    i64 i3 = row % n3, rest = row / n3;
    i64 i2 = rest % n2;
    rest /= n2;
    i64 i1 = rest % n1, i0 = rest / n1;
    const T *from = x + i0 * x0 + i1 * x1 + i2 * x2 + i3 * x3;
    T *to = y + row * 2 * half;
    A c[PAIRS], s[PAIRS], v[2 * PAIRS], r[2 * PAIRS];
    load_as<PAIRS>(c, cosines + i0 * c0 + i1 * c1 + i2 * c2 + i3 * c3 + pair);
    load_as<PAIRS>(s, sines + i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3 + pair);
#if INTERLEAVED
    load_as<PAIRS>(v, from + 2 * pair);
    load_as<PAIRS>(v + PAIRS, from + 2 * pair + PAIRS);
    UNROLL
    for (int j = 0; j < PAIRS; j++) {
      r[2 * j] = v[2 * j] * c[j] - v[2 * j + 1] * s[j];
      r[2 * j + 1] = v[2 * j + 1] * c[j] + v[2 * j] * s[j];
    }
    store_as<PAIRS>(to + 2 * pair, r);
    store_as<PAIRS>(to + 2 * pair + PAIRS, r + PAIRS);
#else
    load_as<PAIRS>(v, from + pair);
    load_as<PAIRS>(v + PAIRS, from + half + pair);
    UNROLL
    for (int j = 0; j < PAIRS; j++) {
      r[j] = v[j] * c[j] - v[PAIRS + j] * s[j];
      r[PAIRS + j] = v[PAIRS + j] * c[j] + v[j] * s[j];
    }
    store_as<PAIRS>(to + pair, r);
    store_as<PAIRS>(to + half + pair, r + PAIRS);
#endif
  }
}
