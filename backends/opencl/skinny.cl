// Products with few rows of A (decode): B is streamed once, straight from its memory, by as many
// groups of one work-item as there are cores; A is widened into each group's scratch first.
//
// skinny_nt: B contiguous along K (weights stored transposed): MC x R dot products in registers.
// skinny_nn: B contiguous along N: sums of a strip of columns stay in the L1 cache.
#define MP ((m + MC - 1) / MC * MC)

#define DOTS(FIRST)                                                           \
  for (long kk = k0; kk < whole; kk += VW) {                                  \
    AV wv[R];                                                                 \
    UNROLL for (int r = 0; r < R; r++) {                                      \
      FIRST;                                                                  \
      wv[r] = ldv(w[r] + kk);                                                 \
    }                                                                         \
    UNROLL for (int e = 0; e < MC; e++) {                                     \
      AV xv = lda(xi + e * KX + kk);                                          \
      UNROLL for (int r = 0; r < R; r++) acc[r][e] = fma(wv[r], xv, acc[r][e]); \
    }                                                                         \
  }

// K is cut into blocks for which the rows of A and R rows of B stay in the L1 cache; dot products
// wait in `part` from one block to the next. What is read next of B is asked for a block ahead.
KERNEL void skinny_nt(FEW_ROWS) {
  __global A* x = scratch + scratch0 + get_group_id(0) * (MP * KX + MP * VW * (R + 1));
  __global A* out = x + MP * KX;
  __global A* part = out + MP * VW;
  int packed = 0;
  long chunks = (n + strip - 1) / strip, most = max(4L * VW, 8192 / (MP + R) / VW * VW);
  long blocks = (k + most - 1) / most, block = ((k + blocks - 1) / blocks + VW - 1) / VW * VW;
  for (long t = atomic_inc(counter + counter0); t < chunks; t = atomic_inc(counter + counter0)) {
    if (!packed) {
      pack(a + a0, ras, cas, (int)m, (int)k, x, (int)KX);
      clear_rows(x, (int)m, (int)MP, (int)KX, (int)KX);
      packed = 1;
    }
    long end = min(n, (t + 1) * strip);
    for (long j = t * strip; j < end; j += VW) {
      int width = (int)min((long)VW, end - j);
      for (int r0 = 0; r0 < width; r0 += R) {
        const __global S* w[R];
        UNROLL for (int r = 0; r < R; r++) w[r] = b + b0 + min(j + r0 + r, n - 1) * cbs;
        for (long k0 = 0; k0 < k; k0 += block) {
          long k1 = min(k, k0 + block), whole = k0 + (k1 - k0) / VW * VW;
          long ahead = k1 < k ? block : R * cbs - k0;
          for (int i = 0; i < MP; i += MC) {
            AV acc[R][MC];
            __global A* kept = part + i * R * VW;
            if (k0 == 0) {
              UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int e = 0; e < MC; e++) acc[r][e] = (AV)(0);
            } else {
              UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int e = 0; e < MC; e++) acc[r][e] = lda(kept + (e * R + r) * VW);
            }
            const __global A* xi = x + i * KX;
            if (i == 0) DOTS(ASK(w[r] + kk + ahead)) else DOTS()
            if (whole < k1) {
              UNROLL for (int r = 0; r < R; r++) {
                AV wv = ldv_part(w[r] + whole, (int)(k1 - whole), 0);
                UNROLL for (int e = 0; e < MC; e++)
                  acc[r][e] = fma(wv, lda(xi + e * KX + whole), acc[r][e]);
              }
            }
            if (k1 < k) {
              UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int e = 0; e < MC; e++) sta(acc[r][e], kept + (e * R + r) * VW);
            } else {
              UNROLL for (int r = 0; r < R; r++)
                UNROLL for (int e = 0; e < MC; e++)
                  if (r0 + r < VW) out[(i + e) * VW + r0 + r] = sum_v(acc[r][e]);
            }
          }
        }
      }
      for (int i = 0; i < m; i++) STORE_ROW(lda(out + i * VW), i, j, width)
    }
  }
}

#define KU 8
KERNEL void skinny_nn(FEW_ROWS) {
  __global A* x = scratch + scratch0 + get_group_id(0) * (m * KX + m * strip);
  __global A* acc = x + m * KX;
  int packed = 0;
  long chunks = (n + strip - 1) / strip;
  for (long t = atomic_inc(counter + counter0); t < chunks; t = atomic_inc(counter + counter0)) {
    if (!packed) {
      pack(a + a0, ras, cas, (int)m, (int)k, x, (int)KX);
      packed = 1;
    }
    long j0 = t * strip;
    int nb = (int)min((long)strip, n - j0), whole = nb - nb % VW;
    for (int i = 0; i < m * strip; i += VW) sta((AV)(0), acc + i);
    const __global S* bt = b + b0 + j0;
    for (long kk = 0; kk < k; kk += KU) {
      int ku = (int)min((long)KU, k - kk);
      if (ku == KU) {
        for (int j = 0; j < whole; j += VW) {
          AV bv[KU];
          UNROLL for (int u = 0; u < KU; u++) bv[u] = ldv(bt + (kk + u) * rbs + j);
          for (int i = 0; i < m; i++) {
            AV s = lda(acc + i * strip + j);
            UNROLL for (int u = 0; u < KU; u++) s = fma((AV)(x[i * KX + kk + u]), bv[u], s);
            sta(s, acc + i * strip + j);
          }
        }
      }
      for (int j = ku == KU ? whole : 0; j < nb; j += VW)
        for (int u = 0; u < ku; u++) {
          const __global S* p = bt + (kk + u) * rbs + j;
          AV bv = nb - j >= VW ? ldv(p) : ldv_part(p, nb - j, 0);
          for (int i = 0; i < m; i++)
            sta(fma((AV)(x[i * KX + kk + u]), bv, lda(acc + i * strip + j)), acc + i * strip + j);
        }
    }
    for (int i = 0; i < m; i++)
      for (int j = 0; j < nb; j += VW) STORE_ROW(lda(acc + i * strip + j), i, j0 + j, nb - j)
  }
}
