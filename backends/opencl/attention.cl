// Attention on CPUs, one pass over the keys with a running maximum and sum ("flash").
//
// The query heads that share a key/value head are handled together: row r of a task is query
// (r / queries of the shared heads, r % s). D and DV are the head dimensions.
#ifdef PREFILL
// Blocks of KB keys are packed once per RB rows; both products use the register tile.
#define DP (((D + VW - 1) / VW) * VW + VW)
#define SP (KB + VW)
#define OP_ (((DV + NR - 1) / NR) * NR)
DEFINE_MICRO(micro_qk, i * DP + k, SP)
DEFINE_MICRO(micro_pv, i * SP + k, OP_)
#endif

#define MASK_NONE 0
#define MASK_BOOL 1
#define MASK_FLOAT 2

#define ATTENTION_ARGUMENTS                                                                        \
  const __global S *q, long q0, const __global S *k, long k0, const __global S *v, long v0,        \
      const __global uchar *mask, long mask0, __global S *y, long y0, __global A *scratch,         \
      long scratch0, volatile __global int *counter, long counter0, long batches, long kv_heads,   \
      long shared, long s, long t, long qb, long qh, long qs, long kb, long kh, long ks, long vb,  \
      long vh, long vs, long mb, long mh, long ms, long mt, int causal, double scale, int RB

// The mask's contribution to one score.
#if MASK == MASK_BOOL
#define MASKED(x, index) (mask[mask0 + (index)] ? (x) : (A)(-INFINITY))
#elif MASK == MASK_FLOAT
#define MASKED(x, index) ((x) + LD((const __global S*)mask + mask0 + (index)))
#else
#define MASKED(x, index) (x)
#endif

#ifdef PREFILL
KERNEL void attention_prefill(ATTENTION_ARGUMENTS) {
  __global A* qa = scratch + scratch0 +
                   get_group_id(0) * (long)(RB * (DP + SP + OP_ + 2) + (DP + KB) * NR + KB * OP_);
  __global A* sa = qa + RB * DP;
  __global A* oa = sa + RB * SP;
  __global A* kp = oa + RB * OP_;
  __global A* vp = kp + (DP + KB) * NR;
  __global A* top = vp + KB * OP_;
  __global A* sum = top + RB;
  long rows = shared * s, blocks = (rows + RB - 1) / RB, tasks = batches * kv_heads * blocks;
  for (long task = atomic_inc(counter + counter0); task < tasks;
       task = atomic_inc(counter + counter0)) {
    // Later rows see more keys under causality: they are started first.
    long r0 = (blocks - 1 - task / (batches * kv_heads)) * RB;
    long head = task % kv_heads, batch = task / kv_heads % batches;
    int count = (int)min((long)RB, rows - r0), ips = (count + MR - 1) / MR;
    long seen = 0; // keys that any of the rows sees
    for (int i = 0; i < ips * MR; i++) {
      long g = (r0 + i) / s, at = (r0 + i) % s;
      if (i < count) {
        const __global S* p = q + q0 + batch * qb + (head * shared + g) * qh + at * qs;
        for (int j = 0; j < D; j += VW)
          sta((D - j >= VW ? ldv(p + j) : ldv_part(p + j, D - j, 0)) * (A)scale, qa + i * DP + j);
        seen = max(seen, causal ? min(t, at + t - s + 1) : t);
      } else {
        for (int j = 0; j < D; j++) qa[i * DP + j] = 0;
      }
      for (int j = 0; j < OP_; j += VW) sta((AV)(0), oa + i * OP_ + j);
      top[i] = -INFINITY;
      sum[i] = 0;
    }
    for (long j0 = 0; j0 < seen; j0 += KB) {
      int keys = (int)min((long)KB, seen - j0);
      for (int jp = 0; jp * NR < keys; jp++) {
        int width = min(NR, keys - jp * NR);
        clear_columns(kp, D, width, NR);
        pack(k + k0 + batch * kb + head * kh + (j0 + jp * NR) * ks, 1, ks, D, width, kp, NR);
        for (int ip = 0; ip < ips; ip++)
          micro_qk(qa + ip * MR * DP, kp, sa + ip * MR * SP + jp * NR, D, 1);
      }
      for (int jp = 0; jp * NR < OP_; jp++) {
        int width = min(NR, DV - jp * NR);
        clear_columns(vp + jp * KB * NR, keys, width, NR);
        pack(v + v0 + batch * vb + head * vh + j0 * vs + jp * NR, vs, 1, keys, width,
             vp + jp * KB * NR, NR);
      }
      for (int i = 0; i < count; i++) {
        __global A* row = sa + i * SP;
        long g = (r0 + i) / s, at = (r0 + i) % s;
        int limit = causal ? (int)clamp(at + t - s + 1 - j0, 0L, (long)keys) : keys;
        for (int j = limit; j < keys; j++) row[j] = -INFINITY;
        for (int j = keys; j % VW; j++) row[j] = -INFINITY;
#if MASK != MASK_NONE
        long base = batch * mb + (head * shared + g) * mh + at * ms + j0 * mt;
        for (int j = 0; j < limit; j++) row[j] = MASKED(row[j], base + j * mt);
#endif
        AV mv = (AV)(top[i]);
        for (int j = 0; j < keys; j += VW) mv = larger_v(lda(row + j), mv);
        A m = max_v(mv), before = top[i];
        top[i] = m;
        A shift = m == -INFINITY ? (A)0 : m; // a row without keys so far: exp(-inf) = 0
        AV total = (AV)(0);
        for (int j = 0; j < keys; j += VW) {
          AV e = exp_negative_v(lda(row + j) - shift);
          sta(e, row + j);
          total += e;
        }
        if (m != before) {
          A rescale = exp_(before - shift);
          sum[i] *= rescale;
          for (int j = 0; j < OP_; j += VW) sta(lda(oa + i * OP_ + j) * rescale, oa + i * OP_ + j);
        }
        sum[i] += sum_v(total);
      }
      for (int i = count; i < ips * MR; i++)
        for (int j = 0; j < keys; j++) sa[i * SP + j] = 0;
      for (int jp = 0; jp * NR < OP_; jp++)
        for (int ip = 0; ip < ips; ip++)
          micro_pv(sa + ip * MR * SP, vp + jp * KB * NR, oa + ip * MR * OP_ + jp * NR, keys, 0);
    }
    for (int i = 0; i < count; i++) {
      long g = (r0 + i) / s, at = (r0 + i) % s;
      __global S* o = y + y0 + (((batch * kv_heads + head) * shared + g) * s + at) * DV;
      A scale_o = sum[i] == 0 ? (A)0 : (A)1 / sum[i];
      for (int j = 0; j < DV; j += VW) {
        AV x = lda(oa + i * OP_ + j) * scale_o;
        if (sum[i] == 0) x = (AV)(0);
        if (DV - j >= VW) stv(x, o + j);
        else stv_part(x, o + j, DV - j);
      }
    }
  }
}
#else
// Few rows (decode): keys and values are streamed once, VW keys at a time. `splits` tasks share the
// keys of a head; their (maximum, sum, output) are combined by attention_combine.
#define DVEC ((D + VW - 1) / VW)
#define OVEC ((DV + VW - 1) / VW)
#define PART (OVEC * VW + 2)

