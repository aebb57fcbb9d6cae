// layer_norm (-DLAYER), rms_norm, add_rms_norm (-DADD) over contiguous rows of n.
#ifdef LAYER
#define CENTRED(v) (((v) - mean) - drift)
#else
#define CENTRED(v) (v)
#endif
#ifdef WEIGHT
#define WEIGHTED(v) (v) * ldv(weight + weight0 + i)
#else
#define WEIGHTED(v) (v)
#endif
#ifdef BIAS
#define SHIFTED(v) (v) + ldv(bias + bias0 + i)
#else
#define SHIFTED(v) (v)
#endif
#define NORMED SHIFTED(WEIGHTED(CENTRED(ldv(p + i)) * scale))

KERNEL void norm_rows(const __global S* x, long x0, long xs,
#ifdef ADD
                      const __global S* res, long res0, long ress, __global S* sum, long sum0,
#endif
#ifdef WEIGHT
                      const __global S* weight, long weight0,
#endif
#ifdef BIAS
                      const __global S* bias, long bias0,
#endif
                      __global S* y, long y0, long rows, long n, double eps) {
  REDUCTION_MEMORY
  int lane = get_local_id(0);
  long whole = n - n % VW;
  int rest = (int)(n - whole);
  FOR_TASKS(r, rows) {
    __global S* o = y + y0 + r * n;
#ifdef ADD
#define NEXT pa + xs
    const __global S* pa = x + x0 + r * xs;
    const __global S* pb = res + res0 + r * ress;
    __global S* p = sum + sum0 + r * n;
#else
#define NEXT p + xs
    const __global S* p = x + x0 + r * xs;
#endif
    AV q0 = (AV)(0), q1 = (AV)(0);
    A mean = 0;
#ifdef LAYER
    for (long i = lane * VW; i < whole; i += LOCAL * VW) q0 += ldv(p + i);
    if (rest && lane == 0) q0 += ldv_part(p + whole, rest, 0);
    mean = sum_v(q0);
    REDUCE(ADD_, mean)
    mean /= (A)n;
    // Second pass: squares of the deviations, and their sum, which corrects a mean that lost bits.
    q0 = (AV)(0);
    for (long i = lane * VW; i < whole; i += LOCAL * VW) {
      AV d = ldv(p + i) - mean;
      q0 = fma(d, d, q0);
      q1 += d;
    }
    if (rest && lane == 0) {
      AV d = ldv_part(p + whole, rest, mean) - mean;
      q0 = fma(d, d, q0);
      q1 += d;
    }
    A drift = sum_v(q1);
    REDUCE(ADD_, drift)
    drift /= (A)n;
    A square = sum_v(q0);
    REDUCE(ADD_, square)
    A variance = fmax(square / (A)n - drift * drift, (A)0);
    if (square != square) variance = square;
    A scale = (A)1 / sqrt(variance + (A)eps);
#else
    for (long i = lane * VW; i < whole; i += LOCAL * VW) {
#ifdef ADD
      stv(ldv(pa + i) + ldv(pb + i), p + i);
#endif
      AV v = ldv(p + i);
      q0 = fma(v, v, q0);
    }
    if (rest && lane == 0) {
#ifdef ADD
      stv_part(ldv_part(pa + whole, rest, 0) + ldv_part(pb + whole, rest, 0), p + whole, rest);
#endif
      AV v = ldv_part(p + whole, rest, 0);
      q0 = fma(v, v, q0);
    }
    A square = sum_v(q0);
    REDUCE(ADD_, square)
    A scale = (A)1 / sqrt(square / (A)n + (A)eps);
#endif
    if (ALIGNED(o) && rest == 0) {
      for (long i = lane * VW; i < whole; i += LOCAL * VW) {
        ASK(NEXT + i);
        put_past(NORMED, o + i);
      }
    } else {
      for (long i = lane * VW; i < whole; i += LOCAL * VW) stv(NORMED, o + i);
    }
    if (rest && lane == 0) {
      AV v = ldv_part(p + whole, rest, 0);
#ifdef LAYER
      v = (v - mean) - drift;
#endif
      v *= scale;
#ifdef WEIGHT
      v *= ldv_part(weight + weight0 + whole, rest, 0);
#endif
#ifdef BIAS
      v += ldv_part(bias + bias0 + whole, rest, 0);
#endif
      stv_part(v, o + whole, rest);
    }
  }
}
