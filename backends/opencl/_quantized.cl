// Reading int8 and float8_e4m3fn: from here on `S`, `ldv`... of the panel code mean these.
#ifdef INT8
typedef char Q;
inline A widen_q(Q x) { return (A)x; }
inline AV ldq(const __global Q* p) { return TO_AV(VLOAD(0, p)); }
#else
typedef uchar Q;
// Sign, 4 bits of exponent (bias 7), 3 of fraction: moved to a float's places, then scaled by
// 2^(127 - 7), which puts denormals right too. 0x7f is NaN; there is no infinity.
inline A widen_q(Q x) {
  float v = as_float(((uint)x & 0x7fu) << 20) * 0x1p120f;
  v = (x & 0x7f) == 0x7f ? NAN : v;
  return x & 0x80 ? -v : v;
}
inline AV ldq(const __global Q* p) {
  UV u = CAT(convert_, UV)(VLOAD(0, p));
  AV v = AS_AV((u & 0x7fu) << 20) * 0x1p120f;
  v = (u & 0x7fu) == 0x7fu ? (AV)(NAN) : v;
  return AS_AV(CAT(as_, UV)(v) | ((u & 0x80u) << 24));
}
#endif
inline AV ldq_part(const __global Q* p, int n, A pad) {
  A lane[VW];
  for (int i = 0; i < VW; i++) lane[i] = pad;
  for (int i = 0; i < n; i++) lane[i] = widen_q(p[i]);
  return VLOAD(0, lane);
}
#undef LD
#define S Q
#define ldv ldq
#define ldv_part ldq_part
#define LD(p) widen_q(*(p))
