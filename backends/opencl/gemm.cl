// General matrix product on CPUs: C = epilogue(A B), any strides, batches by three outer axes.
//
// A work-group is one work-item. As many groups run as there are cores; each takes tiles of
// MB x NB of C from a shared counter. In a tile K is cut into blocks of KB <= KC: the block of A is
// packed once, each panel of B (KC x NR) is packed and stays in the L1 cache while all rows of A
// pass by. MR x NV vectors of C are kept in registers.
//
// AHEAD: A lies in rows, and what is packed next is asked for meanwhile. Else A lies column by
// column in panels of MR rows, one stream, and packing is left to the hardware's prefetchers.

#if AHEAD
#define PANEL (MR * KP)
DEFINE_MICRO(micro, i * KP + k, NR)
#else
#define PANEL (MR * KC + VW) // a last vector may write beyond it
DEFINE_MICRO(micro, k * MR + i, NR)
#endif

// A block of A, in panels.
inline void pack_a(const __global S* src, long rs, long cs, int rows, int kc, __global A* dst) {
#if AHEAD
  int all = (rows + MR - 1) / MR * MR;
  pack(src, rs, cs, rows, kc, dst, KP);
  clear_rows(dst, rows, all, kc, KP);
#else
  // Whole vectors, also of rows beyond the panel: what is too wide is written over by the next column.
  const int wide = (MR + VW - 1) / VW * VW;
  for (int i = 0; i < rows; i += MR, dst += PANEL) {
    clear_columns(dst, kc, rows - i, MR);
    pack(src + i * rs, cs, rs, kc, min(wide, rows - i), dst, MR);
  }
#endif
}

// A register tile that is complete, still in the L1 cache: bias, activation, residual, to C.
inline void finish(const __global A* acc, __global S* c, long cs, const __global S* bias,
                   const __global S* res, long rs, int has_bias, int has_res, int rows, int cols) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < cols; j += VW) {
      AV x = lda(acc + i * NR + j);
      int w = cols - j;
      if (has_bias) x += w >= VW ? ldv(bias + j) : ldv_part(bias + j, w, 0);
      x = activate_v(x);
      if (has_res) {
        const __global S* r = res + i * rs + j;
        x += w >= VW ? ldv(r) : ldv_part(r, w, 0);
      }
      if (w >= VW) stv(x, c + i * cs + j);
      else stv_part(x, c + i * cs + j, w);
    }
}

KERNEL void gemm(const __global S* a, long a0, const __global S* b, long b0, __global S* c, long c0,
                 const __global S* bias, long bias0, const __global S* res, long res0,
                 long res_stride, int has_bias, int has_res,
                 __global A* scratch, long scratch0, volatile __global int* counter, long counter0,
                 long m, long n, long k, long ras, long cas, long rbs, long cbs, long n0, long n1,
                 long n2, long sa0, long sa1, long sa2, long sb0, long sb1, long sb2, int MB,
                 int NB, int KB) {
  int IP = MB / MR; // row panels of a whole tile
  __global A* pa = scratch + scratch0 + get_group_id(0) * ((long)IP * PANEL + KC * NR + (long)MB * NB);
  __global A* pb = pa + IP * PANEL;
  __global A* acc = pb + KC * NR;
  int tm = (int)((m + MB - 1) / MB), tn = (int)((n + NB - 1) / NB);
  long tiles = (long)tm * tn * n0 * n1 * n2;
  for (long t = atomic_inc(counter + counter0); t < tiles; t = atomic_inc(counter + counter0)) {
    long batch = t / ((long)tm * tn);
    int tile = (int)(t % ((long)tm * tn));
    long i0 = (long)(tile % tm) * MB, j0 = (long)(tile / tm) * NB;
    int mb = (int)min((long)MB, m - i0), nb = (int)min((long)NB, n - j0);
    long q2 = batch % n2, q1 = batch / n2 % n1, q0 = batch / n2 / n1;
    const __global S* at = a + a0 + q0 * sa0 + q1 * sa1 + q2 * sa2 + i0 * ras;
    const __global S* bt = b + b0 + q0 * sb0 + q1 * sb1 + q2 * sb2 + j0 * cbs;
    int ips = (mb + MR - 1) / MR, jps = (nb + NR - 1) / NR;
    for (long k0 = 0; k0 < k; k0 += KB) {
      int kc = (int)min((long)KB, k - k0), last = k0 + kc == k;
      const __global S* a_next = at + (k0 + kc) * cas;
      int kc_next = (int)min((long)KB, k - k0 - kc);
      pack_a(at + k0 * cas, ras, cas, mb, kc, pa);
      for (int jp = 0; jp < jps; jp++) {
        int width = min(NR, nb - jp * NR);
        clear_columns(pb, kc, width, NR);
        pack(bt + k0 * rbs + jp * NR * cbs, rbs, cbs, kc, width, pb, NR);
        // What is packed next: the panel beside this one, or the first of the next block.
        int beside = jp + 1 < jps, ahead = beside ? min(NR, nb - (jp + 1) * NR) : min(NR, nb);
        const __global S* b_next =
            beside ? bt + k0 * rbs + (jp + 1) * NR * cbs : bt + (k0 + kc) * rbs;
        for (int ip = 0; ip < ips; ip++) {
          if (AHEAD) {
            ask_for(b_next, rbs, cbs, beside ? kc : kc_next, ahead, ip, ips);
            ask_for(a_next, ras, cas, mb, kc_next, jp * ips + ip, jps * ips);
          }
          __global A* part = acc + (jp * IP + ip) * MR * NR;
          if (!AHEAD) { // asks for the next tile's sums, and for what this one is stored to
            if (k0 > 0)
              for (int i = 0; i < MR * NR; i += 64 / (int)sizeof(A)) ASK(part + MR * NR + i);
            if (last)
              ask_for(c + c0 + (batch * m + i0 + ip * MR) * n + j0 + jp * NR, n, 1,
                      min(MR, mb - ip * MR), width, 0, 1);
          }
          micro(pa + ip * PANEL, pb, part, kc, k0 == 0);
          if (last) {
            long i = i0 + ip * MR, j = j0 + jp * NR;
            finish(part, c + c0 + (batch * m + i) * n + j, n, bias + bias0 + j,
                   res + res0 + i * res_stride + j, res_stride, has_bias, has_res,
                   min(MR, mb - ip * MR), width);
          }
        }
      }
    }
  }
}
