// Activations of linear, gelu and swiglu, on vectors.
// ACT: 0 none, 1 relu, 2 gelu (erf), 3 gelu (tanh), 4 silu
#ifndef ACT
#define ACT 0
#endif

inline AV sigmoid_v(AV x) { return (A)(1) / ((A)(1) + exp_v(-x)); }
inline AV silu_v(AV x) { return x / ((A)(1) + exp_v(-x)); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2u): no cancellation for negative x.
inline AV gelu_tanh_v(AV x) {
  AV u = x * fma(x * x, (AV)((A)0.044715), (AV)((A)1));
  return x / ((A)(1) + exp_v(u * (A)(-1.5957691216057307117597842397375)));
}

#if defined(DT_F64)
inline AV gelu_erf_v(AV x) { return (A)0.5 * x * erfc(x * (A)(-0.70710678118654752440)); }
#else
// x Phi(x) with Phi(-|x|) = erfc(z) / 2, z = |x| / sqrt 2, from a Chebyshev fit of
// erfc(z) = t exp(-z^2 + P(t)), t = 1 / (1 + z / 2): relative error about 1e-7 in the tail too.
inline AV gelu_erf_v(AV x) {
  AV a = fmin(fabs(x), (AV)(40.0f)); // the tail is zero from 14 on
  AV z = a * 0.70710678118654752440f;
  AV t = 1.0f / fma(z, (AV)0.5f, (AV)1.0f);
  AV p = (AV)(0.17087277f);
  p = fma(p, t, (AV)(-0.82215223f));
  p = fma(p, t, (AV)(1.48851587f));
  p = fma(p, t, (AV)(-1.13520398f));
  p = fma(p, t, (AV)(0.27886807f));
  p = fma(p, t, (AV)(-0.18628806f));
  p = fma(p, t, (AV)(0.09678418f));
  p = fma(p, t, (AV)(0.37409196f));
  p = fma(p, t, (AV)(1.00002368f));
  p = fma(p, t, (AV)(-1.26551223f));
  // exp(p - a^2/2) with the rounding errors of the square and of the difference put back
  AV s = a * a;
  AV lost = fma(a, a, -s);
  AV e = fma(s, (AV)(-0.5f), p);
  AV back = e - p;
  lost = fma(s, (AV)(-0.5f), -back) - 0.5f * lost;
  AV tail = 0.5f * t * exp_negative_v(e);
  tail = fma(tail, lost, tail);
  AV phi = x < 0.0f ? tail : 1.0f - tail;
  return x != x ? x : x * phi;
}
#endif

inline AV activate_v(AV x) {
#if ACT == 1
  return (x > (A)0 || x != x) ? x : (AV)(0);
#elif ACT == 2
  return gelu_erf_v(x);
#elif ACT == 3
  return gelu_tanh_v(x);
#elif ACT == 4
  return silu_v(x);
#else
  return x;
#endif
}
