// Moving blocks of matrices into the scratch of a work-group, in the type sums are kept in.

inline AV lda(const __global A* p) { return VLOAD(0, p); }
inline void sta(AV x, __global A* p) { STORE_AV(x, p); }

// One butterfly stage of a transpose: rows d apart exchange blocks of d lanes.
#define SWAP8_LO(a, b) (AV)(a.s01234567, b.s01234567)
#define SWAP8_HI(a, b) (AV)(a.s89abcdef, b.s89abcdef)
#if VW == 16
#define SWAP4_LO(a, b) (AV)(a.s0123, b.s0123, a.s89ab, b.s89ab)
#define SWAP4_HI(a, b) (AV)(a.s4567, b.s4567, a.scdef, b.scdef)
#define SWAP2_LO(a, b) (AV)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd)
#define SWAP2_HI(a, b) (AV)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef)
#define SWAP1_LO(a, b) \
  (AV)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6, a.s8, b.s8, a.sa, b.sa, a.sc, b.sc, a.se, b.se)
#define SWAP1_HI(a, b) \
  (AV)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7, a.s9, b.s9, a.sb, b.sb, a.sd, b.sd, a.sf, b.sf)
#elif VW == 8
#define SWAP4_LO(a, b) (AV)(a.s0123, b.s0123)
#define SWAP4_HI(a, b) (AV)(a.s4567, b.s4567)
#define SWAP2_LO(a, b) (AV)(a.s01, b.s01, a.s45, b.s45)
#define SWAP2_HI(a, b) (AV)(a.s23, b.s23, a.s67, b.s67)
#define SWAP1_LO(a, b) (AV)(a.s0, b.s0, a.s2, b.s2, a.s4, b.s4, a.s6, b.s6)
#define SWAP1_HI(a, b) (AV)(a.s1, b.s1, a.s3, b.s3, a.s5, b.s5, a.s7, b.s7)
#else
#define SWAP2_LO(a, b) (AV)(a.s01, b.s01)
#define SWAP2_HI(a, b) (AV)(a.s23, b.s23)
#define SWAP1_LO(a, b) (AV)(a.s0, b.s0, a.s2, b.s2)
#define SWAP1_HI(a, b) (AV)(a.s1, b.s1, a.s3, b.s3)
#endif
#define STAGE(r, d)                                  \
  UNROLL for (int i_ = 0; i_ < VW; i_++) {           \
    if (!(i_ & d)) {                                 \
      AV a_ = r[i_], b_ = r[i_ + d];                 \
      r[i_] = CAT(CAT(SWAP, d), _LO)(a_, b_);        \
      r[i_ + d] = CAT(CAT(SWAP, d), _HI)(a_, b_);    \
    }                                                \
  }
#if VW == 16
#define TRANSPOSE(r) STAGE(r, 8) STAGE(r, 4) STAGE(r, 2) STAGE(r, 1)
#elif VW == 8
#define TRANSPOSE(r) STAGE(r, 4) STAGE(r, 2) STAGE(r, 1)
#else
#define TRANSPOSE(r) STAGE(r, 2) STAGE(r, 1)
#endif

// dst[i * ds + j] = src[i * rs + j], rows x cols; the inner axis contiguous on both sides.
// Columns up to the next multiple of VW are written as zeros.
inline void pack_rows(const __global S* src, long rs, int rows, int cols, __global A* dst, int ds) {
  int whole = cols - cols % VW;
  for (int i = 0; i < rows; i++) {
    const __global S* p = src + i * rs;
    __global A* o = dst + i * ds;
    for (int j = 0; j < whole; j += VW) sta(ldv(p + j), o + j);
    if (whole < cols) sta(ldv_part(p + whole, cols - whole, 0), o + whole);
  }
}

// dst[i * ds + j] = src[i + j * cs], rows x cols; the source contiguous along i. Columns up to
// the next multiple of VW are written as zeros; the last ones first, so that where ds is less than
// that, what falls into the next row is written over.
inline void pack_transposed(const __global S* src, long cs, int rows, int cols, __global A* dst,
                            int ds) {
  for (int i = 0; i < rows; i += VW) {
    int left = rows - i;
    for (int j = (cols - 1) / VW * VW; j >= 0; j -= VW) {
      AV r[VW];
      if (left >= VW && cols - j >= VW) {
        UNROLL for (int t = 0; t < VW; t++) r[t] = ldv(src + i + (j + t) * cs);
      } else {
        for (int t = 0; t < VW; t++)
          r[t] = j + t < cols ? ldv_part(src + i + (j + t) * cs, min(left, VW), 0) : (AV)(0);
      }
      TRANSPOSE(r)
      if (left >= VW) {
        UNROLL for (int t = 0; t < VW; t++) sta(r[t], dst + (i + t) * ds + j);
      } else {
        for (int t = 0; t < left; t++) sta(r[t], dst + (i + t) * ds + j);
      }
    }
  }
}

// Any strides, one element at a time; columns up to the next multiple of VW are zeros.
inline void pack_any(const __global S* src, long rs, long cs, int rows, int cols, __global A* dst,
                     int ds) {
  int padded = (cols + VW - 1) / VW * VW;
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < padded; j++) dst[i * ds + j] = j < cols ? LD(src + i * rs + j * cs) : 0;
}

__attribute__((noinline)) void pack(const __global S* src, long rs, long cs, int rows, int cols, __global A* dst,
                 int ds) {
  if (cs == 1) pack_rows(src, rs, rows, cols, dst, ds);
  else if (rs == 1) pack_transposed(src, cs, rows, cols, dst, ds);
  else pack_any(src, rs, cs, rows, cols, dst, ds);
}

// Ask for share `part` of `parts` of a block that is packed next: its rows lie far apart, which no
// prefetcher of the hardware foresees.
inline void ask_for(const __global S* src, long rs, long cs, int rows, int cols, int part, int parts) {
  const int line = 64 / sizeof(S);
  if (cs == 1) {
    for (int i = rows * part / parts; i < rows * (part + 1) / parts; i++)
      for (int j = 0; j < cols; j += line) ASK(src + i * rs + j);
  } else if (rs == 1) {
    for (int j = cols * part / parts; j < cols * (part + 1) / parts; j++)
      for (int i = 0; i < rows; i += line) ASK(src + i + j * cs);
  }
}

// Zeros in the vectors of each row from the first that starts beyond `used` up to `all`.
inline void clear_columns(__global A* dst, int rows, int used, int all) {
  for (int j = (used + VW - 1) / VW * VW; j < all; j += VW)
    for (int i = 0; i < rows; i++) sta((AV)(0), dst + i * all + j);
}

// Zeros in rows from..to, `cols` wide.
inline void clear_rows(__global A* dst, int from, int to, int cols, int ds) {
  for (int i = from; i < to; i++)
    for (int j = 0; j < cols; j++) dst[i * ds + j] = 0;
}
