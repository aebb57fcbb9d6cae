// Products with one row of A: B is streamed once, by as many groups of one work-item as there are
// cores. What is read next is asked for ahead, as far as was fastest (Zen 5).
//
// gemv_nt: B contiguous along K (weights stored transposed): a dot product per column, in order, or R
//          side by side, with nothing asked for: more streams for the hardware's prefetchers.
// gemv_nn: B contiguous along N: a group takes blocks of rows of B, R at once, and keeps its sums of
//          all columns near it; gemv_sum adds up the groups'.
#define AHEAD (16384 / (int)sizeof(S))
#define AHEAD_EACH (2048 / (int)sizeof(S))
#define LINE (64 / (int)sizeof(S))
#define U 4

#define ASK_LINES(p) UNROLL for (int e_ = 0; e_ < U * VW; e_ += LINE) ASK((p) + e_)

inline A dot_x(const __global S* p, const __global A* x, long k) {
  AV s[U];
  UNROLL for (int u = 0; u < U; u++) s[u] = (AV)(0);
  long i = 0;
  for (; i + U * VW <= k; i += U * VW) {
    ASK_LINES(p + i + AHEAD);
    UNROLL for (int u = 0; u < U; u++) s[u] = fma(ldv(p + i + u * VW), lda(x + i + u * VW), s[u]);
  }
  for (; i + VW <= k; i += VW) s[0] = fma(ldv(p + i), lda(x + i), s[0]);
  if (i < k) s[1] = fma(ldv_part(p + i, (int)(k - i), 0), lda(x + i), s[1]);
  return sum_v((s[0] + s[1]) + (s[2] + s[3]));
}

// R rows of B, step apart, times x.
inline void dots_x(const __global S* p, long step, const __global A* x, long k, __global A* out) {
  AV s[R];
  UNROLL for (int r = 0; r < R; r++) s[r] = (AV)(0);
  long i = 0;
  for (; i + VW <= k; i += VW) {
    AV v = lda(x + i);
    UNROLL for (int r = 0; r < R; r++) s[r] = fma(ldv(p + r * step + i), v, s[r]);
  }
  if (i < k) {
    AV v = lda(x + i);
    for (int r = 0; r < R; r++) s[r] = fma(ldv_part(p + r * step + i, (int)(k - i), 0), v, s[r]);
  }
  UNROLL for (int r = 0; r < R; r++) out[r] = sum_v(s[r]);
}

KERNEL void gemv_nt(FEW_ROWS) {
  __global A* x = scratch + scratch0 + get_group_id(0) * (KX + VW);
  __global A* out = x + KX;
  int packed = 0;
  long tasks = (n + strip - 1) / strip;
  for (long t = atomic_inc(counter + counter0); t < tasks; t = atomic_inc(counter + counter0)) {
    if (!packed) {
      pack(a + a0, ras, cas, 1, (int)k, x, (int)KX);
      packed = 1;
    }
    long end = min(n, (t + 1) * strip);
    for (long j = t * strip; j < end; j += VW) {
      int width = (int)min((long)VW, end - j);
      int r = 0;
      if (R > 1)
        for (; r + R <= width; r += R) dots_x(b + b0 + (j + r) * cbs, cbs, x, k, out + r);
      for (; r < width; r++) out[r] = dot_x(b + b0 + (j + r) * cbs, x, k);
      STORE_ROW(lda(out), 0, j, width)
    }
  }
}

// Sums of n columns, in whole vectors.
#define NX ((n + VW - 1) / VW * VW)

// sums += x[r] * row r of B, `count` of them: the more, the less often sums are read and written.
#define ADD_ROWS(name, count)                                                                     \
  inline void name(const A* x, const __global S* p, long rbs, long n, __global A* sums) {          \
    long j = 0;                                                                                    \
    for (; j + U * VW <= n; j += U * VW) {                                                         \
      AV s[U];                                                                                     \
      UNROLL for (int u = 0; u < U; u++) s[u] = lda(sums + j + u * VW);                            \
      UNROLL for (int r = 0; r < count; r++) {                                                     \
        ASK_LINES(p + r * rbs + j + AHEAD_EACH);                                                   \
        UNROLL for (int u = 0; u < U; u++)                                                         \
          s[u] = fma((AV)(x[r]), ldv(p + r * rbs + j + u * VW), s[u]);                             \
      }                                                                                            \
      UNROLL for (int u = 0; u < U; u++) sta(s[u], sums + j + u * VW);                             \
    }                                                                                              \
    for (; j < n; j += VW) {                                                                       \
      AV s = lda(sums + j);                                                                        \
      for (int r = 0; r < count; r++) {                                                            \
        const __global S* q = p + r * rbs + j;                                                     \
        s = fma((AV)(x[r]), n - j >= VW ? ldv(q) : ldv_part(q, (int)(n - j), 0), s);               \
      }                                                                                            \
      sta(s, sums + j);                                                                            \
    }                                                                                              \
  }
ADD_ROWS(add_row, 1)
ADD_ROWS(add_rows, R)

KERNEL void gemv_nn(FEW_ROWS, long rows) {
  __global A* sums = scratch + scratch0 + get_group_id(0) * NX;
  for (long j = 0; j < NX; j += VW) sta((AV)(0), sums + j);
  long tasks = (k + rows - 1) / rows;
  for (long t = atomic_inc(counter + counter0); t < tasks; t = atomic_inc(counter + counter0)) {
    long i = t * rows, to = min(k, i + rows);
    A x[R];
    for (; i + R <= to; i += R) {
      UNROLL for (int r = 0; r < R; r++) x[r] = LD(a + a0 + (i + r) * cas);
      add_rows(x, b + b0 + i * rbs, rbs, n, sums);
    }
    for (; i < to; i++) {
      x[0] = LD(a + a0 + i * cas);
      add_row(x, b + b0 + i * rbs, rbs, n, sums);
    }
  }
}

KERNEL void gemv_sum(FEW_ROWS, long parts) {
  FOR_TASKS(t, NX / VW) {
    long j = t * VW;
    AV s = (AV)(0);
    for (long p = 0; p < parts; p++) s += lda(scratch + scratch0 + p * NX + j);
    STORE_ROW(s, 0, j, (int)min((long)VW, n - j))
  }
}
