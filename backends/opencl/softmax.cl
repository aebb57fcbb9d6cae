// softmax and log_softmax (-DLOG) over contiguous rows, or over an axis with `inner` elements
// between neighbours.
// Rows of n: the maximum, the sum of exponentials, the result. Every pass but the first finds the
// row in a cache; exponentials wait in a piece of `span` elements of the group's own (-DKEEP).
KERNEL void softmax_rows(const __global S* x, long x0, __global S* y, long y0, long rows, long n,
                         long xs
#ifdef KEEP
                         , __global A* keep, long keep0, long span
#endif
                         ) {
  REDUCTION_MEMORY
  int lane = get_local_id(0);
  long whole = n - n % VW;
  int rest = (int)(n - whole);
#ifdef KEEP
  __global A* e_ = keep + keep0 + get_group_id(0) * span;
#endif
  FOR_TASKS(r, rows) {
    const __global S* p = x + x0 + r * xs;
    __global S* o = y + y0 + r * n;
    AV m0 = (AV)(-INFINITY), m1 = m0, m2 = m0, m3 = m0;
    long k = lane * 4 * VW;
    for (; k + 4 * VW <= whole; k += LOCAL * 4 * VW) {
      m0 = larger_v(ldv(p + k), m0);
      m1 = larger_v(ldv(p + k + VW), m1);
      m2 = larger_v(ldv(p + k + 2 * VW), m2);
      m3 = larger_v(ldv(p + k + 3 * VW), m3);
    }
    for (long i = k; i < whole && i < k + 4 * VW; i += VW) m0 = larger_v(ldv(p + i), m0);
    A m = max_v(larger_v(larger_v(m0, m1), larger_v(m2, m3)));
    if (rest && lane == 0) m = max_nan(m, max_v(ldv_part(p + whole, rest, -INFINITY)));
    REDUCE(max_nan, m)
    AV sv = (AV)(0);
    for (long i = lane * VW; i < whole; i += LOCAL * VW) {
      AV e = exp_negative_v(ldv(p + i) - m);
#ifdef KEEP
      STORE_AV(e, e_ + i);
#endif
      sv += e;
    }
    if (rest && lane == 0) sv += exp_negative_v(ldv_part(p + whole, rest, -INFINITY) - m);
    A s = sum_v(sv);
    REDUCE(ADD_, s)
#ifdef LOG
    A shift = log(s);
    if (ALIGNED(o) && rest == 0) {
      for (long i = lane * VW; i < whole; i += LOCAL * VW) {
        ASK(p + xs + i);
        put_past((ldv(p + i) - m) - shift, o + i);
      }
    } else {
      for (long i = lane * VW; i < whole; i += LOCAL * VW) stv((ldv(p + i) - m) - shift, o + i);
    }
    if (rest && lane == 0)
      stv_part((ldv_part(p + whole, rest, 0) - m) - shift, o + whole, rest);
#else
    A scale = (A)(1) / s;
#ifdef KEEP
    if (ALIGNED(o) && rest == 0) {
      for (long i = 0; i < whole; i += VW) {
        ASK(p + xs + i);
        put_past(VLOAD(0, e_ + i) * scale, o + i);
      }
    } else {
      for (long i = 0; i < whole; i += VW) stv(VLOAD(0, e_ + i) * scale, o + i);
    }
#else
    for (long i = lane * VW; i < whole; i += LOCAL * VW)
      stv(exp_negative_v(ldv(p + i) - m) * scale, o + i);
#endif
    if (rest && lane == 0)
      stv_part(exp_negative_v(ldv_part(p + whole, rest, 0) - m) * scale, o + whole, rest);
#endif
  }
}

// x is (outer, n, inner), contiguous: VW neighbours of the inner axis at a time.
KERNEL void softmax_columns(const __global S* x, long x0, __global S* y, long y0, long outer, long n,
                            long inner) {
  long blocks = (inner + VW - 1) / VW;
  long items = get_global_size(0);
  for (long t = get_global_id(0); t < outer * blocks; t += items) {
    long at = (t / blocks) * n * inner + (t % blocks) * VW;
    int width = (int)min((long)VW, inner - (t % blocks) * VW);
    const __global S* p = x + x0 + at;
    __global S* o = y + y0 + at;
    AV m = (AV)(-INFINITY);
    for (long i = 0; i < n; i++)
      m = larger_v(width == VW ? ldv(p + i * inner) : ldv_part(p + i * inner, width, 0), m);
    AV s = (AV)(0);
    for (long i = 0; i < n; i++)
      s += exp_negative_v((width == VW ? ldv(p + i * inner) : ldv_part(p + i * inner, width, 0)) - m);
#ifdef LOG
    AV shift = log(s);
#else
    AV scale = (A)(1) / s;
#endif
    for (long i = 0; i < n; i++) {
      AV v = (width == VW ? ldv(p + i * inner) : ldv_part(p + i * inner, width, 0)) - m;
#ifdef LOG
      v -= shift;
#else
      v = exp_negative_v(v) * scale;
#endif
      if (width == VW) stv(v, o + i * inner);
      else stv_part(v, o + i * inner, width);
    }
  }
}
