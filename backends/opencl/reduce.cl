// sum, mean (-DOP=0) and max (-DOP=1); partial results of long reductions are kept as A.
// -DFROM_A reads partial results, -DTO_A writes them.
#ifdef FROM_A
typedef A X;
#define LDX(p) (*(p))
#define LDXV(p) VLOAD(0, p)
inline AV ldx_part(const __global A* p, int n, A pad) {
  A lane[VW];
  for (int i = 0; i < VW; i++) lane[i] = pad;
  for (int i = 0; i < n; i++) lane[i] = p[i];
  return VLOAD(0, lane);
}
#else
typedef S X;
#define LDX(p) LD(p)
#define LDXV(p) ldv(p)
#define ldx_part ldv_part
#endif
#ifdef TO_A
typedef A Y;
#define STY(x, p) (*(p) = (x))
#define STYV(x, p) VSTORE(x, 0, p)
#else
typedef S Y;
#define STY(x, p) ST(x, p)
#define STYV(x, p) stv(x, p)
#endif
#if OP == 1
#define START (-INFINITY)
#define JOIN max_nan
#define JOIN_V max_nan_v
#define FOLD max_v
#else
#define START 0
#define JOIN ADD_
#define JOIN_V ADD_
#define FOLD sum_v
#endif

// (rows, n) -> rows; a row's elements are contiguous, `parts` pieces of a row make a result each.
KERNEL void reduce_rows(const __global X* x, long x0, __global Y* y, long y0, long rows, long n,
                        long xs, long parts, double factor) {
  REDUCTION_MEMORY
  long piece = ((n + parts - 1) / parts + VW - 1) / VW * VW;
  FOR_TASKS(t, rows * parts) {
    long from = min(n, t % parts * piece), to = min(n, from + piece);
    const __global X* p = x + x0 + t / parts * xs;
#if OP == 1 && LOCAL == 1 && !defined(FROM_A)
    A doubt, most = max_run(p + from, to - from, &doubt);
    if (doubt == doubt) {
      STY(most * (A)factor, y + y0 + t);
      continue;
    }
#endif
    AV v0 = (AV)(START), v1 = v0, v2 = v0, v3 = v0;
    long i = from + get_local_id(0) * 4 * VW;
    for (; i + 4 * VW <= to; i += LOCAL * 4 * VW) {
      v0 = JOIN_V(v0, LDXV(p + i));
      v1 = JOIN_V(v1, LDXV(p + i + VW));
      v2 = JOIN_V(v2, LDXV(p + i + 2 * VW));
      v3 = JOIN_V(v3, LDXV(p + i + 3 * VW));
    }
    for (long j = i; j < to && j < i + 4 * VW; j += VW)
      v0 = JOIN_V(v0, j + VW <= to ? LDXV(p + j) : ldx_part(p + j, (int)(to - j), START));
    v0 = JOIN_V(JOIN_V(v0, v1), JOIN_V(v2, v3));
    A r = FOLD(v0);
    REDUCE(JOIN, r)
    if (get_local_id(0) == 0) STY(r * (A)factor, y + y0 + t);
  }
}

// (outer, n, inner) -> (outer, parts, inner): WIDE vectors of neighbours of the inner axis, and DEEP
// rows of them, at a time.
#ifndef WIDE
#define WIDE 32
#endif
#define DEEP 8
KERNEL void reduce_columns(const __global X* x, long x0, __global Y* y, long y0, long outer, long n,
                           long inner, long parts, double factor) {
  long blocks = (inner + WIDE * VW - 1) / (WIDE * VW), piece = (n + parts - 1) / parts;
  for (long t = get_global_id(0); t < outer * parts * blocks; t += get_global_size(0)) {
    long block = t % blocks, part = t / blocks % parts, o = t / blocks / parts;
    long from = min(n, part * piece), to = min(n, from + piece);
    const __global X* p = x + x0 + o * n * inner + block * WIDE * VW;
    __global Y* q = y + y0 + (o * parts + part) * inner + block * WIDE * VW;
    int width = (int)min((long)WIDE * VW, inner - block * WIDE * VW);
    int vectors = width / VW, rest = width % VW;
    AV v[WIDE + 1];
    for (int j = 0; j < WIDE + 1; j++) v[j] = (AV)(START);
    long i = from;
    for (; i + DEEP <= to; i += DEEP) {
      const __global X* row = p + i * inner;
      for (int j = 0; j < vectors; j++) {
        AV u[DEEP];
        UNROLL for (int r = 0; r < DEEP; r++) u[r] = LDXV(row + r * inner + j * VW);
        UNROLL for (int d = DEEP / 2; d > 0; d /= 2)
          UNROLL for (int r = 0; r < d; r++) u[r] = JOIN_V(u[r], u[r + d]);
        v[j] = JOIN_V(v[j], u[0]);
      }
      if (rest)
        for (int r = 0; r < DEEP; r++)
          v[vectors] = JOIN_V(v[vectors], ldx_part(row + r * inner + vectors * VW, rest, START));
    }
    for (; i < to; i++) {
      const __global X* row = p + i * inner;
      for (int j = 0; j < vectors; j++) v[j] = JOIN_V(v[j], LDXV(row + j * VW));
      if (rest) v[vectors] = JOIN_V(v[vectors], ldx_part(row + vectors * VW, rest, START));
    }
    for (int j = 0; j < vectors; j++) STYV(v[j] * (A)factor, q + j * VW);
    if (rest) {
      A lane[VW];
      VSTORE(v[vectors] * (A)factor, 0, lane);
      for (int e = 0; e < rest; e++) STY(lane[e], q + vectors * VW + e);
    }
  }
}
