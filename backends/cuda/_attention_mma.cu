#include "_common.cuh"
#include "_mma.cuh"
#include "_attention.cuh"
// o = softmax(scale q k^T + mask) v on the matrix units, f16 or bf16; scores never leave registers.
//
// Macros: T; CAUSAL, MASK (see _attention.cuh); WARPS of 16 rows; BN keys a step; D, DV: head sizes
// rounded up to 16; Q_SHARED (1: query fragments are read again each step, to save registers);
// VQ VK VV (rows start on 16 bytes); SPLIT (1: the keys are split, `attention_combine` follows).
constexpr int THREADS = WARPS * 32, BM = WARPS * 16, FN = BN / 8, FD = D / 16, FV = DV / 8;
constexpr int Q_PITCH = D + 8, V_PITCH = DV + 8;
constexpr float LOG2E = 1.44269504088896340736f;

// Fragments of two 8-column tiles of B at depth kk: B rows are k (TRANS) or columns.
template <bool TRANS> DEVICE void load_b(u32 *f, const T *bs, int pitch, int col, int kk, int lane) {
  int j = lane / 8, r = lane % 8;
  if (TRANS) ldmatrix4<true>(f, bs + (kk + r + j % 2 * 8) * pitch + col + j / 2 * 8);
  else ldmatrix4<false>(f, bs + (col + r + j / 2 * 8) * pitch + kk + j % 2 * 8);
}
DEVICE void load_q(u32 *f, const T *qs, int kk, int warp, int lane) {
  ldmatrix4<false>(f, qs + (warp * 16 + lane % 16) * Q_PITCH + kk + lane / 16 * 8);
}
// The block's queries, one row after the other.
DEVICE void load_queries(T *qs, const Head &h, i64 m0) {
  constexpr int N = VQ ? 8 : 1;
#pragma unroll 1
  for (int i = threadIdx.x; i < BM * D / N; i += THREADS) {
    int row = i / (D / N), col = i % (D / N) * N;
    bool valid = m0 + row < h.rows() && col < h.n.d;
    const T *from = valid ? Row(h, 0, m0 + row).query + col : h.q;
    if (VQ) async_copy16(qs + row * Q_PITCH + col, from, valid);
    else qs[row * Q_PITCH + col] = valid ? *from : T{};
  }
}

template <class P> DEVICE void put(P *to, float x) { *to = from_float<P>(x); }
template <class P> DEVICE void put2(P *to, float x, float y) {
  store<2>(to, Pack<P, 2>{from_float<P>(x), from_float<P>(y)});
}