inline AV ld_dim(const __global S* p, int j, int d) {
  return d - j >= VW ? ldv(p + j) : ldv_part(p + j, d - j, 0);
}

// Sums of VW vectors, one per lane: halves are exchanged and added until one vector is left.
#define HALVE(r, d)                                                                       \
  UNROLL for (int i_ = 0; i_ < d; i_++)                                                   \
    r[i_] = CAT(CAT(SWAP, d), _LO)(r[i_], r[i_ + d]) + CAT(CAT(SWAP, d), _HI)(r[i_], r[i_ + d]);
inline AV sums_v(AV* r) {
#if VW == 16
  HALVE(r, 8)
#endif
#if VW >= 8
  HALVE(r, 4)
#endif
  HALVE(r, 2)
  HALVE(r, 1)
  return r[0];
}

KERNEL void attention_decode(ATTENTION_ARGUMENTS, long splits, __global A* parts, long parts0) {
  __global A* qa = scratch + scratch0 + get_group_id(0) * (long)((ROWS + VW) * DVEC * VW + ROWS * VW);
  __global A* kf = qa + ROWS * DVEC * VW;
  __global A* pf = kf + VW * DVEC * VW;
  long rows = shared * s, piece = ((t + splits - 1) / splits + VW - 1) / VW * VW;
  long tasks = batches * kv_heads * splits;
  for (long task = atomic_inc(counter + counter0); task < tasks;
       task = atomic_inc(counter + counter0)) {
    long split = task % splits, head = task / splits % kv_heads, batch = task / splits / kv_heads;
    const __global S* kh_ = k + k0 + batch * kb + head * kh;
    const __global S* vh_ = v + v0 + batch * vb + head * vh;
    A top[ROWS], sum[ROWS];
    AV o[ROWS][OVEC];
    for (int r = 0; r < ROWS; r++) {
      top[r] = -INFINITY;
      sum[r] = 0;
      for (int j = 0; j < OVEC; j++) o[r][j] = (AV)(0);
      long g = r / s, at = r % s;
      const __global S* p = q + q0 + batch * qb + (head * shared + g) * qh + at * qs;
      for (int j = 0; j < DVEC; j++)
        sta(r < rows ? ld_dim(p, j * VW, D) * (A)scale : (AV)(0), qa + (r * DVEC + j) * VW);
    }
    long from = min(t, split * piece), to = min(t, from + piece);
    if (causal) to = min(to, t); // the last row sees every key; others are masked below
    for (long j0 = from; j0 < to; j0 += VW) {
      int keys = (int)min((long)VW, to - j0);
      for (int e = 0; e < keys; e++)
        for (int j = 0; j < DVEC; j++)
          sta(ld_dim(kh_ + (j0 + e) * ks, j * VW, D), kf + (e * DVEC + j) * VW);
      for (int r = 0; r < ROWS; r++) {
        if (r >= rows) break;
        AV dots[VW];
        UNROLL for (int e = 0; e < VW; e++) {
          AV x = (AV)(0);
          if (e < keys)
            for (int j = 0; j < DVEC; j++)
              x = fma(lda(qa + (r * DVEC + j) * VW), lda(kf + (e * DVEC + j) * VW), x);
          dots[e] = x;
        }
        AV score = sums_v(dots);
        long g = r / s, at = r % s;
        long limit = causal ? at + t - s + 1 - j0 : (long)keys;
        if (limit < VW || keys < VW || MASK != MASK_NONE) {
          A lane[VW];
          VSTORE(score, 0, lane);
          for (int e = 0; e < VW; e++) {
            if (e >= keys || e >= limit) { lane[e] = -INFINITY; continue; }
#if MASK != MASK_NONE
            lane[e] = MASKED(lane[e], batch * mb + (head * shared + g) * mh + at * ms + (j0 + e) * mt);
#endif
          }
          score = VLOAD(0, lane);
        }
        A before = top[r], m = max_nan(before, max_v(score));
        A shift = m == -INFINITY ? (A)0 : m;
        if (m != before) {
          A rescale = exp_(before - shift);
          sum[r] *= rescale;
          for (int j = 0; j < OVEC; j++) o[r][j] *= rescale;
          top[r] = m;
        }
        AV p = exp_negative_v(score - shift);
        sum[r] += sum_v(p);
        sta(p, pf + r * VW);
      }
      for (int e = 0; e < keys; e++)
        UNROLL for (int j = 0; j < OVEC; j++) {
          AV x = ld_dim(vh_ + (j0 + e) * vs, j * VW, DV);
          UNROLL for (int r = 0; r < ROWS; r++) o[r][j] = fma((AV)(pf[r * VW + e]), x, o[r][j]);
        }
    }
    for (int r = 0; r < ROWS; r++) {
      if (r >= rows) break;
      __global A* part = parts + parts0 + ((batch * kv_heads + head) * rows + r) * splits * PART + split * PART;
      part[OVEC * VW] = top[r];
      part[OVEC * VW + 1] = sum[r];
      for (int j = 0; j < OVEC; j++) sta(o[r][j], part + j * VW);
    }
  }
}

KERNEL void attention_combine(const __global A* parts, long parts0, __global S* y, long y0, long rows,
                              long splits) {
  for (long r = get_global_id(0); r < rows; r += get_global_size(0)) {
    const __global A* p = parts + parts0 + r * splits * PART;
    A m = -INFINITY, sum = 0;
    for (long i = 0; i < splits; i++) m = max_nan(m, p[i * PART + OVEC * VW]);
    A shift = m == -INFINITY ? (A)0 : m;
    AV o[OVEC];
    for (int j = 0; j < OVEC; j++) o[j] = (AV)(0);
    for (long i = 0; i < splits; i++) {
      A weight = exp_(p[i * PART + OVEC * VW] - shift);
      sum += weight * p[i * PART + OVEC * VW + 1];
      for (int j = 0; j < OVEC; j++) o[j] += weight * lda(p + i * PART + j * VW);
    }
    for (int j = 0; j < OVEC; j++) {
      AV x = sum == 0 ? (AV)(0) : o[j] / sum;
      __global S* out = y + y0 + r * DV + j * VW;
      if (DV - j * VW >= VW) stv(x, out);
      else stv_part(x, out, DV - j * VW);
    }
  }
}
#endif
