// Quantized matrix product on CPUs: blocks of KC products are summed in float registers (exactly for
// int8: 256 products of 2^14 stay below 2^24), then go to int32 sums, or, when scales hold for
// blocks of K (-DBLOCKED), are scaled and added in float.
#undef S
#undef ldv
#undef ldv_part
#undef LD
#define LD(p) widen(*(p))
#if defined(INT8) && !defined(BLOCKED)
#define INTEGER
#endif
DEFINE_MICRO(micro, i * KP + k, NR)

KERNEL void quantized(const __global Q* a, long a0, const __global Q* b, long b0,
                      const __global float* sa, long sa0, const __global float* sb, long sb0,
                      __global S* c, long c0, __global A* scratch, long scratch0,
                      volatile __global int* counter, long counter0, long m, long n, long k,
                      long ras, long cas, long rbs, long cbs, long sa_row, long sa_block,
                      long sb_block, long sb_col, long sb_width, long kb, int MB, int NB) {
  __global A* pa = scratch + scratch0 + get_group_id(0) * (long)(MB * KP + KC * NR + MR * NR + NR) +
                   get_group_id(0) * (long)MB * NB;
  __global A* pb = pa + MB * KP;
  __global A* part = pb + KC * NR;
  __global A* columns = part + MR * NR;
  __global A* acc = columns + NR;
  int tm = (int)((m + MB - 1) / MB), tn = (int)((n + NB - 1) / NB), IP = MB / MR;
  long tiles = (long)tm * tn;
  for (long t = atomic_inc(counter + counter0); t < tiles; t = atomic_inc(counter + counter0)) {
    long i0 = t % tm * MB, j0 = t / tm * NB;
    int mb = (int)min((long)MB, m - i0), nb = (int)min((long)NB, n - j0);
    int ips = (mb + MR - 1) / MR, jps = (nb + NR - 1) / NR;
    for (int i = 0; i < IP * MR * jps * NR; i += VW) sta((AV)(0), acc + i);
    // A block of K never crosses a scale block (kb of them; all of K when there is one scale).
    for (long k0 = 0, kc; k0 < k; k0 += kc) {
      kc = min((long)KC, min(k - k0, kb - k0 % kb));
      long block = k0 / kb;
      pack(a + a0 + i0 * ras + k0 * cas, ras, cas, mb, (int)kc, pa, KP);
      clear_rows(pa, mb, ips * MR, (int)kc, KP);
      for (int jp = 0; jp < jps; jp++) {
        int width = min(NR, nb - jp * NR);
        clear_columns(pb, (int)kc, width, NR);
        pack(b + b0 + k0 * rbs + (j0 + jp * NR) * cbs, rbs, cbs, (int)kc, width, pb, NR);
        for (int j = 0; j < NR; j++)
          columns[j] = j < width ? sb[sb0 + block * sb_block + (j0 + jp * NR + j) / sb_width * sb_col] : 0;
        for (int ip = 0; ip < ips; ip++) {
          __global A* sums = acc + (jp * IP + ip) * MR * NR;
          micro(pa + ip * MR * KP, pb, part, (int)kc, 1);
          for (int i = 0; i < MR; i++) {
#ifdef INTEGER
            for (int j = 0; j < NR; j += VW) {
              IV s = AS_IV(lda(sums + i * NR + j)) + TO_IV(lda(part + i * NR + j));
              sta(AS_AV(s), sums + i * NR + j);
            }
#elif defined(BLOCKED)
            A row = sa[sa0 + min(i0 + ip * MR + i, m - 1) * sa_row + block * sa_block];
            for (int j = 0; j < NR; j += VW) {
              AV s = row * lda(columns + j);
              sta(fma(lda(part + i * NR + j), s, lda(sums + i * NR + j)), sums + i * NR + j);
            }
#else
            for (int j = 0; j < NR; j += VW)
              sta(lda(part + i * NR + j) + lda(sums + i * NR + j), sums + i * NR + j);
#endif
          }
        }
      }
    }
    for (int i = 0; i < mb; i++) {
      A row = sa[sa0 + (i0 + i) * sa_row];
      for (int jp = 0; jp < jps; jp++) {
        const __global A* sums = acc + ((jp * IP + i / MR) * MR + i % MR) * NR;
        __global S* out = c + c0 + (i0 + i) * n + j0 + jp * NR;
        int width = min(NR, nb - jp * NR);
        for (int j = 0; j < width; j += VW) {
#ifdef INTEGER
          AV x = TO_AV(AS_IV(lda(sums + j)));
#else
          AV x = lda(sums + j);
#endif
#ifndef BLOCKED
          A lane[VW];
          for (int e = 0; e < VW; e++)
            lane[e] = j + e < width ? sb[sb0 + (j0 + jp * NR + j + e) * sb_col] : 0;
          x *= row * VLOAD(0, lane);
#endif
          if (width - j >= VW) stv(x, out + j);
          else stv_part(x, out + j, width - j);
        }
      }
    }
  }
}