// Grid: x = row tiles, y = splits of the keys, z = batch x key/value heads.
// o dense (b, h, s, dv). SPLIT: partial (splits, b h s, dv) unnormalised, stats (splits, b h s, 2)
// with the maximum (log2) and the sum.
KERNEL(THREADS) attention_mma(T *o, float *partial, float *stats, const T *q, const T *k, const T *v,
                              const MaskType *mask, i64 batch, double scale, SHAPE_ARGUMENTS) {
  DYNAMIC_SHARED(memory);
  T *queries = reinterpret_cast<T *>(memory);
  T *keys = queries + BM * Q_PITCH, *values = keys + BN * Q_PITCH;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  i64 m0 = (i64)blockIdx.x * BM, row0 = m0 + warp * 16 + lane / 4;  // this thread: row0, row0 + 8
  int col0 = lane % 4 * 2;  // ... and columns col0, col0 + 1 of each fragment
  Shape n = SHAPE_VALUES;
  float unit = LOG2E, factor = (float)scale * LOG2E;

  for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {
    Head h(n, q, k, v, mask, z);
    Row rows[2] = {Row(h, z, row0), Row(h, z, row0 + 8)};
    i64 steps = (h.end(min(m0 + BM, h.rows()) - 1) + BN - 1) / BN;
    i64 first = steps * blockIdx.y / gridDim.y, last = steps * (blockIdx.y + 1) / gridDim.y;
    float acc[FV][4] = {}, top[2] = {-infinity<float>(), -infinity<float>()}, sum[2] = {};
    u32 fq[Q_SHARED ? 1 : FD][4];

    load_queries(queries, h, m0);
    load_tile<THREADS, BN, D, Q_PITCH, VK>(keys, h.k + first * BN * n.ks, n.ks, n.t - first * BN, n.d);
    async_commit();
    if (!Q_SHARED) {
      async_wait<0>();
      __syncthreads();
      UNROLL
      for (int i = 0; i < FD; i++) load_q(fq[i], queries, i * 16, warp, lane);
    }

    for (i64 step = first; step < last; step++) {
      i64 key0 = step * BN;
      load_tile<THREADS, BN, DV, V_PITCH, VV>(values, h.v + key0 * n.vs, n.vs, n.t - key0, n.dv);
      async_commit();
      async_wait<1>();
      __syncthreads();  // the keys have arrived

      float score[FN][4] = {};
      UNROLL
      for (int i = 0; i < FD; i++) {
        if (Q_SHARED) load_q(fq[0], queries, i * 16, warp, lane);
        UNROLL
        for (int j = 0; j < FN; j += 2) {
          u32 fk[4];
          load_b<false>(fk, keys, Q_PITCH, j * 8, i * 16, lane);
          mma(score[j], fq[Q_SHARED ? 0 : i], fk, T());
          mma(score[j + 1], fq[Q_SHARED ? 0 : i], fk + 2, T());
        }
      }
      __syncthreads();  // the keys have been read: fetch the next ones during the softmax
      if (step + 1 < last)
        load_tile<THREADS, BN, D, Q_PITCH, VK>(keys, h.k + (key0 + BN) * n.ks, n.ks, n.t - key0 - BN,
                                               n.d);
      async_commit();

      // Masks, new maximum, weights; what was summed before is scaled to the new maximum.
      UNROLL
      for (int e = 0; e < 2; e++) {
        float highest = top[e];
        int left = rows[e].left(key0, BN);
        UNROLL
        for (int j = 0; j < FN; j++)
          UNROLL
          for (int c = 0; c < 2; c++) {
            float &x = score[j][2 * e + c];
            x = rows[e].seen(h, x * factor, key0, j * 8 + col0 + c, left, unit);
            highest = maximum(highest, x);
          }
        highest = group_reduce<4>(highest, Max());
        float base = highest == -infinity<float>() ? 0.0f : highest;
        float rescale = exp2_fast(top[e] - base);
        top[e] = highest;
        sum[e] *= rescale;
        UNROLL
        for (int j = 0; j < FN; j++)
          UNROLL
          for (int c = 0; c < 2; c++) {
            float &x = score[j][2 * e + c];
            x = exp2_fast(x - base);
            sum[e] += x;
          }
        UNROLL
        for (int j = 0; j < FV; j++) acc[j][2 * e] *= rescale, acc[j][2 * e + 1] *= rescale;
      }

      async_wait<1>();
      __syncthreads();  // the values have arrived
      UNROLL
      for (int i = 0; i < BN / 16; i++) {
        float *x = score[2 * i], *y = score[2 * i + 1];
        u32 fp[4] = {pack2<T>(x[0], x[1]), pack2<T>(x[2], x[3]), pack2<T>(y[0], y[1]),
                     pack2<T>(y[2], y[3])};
        UNROLL
        for (int j = 0; j < FV; j += 2) {
          u32 fv[4];
          load_b<true>(fv, values, V_PITCH, j * 8, i * 16, lane);
          mma(acc[j], fp, fv, T());
          mma(acc[j + 1], fp, fv + 2, T());
        }
      }
      __syncthreads();  // the values have been read
    }
    async_wait<0>();
    __syncthreads();

    UNROLL
    for (int e = 0; e < 2; e++) {
      float total = group_reduce<4>(sum[e], Sum());
      if (row0 + 8 * e >= h.rows()) continue;
      float base = top[e] == -infinity<float>() ? 0.0f : top[e];
      bool suspicious = false;
#if SPLIT
      i64 at = blockIdx.y * batch * h.rows() + rows[e].result;
      float *to = partial + at * n.dv, scale_by = 1.0f;
      if (lane % 4 == 0) stats[at * 2] = top[e], stats[at * 2 + 1] = total;
#else
      T *to = o + rows[e].result * n.dv;
      float scale_by = total == 0.0f ? 0.0f : 1.0f / total;
#endif
      UNROLL
      for (int j = 0; j < FV; j++) {
        int col = j * 8 + col0;
        float x = total == 0.0f ? 0.0f : acc[j][2 * e] * scale_by;
        float y = total == 0.0f ? 0.0f : acc[j][2 * e + 1] * scale_by;
        if (VV && col < n.dv) put2(to + col, x, y), suspicious |= is_nan(x + y);
        if (!VV && col < n.dv) put(to + col, x), suspicious |= is_nan(x);
        if (!VV && col + 1 < n.dv) put(to + col + 1, y), suspicious |= is_nan(y);
      }
      if (suspicious && !is_nan(total)) {  // values that are not finite met weights of 0
#pragma unroll 1
        for (int i = 0; i < FV * 2; i++) {
          int col = i / 2 * 8 + col0 + i % 2;
          if (col < n.dv && is_nan(to_float(to[col])))
            put(to + col, scale_by * exact_sum(h, rows[e], col, first * BN, min(last * BN, n.t),
                                               factor, unit,
                                               [=](float y) { return exp2_fast(y - base); }));
        }
      }
    }
  }
}
