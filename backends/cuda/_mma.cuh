// Matrix units: mma.sync, ldmatrix and cp.async as small functions, and the one tile loader.
// Put after _common.cuh before the sources that use them. NVIDIA only (and the emulation).
//
// Fragments of m16n8k16, with g = lane / 4 and t = lane % 4:
//   a[0] rows g,   k 2t..2t+1    a[1] rows g+8 (same k)    a[2], a[3] the same with k + 8
//   b[0] k 2t..2t+1, column g    b[1] the same with k + 8
//   d[0], d[1] row g, columns 2t, 2t+1    d[2], d[3] row g+8

DEVICE u32 pack_bits(u16 low, u16 high) { return (u32)low | (u32)high << 16; }

#if defined(PORTABLE_EMULATE)
DEVICE float exp2_fast(float x) { return exp2f(x); }
#if ARCH >= 800
DEVICE void mma(float *d, const u32 *a, const u32 *b, f16) { emulate::mma_f16(d, a, b); }
DEVICE void mma(int *d, const u32 *a, const u32 *b, i8) { emulate::mma_s8(d, a, b); }
#else
DEVICE void mma_k8(float *d, u32 a0, u32 a1, u32 b) { emulate::mma_k8(d, a0, a1, b); }
DEVICE void mma_m8(int *d, u32 a, u32 b) { emulate::mma_m8(d, a, b); }
#endif
DEVICE void mma(float *d, const u32 *a, const u32 *b, bf16) { emulate::mma_bf16(d, a, b); }
DEVICE void mma(float *d, const u32 *a, const u32 *b, float) { emulate::mma_tf32(d, a, b); }
DEVICE void mma(double *d, double a, double b) { emulate::mma_f64(d, a, b); }
DEVICE u32 to_tf32(float x) { return __float_as_uint(x) + 0x1000 & 0xFFFFE000; }
template <bool TRANS> DEVICE void ldmatrix4(u32 *r, const void *row) {
  emulate::ldmatrix(r, 4, TRANS, row);
}
DEVICE void async_copy16(void *to, const void *from, bool valid) {
  emulate::async_copy(to, from, valid ? 16 : 0, 16);
}
DEVICE void async_commit() { emulate::async_commit(); }
template <int N> DEVICE void async_wait() { emulate::async_wait(N); }
#else
DEVICE float exp2_fast(float x) {  // 2 ulp, one instruction
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
DEVICE u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

#if ARCH < 800
// What sm_75 has: m16n8k8 and m8n8k16, parts of the shapes above.
DEVICE void mma_k8(float *d, u32 a0, u32 a1, u32 b) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6},"
      " {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b));
}
DEVICE void mma_m8(int *d, u32 a, u32 b) {
  asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+r"(d[0]), "+r"(d[1]) : "r"(a), "r"(b));
}
#endif
#if ARCH >= 800
DEVICE void mma(float *d, const u32 *a, const u32 *b, f16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
#if ARCH >= 800
DEVICE void mma(float *d, const u32 *a, const u32 *b, bf16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// m16n8k32: a register holds 4 consecutive k.
DEVICE void mma(int *d, const u32 *a, const u32 *b, i8) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// m16n8k8: a[0] (g, t), a[1] (g+8, t), a[2] (g, t+4), a[3] (g+8, t+4); b[0] (t, g), b[1] (t+4, g).
DEVICE void mma(float *d, const u32 *a, const u32 *b, float) {
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9},"
      " {%0,%1,%2,%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// m8n8k4: a (g, t), b (t, g), d (g, 2t..2t+1).
DEVICE void mma(double *d, double a, double b) {
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
      : "+d"(d[0]), "+d"(d[1]) : "d"(a), "d"(b));
}
DEVICE u32 to_tf32(float x) {
  u32 y;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(y) : "f"(x));
  return y;
}
#endif
// Four 8x8 matrices of 16-bit elements; lane i gives the address of row i % 8 of matrix i / 8.
template <bool TRANS> DEVICE void ldmatrix4(u32 *r, const void *row) {
  if (TRANS)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
}
// 16 bytes from global to shared memory; zeros when not valid (nothing is read then).
DEVICE void async_copy16(void *to, const void *from, bool valid) {
#if ARCH >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :: "r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0) : "memory");
#else
  struct alignas(16) Quad { u32 v[4]; };
  Quad x = {{0, 0, 0, 0}};
  if (valid) x = *reinterpret_cast<const Quad *>(from);
  *reinterpret_cast<Quad *>(to) = x;
#endif
}
DEVICE void async_commit() {
#if ARCH >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int N> DEVICE void async_wait() {
#if ARCH >= 800
  asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#endif
}
#endif

#if ARCH < 800
DEVICE void mma(float *d, const u32 *a, const u32 *b, f16) {
  mma_k8(d, a[0], a[1], b[0]);
  mma_k8(d, a[2], a[3], b[1]);
}
DEVICE void mma(int *d, const u32 *a, const u32 *b, i8) {
  for (int h = 0; h < 4; h++)  // h % 2: rows 0..7 or 8..15; h / 2: k 0..15 or 16..31
    mma_m8(d + h % 2 * 2, a[h], b[h / 2]);
}
#endif

// Two e4m3 values (first in the low byte) as two f16, exactly.
DEVICE u32 e4m3x2_to_f16x2(u32 two) {
#if defined(PORTABLE_EMULATE)
  return pack_bits(emulate::float_to_half(emulate::e4m3_to_float(two & 0xFF)),
                   emulate::float_to_half(emulate::e4m3_to_float(two >> 8 & 0xFF)));
#elif ARCH >= 890
  u32 y;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(y) : "h"((u16)two));
  return y;
#else
  // As the top bits of f16 (exponent bias 15), times 2^(15 - 7); 0x7F stays NaN.
  u32 low = two & 0x7F, high = two >> 8 & 0x7F, y;
  u32 bits = low << 7 | high << 23;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(y) : "r"(bits), "r"(0x5C005C00u));
  if (low == 0x7F) y |= 0x7FFF;
  if (high == 0x7F) y |= 0x7FFF0000;
  return y | (two & 0x80) << 8 | (two & 0x8000) << 16;
#endif
}

// Two halves in one register, the first in the low bits.
template <class T> DEVICE u32 pack2(float low, float high) {
  return pack_bits(from_float<T>(low).bits, from_float<T>(high).bits);
}

// A tile of ROWS x COLS elements from global memory (row stride `stride`, columns adjacent) into
// shared memory with PITCH elements a row. Only rows < `rows` and columns < `cols` exist; the rest
// becomes zero. VECTOR: rows start on 16 bytes and `cols` is a multiple of a 16-byte access, so
// the copy is asynchronous; otherwise elements are stored one by one.
template <int THREADS, int ROWS, int COLS, int PITCH, bool VECTOR, class T>
DEVICE void load_tile(T *tile, const T *from, i64 stride, i64 rows, i64 cols) {
  if (VECTOR) {
    constexpr int N = 16 / sizeof(T), PER_ROW = COLS / N;
    UNROLL
    for (int i = threadIdx.x; i < ROWS * PER_ROW; i += THREADS) {
      int row = i / PER_ROW, col = i % PER_ROW * N;
      bool valid = row < rows && col < cols;
      async_copy16(tile + row * PITCH + col, valid ? from + row * stride + col : from, valid);
    }
  } else {
    for (int i = threadIdx.x; i < ROWS * COLS; i += THREADS) {
      int row = i / COLS, col = i % COLS;
      T x = {};
      if (row < rows && col < cols) x = from[row * stride + col];
      tile[row * PITCH + col] = x;
    }
  }
}
