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
// x Phi(x) with Phi(-a) = erfc(z) / 2 for a = |x|, z = a / sqrt 2. erfc(z) = exp(-a^2/2) t R(t) with
// t = 1 / (1 + z / 2): R is a polynomial fitted for the least relative error (7e-9), so that the
// tail is good to 4e-7 of itself. The exponential does not wait for the division.
inline AV gelu_erf_v(AV x) {
  AV a = fmin(fabs(x), (AV)(40.0f)); // the tail is zero from 14 on
  AV t = 1.0f / fma(a, (AV)(0.35355339059327376f), (AV)(1.0f));
  AV s = a * a;
  AV lost = fma(a, a, -s); // the rounding error of the square
  AV e = exp_negative_v(s * -0.5f) * 0.5f;
  AV u = t * t;
  AV p = (AV)(0.0442509912f), q = (AV)(-0.240028903f);
  p = fma(p, u, (AV)(0.504992247f));
  q = fma(q, u, (AV)(-0.468321949f));
  p = fma(p, u, (AV)(0.141699225f));
  q = fma(q, u, (AV)(-0.0633976385f));
  p = fma(p, u, (AV)(0.0945665687f));
  q = fma(q, u, (AV)(0.175157055f));
  p = fma(p, u, (AV)(0.246893689f));
  q = fma(q, u, (AV)(0.282093972f));
  p = fma(p, u, (AV)(0.282094777f));
  AV tail = fma(q, t, p) * (t * fma(e, lost * -0.5f, e));
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
