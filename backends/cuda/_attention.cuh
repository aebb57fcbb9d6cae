// What both attention kernels share: which query a row is, which keys it sees, and the exact sum
// for values that are not finite. Put after _common.cuh.
//
// The queries of the `group` heads that share one key/value head are rows of one matrix,
// row = query * group + head: they read the same keys, and causal rows stay in order.
// Macros: T; CAUSAL; MASK (0 none, 1 bool, 2 added, of type T).
#if MASK == 1
typedef u8 MaskType;
#else
typedef T MaskType;
#endif

// Sizes and strides, in elements. The last axis of q, k and v is adjacent.
struct Shape {
  i64 heads, group, s, t, d, dv;  // heads: of keys and values
  i64 qb, qh, qs, kb, kh, ks, vb, vh, vs, mb, mh, ms, mt;
};
#define SHAPE_ARGUMENTS                                                                       \
  i64 heads, i64 group, i64 s, i64 t, i64 d, i64 dv, i64 qb, i64 qh, i64 qs, i64 kb, i64 kh,  \
      i64 ks, i64 vb, i64 vh, i64 vs, i64 mb, i64 mh, i64 ms, i64 mt
#define SHAPE_VALUES                                                                          \
  { heads, group, s, t, d, dv, qb, qh, qs, kb, kh, ks, vb, vh, vs, mb, mh, ms, mt }

// One batch entry and key/value head.
struct Head {
  Shape n;
  const T *q, *k, *v;
  const MaskType *mask;
  DEVICE Head(const Shape &n, const T *q0, const T *k0, const T *v0, const MaskType *m0, i64 z)
      : n(n) {
    i64 b = z / n.heads, h = z % n.heads;
    q = q0 + b * n.qb + h * n.group * n.qh;
    k = k0 + b * n.kb + h * n.kh;
    v = v0 + b * n.vb + h * n.vh;
    mask = m0 + b * n.mb + h * n.group * n.mh;
  }
  DEVICE i64 rows() const { return n.s * n.group; }
  // Keys before this one may be seen by rows up to `row`.
  DEVICE i64 end(i64 row) const {
    if (!CAUSAL) return n.t;
    return max((i64)0, min(n.t, row / n.group + n.t - n.s + 1));
  }
};

// One row: its query, and which keys it sees. Made once; the divisions are slow.
struct Row {
  const T *query;
  const MaskType *mask;
  i64 end, result;  // keys before `end`; row of the result, (b, h, s) flattened
  DEVICE Row(const Head &h, i64 z, i64 row) {
    i64 i = row / h.n.group, head = row % h.n.group;
    query = h.q + i * h.n.qs + head * h.n.qh;
    mask = h.mask + i * h.n.ms + head * h.n.mh;
    end = row < h.rows() ? h.end(row) : 0;
    result = (z * h.n.group + head) * h.n.s + i;
  }
  // Score plus mask (times `unit`) of key `key0 + j`; -inf for a key that is not seen. `left` is
  // end - key0, cut to the range of an int.
  template <class A>
  DEVICE A seen(const Head &h, A score, i64 key0, int j, int left, A unit) const {
    bool keep = j < left;
#if MASK
    MaskType m = {};
    if (keep) m = mask[(key0 + j) * h.n.mt];
#endif
#if MASK == 1
    keep = keep && m;
#elif MASK == 2
    score += (A)to_float(m) * unit;
#endif
    return keep ? score : -infinity<A>();
  }
  DEVICE int left(i64 key0, int most) const { return (int)max((i64)0, min(end - key0, (i64)most)); }
};

// sum over keys first..last of weight(score) v[key][col], leaving out keys without weight: in the
// fast path they multiply a NaN or infinite value by 0. Slow; only for results that came out NaN.
template <class A, class F>
DEVICE A exact_sum(const Head &h, const Row &row, i64 col, i64 first, i64 last, A scale, A unit,
                   F weight) {
  A sum = 0;
#pragma unroll 1
  for (i64 key = first; key < last; key++) {
    A dot = 0;
#pragma unroll 1
    for (i64 i = 0; i < h.n.d; i++) dot += (A)to_float(row.query[i]) * to_float(h.k[key * h.n.ks + i]);
    A p = weight(row.seen(h, dot * scale, key, 0, row.left(key, 1), unit));
    if (p != (A)0) sum += p * to_float(h.v[key * h.n.vs + col]);
  }
  return sum;
}
