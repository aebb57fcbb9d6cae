#include "_common.cuh"
#include "_attention.cuh"
// o = softmax(scale q k^T + mask) v on the vector units: any float type, any device.
//
// Macros: T; CAUSAL, MASK (see _attention.cuh); RM rows and RN keys a thread (16 x 16 threads);
// D, DV: head sizes rounded up to 16; SPLIT (1: the keys are split, `attention_combine` follows).
typedef Accumulator<T>::type A;
constexpr int BM = 16 * RM, BN = 16 * RN, PITCH = (D > DV ? D : DV) + 1;

// rows x cols of a matrix into shared memory as A, zeros outside.
template <int ROWS, int COLS>
DEVICE void load_rows(A *to, const T *from, i64 stride, i64 rows, i64 cols) {
  for (int i = threadIdx.x; i < ROWS * COLS; i += 256) {
    int row = i / COLS, col = i % COLS;
    to[row * PITCH + col] = row < rows && col < cols ? (A)to_float(from[row * stride + col]) : (A)0;
  }
}

template <class P> DEVICE void put(P *to, A x) { *to = from_float<P>(x); }

// Grid: x = row tiles, y = splits of the keys, z = batch x key/value heads. See attention_mma.
KERNEL(256) attention_simt(T *o, A *partial, A *stats, const T *q, const T *k, const T *v,
                           const MaskType *mask, i64 batch, double scale, SHAPE_ARGUMENTS) {
  DYNAMIC_SHARED(memory);
  A *queries = reinterpret_cast<A *>(memory);
  A *kv = queries + BM * PITCH, *weights = kv + BN * PITCH;
  int tx = threadIdx.x % 16, ty = threadIdx.x / 16;  // rows ty RM + i, keys and columns tx + 16 j
  i64 m0 = (i64)blockIdx.x * BM;
  Shape n = SHAPE_VALUES;
  A factor = (A)scale;

  for (i64 z = blockIdx.z; z < batch; z += gridDim.z) {
    Head h(n, q, k, v, mask, z);
    i64 steps = (h.end(min(m0 + BM, h.rows()) - 1) + BN - 1) / BN;
    i64 first = steps * blockIdx.y / gridDim.y, last = steps * (blockIdx.y + 1) / gridDim.y;
    A acc[RM][DV / 16] = {}, top[RM], sum[RM];
    UNROLL
    for (int i = 0; i < RM; i++) top[i] = -infinity<A>(), sum[i] = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < BM * D; i += 256) {
      i64 row = m0 + i / D, col = i % D;
      bool valid = row < h.rows() && col < n.d;
      queries[i / D * PITCH + col] = valid ? (A)to_float(Row(h, 0, row).query[col]) : (A)0;
    }

    for (i64 step = first; step < last; step++) {
      i64 key0 = step * BN;
      load_rows<BN, D>(kv, h.k + key0 * n.ks, n.ks, n.t - key0, n.d);
      __syncthreads();  // queries and keys are there
      A score[RM][RN] = {};
#pragma unroll 4
      for (int c = 0; c < D; c++) {
        A x[RM], y[RN];
        UNROLL
        for (int i = 0; i < RM; i++) x[i] = queries[(ty * RM + i) * PITCH + c];
        UNROLL
        for (int j = 0; j < RN; j++) y[j] = kv[(tx + 16 * j) * PITCH + c];
        UNROLL
        for (int i = 0; i < RM; i++)
          UNROLL
          for (int j = 0; j < RN; j++) score[i][j] += x[i] * y[j];
      }
      UNROLL
      for (int i = 0; i < RM; i++) {
        Row row(h, z, m0 + ty * RM + i);
        A highest = top[i];
        int left = row.left(key0, BN);
        UNROLL
        for (int j = 0; j < RN; j++) {
          score[i][j] = row.seen(h, score[i][j] * factor, key0, tx + 16 * j, left, (A)1);
          highest = maximum(highest, score[i][j]);
        }
        highest = group_reduce<16>(highest, Max());
        A base = highest == -infinity<A>() ? (A)0 : highest;
        A rescale = exp_of(top[i] - base);
        top[i] = highest;
        sum[i] *= rescale;
        UNROLL
        for (int j = 0; j < RN; j++) {
          A p = exp_of(score[i][j] - base);
          sum[i] += p;
          weights[(ty * RM + i) * (BN + 1) + tx + 16 * j] = p;
        }
        UNROLL
        for (int c = 0; c < DV / 16; c++) acc[i][c] *= rescale;
      }
      __syncthreads();  // the keys have been read, the weights are written
      load_rows<BN, DV>(kv, h.v + key0 * n.vs, n.vs, n.t - key0, n.dv);
      __syncthreads();
#pragma unroll 4
      for (int j = 0; j < BN; j++) {
        A p[RM];
        UNROLL
        for (int i = 0; i < RM; i++) p[i] = weights[(ty * RM + i) * (BN + 1) + j];
        UNROLL
        for (int c = 0; c < DV / 16; c++) {
          A x = kv[j * PITCH + tx + 16 * c];
          UNROLL
          for (int i = 0; i < RM; i++) acc[i][c] += p[i] * x;
        }
      }
      __syncthreads();  // values and weights have been read
    }
    __syncthreads();

    UNROLL
    for (int i = 0; i < RM; i++) {
      A total = group_reduce<16>(sum[i], Sum());
      if (m0 + ty * RM + i >= h.rows()) continue;
      Row row(h, z, m0 + ty * RM + i);
      A base = top[i] == -infinity<A>() ? (A)0 : top[i];
      bool suspicious = false;
#if SPLIT
      i64 at = blockIdx.y * batch * h.rows() + row.result;
      A *to = partial + at * n.dv, scale_by = 1;
      if (tx == 0) stats[at * 2] = top[i], stats[at * 2 + 1] = total;
#else
      T *to = o + row.result * n.dv;
      A scale_by = total == (A)0 ? (A)0 : (A)1 / total;
#endif
      UNROLL
      for (int c = 0; c < DV / 16; c++) {
        int col = tx + 16 * c;
        A x = total == (A)0 ? (A)0 : acc[i][c] * scale_by;
        if (col < n.dv) put(to + col, x), suspicious |= is_nan(x);
      }
      if (suspicious && !is_nan(total)) {  // values that are not finite met weights of 0
#pragma unroll 1
        for (int col = tx; col < n.dv; col += 16)
          if (is_nan(to_float(to[col])))
            put(to + col, scale_by * exact_sum(h, row, col, first * BN, min(last * BN, n.t), factor,
                                               (A)1, [=](A y) { return exp_of(y - base); }));
      }
    }
  }
}
