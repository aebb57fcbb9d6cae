// Rotary embedding: pairs (i, i + d/2), or neighbours (-DINTERLEAVED); tables of S or float.
#ifdef TABLE_F32
typedef float T;
#if defined(DT_F64)
#define LDT(p) convert_double(*(p))
#define LDTV(p) TO_AV(CAT(vload, VW)(0, p))
#else
#define LDT(p) (*(p))
#define LDTV(p) VLOAD(0, p)
#endif
#else
typedef S T;
#define LDT(p) LD(p)
#define LDTV(p) ldv(p)
#endif

// Whole vectors of a row of pairs. STORE is put_past or stv, in a loop each: compilers join two
// stores to one place, and lose how they were meant.
#ifdef INTERLEAVED
#define ROTATE(STORE)                                              \
  for (; i + VW <= half_; i += VW) {                               \
    AV v0 = ldv(p + 2 * i), v1 = ldv(p + 2 * i + VW);              \
    AV a = (AV)(v0.even, v1.even), b = (AV)(v0.odd, v1.odd);       \
    AV cv = LDTV(c + i), sv = LDTV(s + i);                         \
    AV e = a * cv - b * sv, f = b * cv + a * sv;                   \
    v0.even = e.lo; v0.odd = f.lo;                                 \
    v1.even = e.hi; v1.odd = f.hi;                                 \
    STORE(v0, o + 2 * i);                                          \
    STORE(v1, o + 2 * i + VW);                                     \
  }
#else
#define ROTATE(STORE)                                                                \
  for (; i + VW <= half_; i += VW) {                                                 \
    AV a = ldv(p + i), b = ldv(p + half_ + i), cv = LDTV(c + i), sv = LDTV(s + i);   \
    STORE(a * cv - b * sv, o + i);                                                   \
    STORE(b * cv + a * sv, o + half_ + i);                                           \
  }
#endif

KERNEL void rope(const __global S* x, long x0, const __global T* cos_, long cos0,
                 const __global T* sin_, long sin0, __global S* y, long y0, long n0, long n1,
                 long n2, long n3, long x_0, long x_1, long x_2, long x_3, long c_0, long c_1,
                 long c_2, long c_3, long s_0, long s_1, long s_2, long s_3, long d) {
  long half_ = d / 2, rows = n0 * n1 * n2 * n3;
  // A run of rows an item: positions are found by division once, then counted on.
  long items = get_global_size(0), id = get_global_id(0);
  long run = (rows + items - 1) / items;
  long from = min(rows, id * run), to = min(rows, from + run);
  long q3 = from % n3, q2 = from / n3 % n2, q1 = from / n3 / n2 % n1, q0 = from / n3 / n2 / n1;
  for (long r = from; r < to; r++) {
    const __global S* p = x + x0 + q0 * x_0 + q1 * x_1 + q2 * x_2 + q3 * x_3;
    const __global T* c = cos_ + cos0 + q0 * c_0 + q1 * c_1 + q2 * c_2 + q3 * c_3;
    const __global T* s = sin_ + sin0 + q0 * s_0 + q1 * s_1 + q2 * s_2 + q3 * s_3;
    __global S* o = y + y0 + r * d;
    int past = ALIGNED(o) && half_ % (64 / (long)sizeof(S)) == 0;
    if (++q3 == n3) {
      q3 = 0;
      if (++q2 == n2) {
        q2 = 0;
        if (++q1 == n1) {
          q1 = 0;
          q0++;
        }
      }
    }
    long i = 0;
#ifdef INTERLEAVED
    if (past) ROTATE(put_past) else ROTATE(stv)
    for (; i < half_; i++) {
      A a = LD(p + 2 * i), b = LD(p + 2 * i + 1), cv = LDT(c + i), sv = LDT(s + i);
      ST(a * cv - b * sv, o + 2 * i);
      ST(b * cv + a * sv, o + 2 * i + 1);
    }
#else
    if (past) ROTATE(put_past) else ROTATE(stv)
    for (; i < half_; i++) {
      A a = LD(p + i), b = LD(p + half_ + i), cv = LDT(c + i), sv = LDT(s + i);
      ST(a * cv - b * sv, o + i);
      ST(b * cv + a * sv, o + half_ + i);
    }
#endif
  }
}
