// Types, loads and stores shared by all kernels.
//
// S: storage type; A: the type sums are kept in; AV: a vector of VW of A. Half types are storage
// only: they are widened when loaded and rounded to nearest even when stored, so that devices
// without cl_khr_fp16 can run them. Offsets are `long`: a tensor may pass 2^31 elements.
#define CAT_(a, b) a##b
#define CAT(a, b) CAT_(a, b)
#define UNROLL _Pragma("unroll")

#ifndef VW
#define VW 4
#endif

#if defined(DT_F64)
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double S;
typedef double A;
typedef long I;
#define A_ double
#define I_ long
#define S_ double
#elif defined(DT_F16)
typedef ushort S;
typedef float A;
typedef int I;
#define A_ float
#define I_ int
#define S_ ushort
#elif defined(DT_BF16)
typedef ushort S;
typedef float A;
typedef int I;
#define A_ float
#define I_ int
#define S_ ushort
#else
typedef float S;
typedef float A;
typedef int I;
#define A_ float
#define I_ int
#define S_ float
#endif

typedef CAT(A_, VW) AV;
typedef CAT(I_, VW) IV;
typedef CAT(S_, VW) SV;
#define TO_AV CAT(convert_, CAT(A_, VW))
#define TO_IV CAT(convert_, CAT(I_, VW))
#define TO_SV CAT(convert_, CAT(S_, VW))
#define AS_AV CAT(as_, CAT(A_, VW))
#define AS_IV CAT(as_, CAT(I_, VW))
#define AS_SV CAT(as_, CAT(S_, VW))
// Clang's own conversion is one instruction; some drivers' convert_* are loops over elements.
#if defined(__clang__) && defined(__has_builtin)
#if __has_builtin(__builtin_convertvector)
#define CONVERT(T, x) __builtin_convertvector(x, T)
#endif
#endif
#ifndef CONVERT
#define CONVERT(T, x) CAT(convert_, T)(x)
#endif
#define VLOAD CAT(vload, VW)
#define VSTORE CAT(vstore, VW)
// One store of a vector to where only its elements are aligned: PoCL's vstore16 is four of them.
#if defined(__clang__)
typedef AV AV_ANYWHERE __attribute__((aligned(sizeof(A))));
typedef CAT(ushort, VW) HV_ANYWHERE __attribute__((aligned(2)));
#define STORE_AV(x, p) (*(__global AV_ANYWHERE*)(p) = (x))
#define STORE_HV(x, p) (*(__global HV_ANYWHERE*)(p) = (x))
#else
#define STORE_AV(x, p) VSTORE(x, 0, p)
#define STORE_HV(x, p) VSTORE(x, 0, p)
#endif

// ---- one element
inline A widen(S x) {
#if defined(DT_BF16)
  return as_float((uint)x << 16);
#elif defined(DT_F16)
  return vload_half(0, (const half*)&x);
#else
  return x;
#endif
}

inline S narrow(A x) {
#if defined(DT_BF16)
  uint u = as_uint(x);
  uint r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (S)(isnan(x) ? ((u >> 16) | 0x40u) : r);
#elif defined(DT_F16)
  S out;
  vstore_half_rte(x, 0, (half*)&out);
  return out;
#else
  return x;
#endif
}

// The value a result of type S has: what a later pass over the stored result would read.
inline A rounded(A x) { return widen(narrow(x)); }

#define LD(p) widen(*(p))
#define ST(x, p) (*(p) = narrow(x))

// ---- VW elements (VW is 4, 8 or 16)
#define UV CAT(uint, VW)
#define HV CAT(ushort, VW)
#if !defined(DT_F16)
inline AV widen_v(SV x) {
#if defined(DT_BF16)
  return AS_AV(CONVERT(UV, x) << 16);
#else
  return x;
#endif
}
#endif

inline AV ldv(const __global S* p) {
#if defined(DT_F16)
  return CAT(vload_half, VW)(0, (const __global half*)p);
#else
  return widen_v(VLOAD(0, p));
#endif
}

#if defined(DT_BF16)
inline HV narrow_v(AV x) {
  UV u = CAT(as_, UV)(x);
  UV r = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  UV nan = (u >> 16) | 0x40u;
  r = (x != x) ? nan : r;
  return CONVERT(HV, r);
}
#endif

inline void stv(AV x, __global S* p) {
#if defined(DT_BF16)
  STORE_HV(narrow_v(x), p);
#elif defined(DT_F16)
  CAT(vstore_half, CAT(VW, _rte))(x, 0, (__global half*)p);
#else
  STORE_AV(x, p);
#endif
}

// Results beyond every cache (-DSTREAM): stored past the caches, so that no line is read only to be
// overwritten. That needs whole lines: an address that is a multiple of 64, asked by ALIGNED.
#if defined(STREAM) && defined(__has_builtin) && !defined(DT_F16)
#if __has_builtin(__builtin_nontemporal_store)
#define ALIGNED(p) (((size_t)(p) & 63) == 0)
#if defined(DT_BF16)
inline void put_past(AV x, __global S* p) {
  __builtin_nontemporal_store(narrow_v(x), (__global HV*)p);
}
#else
inline void put_past(AV x, __global S* p) { __builtin_nontemporal_store(x, (__global AV*)p); }
#endif
#endif
#endif
#ifndef ALIGNED
#define ALIGNED(p) 0
#define put_past stv
#endif

// The first `n` < VW elements; the other lanes get `pad`.
inline AV ldv_part(const __global S* p, int n, A pad) {
  A lane[VW];
  for (int i = 0; i < VW; i++) lane[i] = pad;
  for (int i = 0; i < n; i++) lane[i] = LD(p + i);
  return VLOAD(0, lane);
}

inline void stv_part(AV x, __global S* p, int n) {
  A lane[VW];
  VSTORE(x, 0, lane);
  for (int i = 0; i < n; i++) ST(lane[i], p + i);
}

inline A sum_v(AV x) {
#if VW == 16
  CAT(A_, 8) x8 = x.lo + x.hi;
  CAT(A_, 4) x4 = x8.lo + x8.hi;
#elif VW == 8
  CAT(A_, 4) x4 = x.lo + x.hi;
#else
  CAT(A_, 4) x4 = x;
#endif
  return (x4.x + x4.z) + (x4.y + x4.w);
}

// NaN wins, as in NumPy's maximum.
inline AV max_nan_v(AV a, AV b) { return (a >= b || a != a) ? a : b; }
inline A max_nan(A a, A b) { return (a >= b || a != a) ? a : b; }

// The larger, for rows in which a NaN shows up elsewhere (in the sum of exponentials).
inline AV larger_v(AV a, AV b) { return a > b ? a : b; }

inline A max_v(AV x) {
#if VW == 16
  CAT(A_, 8) x8 = (x.lo >= x.hi || x.lo != x.lo) ? x.lo : x.hi;
  CAT(A_, 4) x4 = (x8.lo >= x8.hi || x8.lo != x8.lo) ? x8.lo : x8.hi;
#elif VW == 8
  CAT(A_, 4) x4 = (x.lo >= x.hi || x.lo != x.lo) ? x.lo : x.hi;
#else
  CAT(A_, 4) x4 = x;
#endif
  return max_nan(max_nan(x4.x, x4.y), max_nan(x4.z, x4.w));
}

// The largest of n contiguous elements, two operations a vector. `doubt` becomes NaN when there is
// a NaN or an infinity among them: then a NaN may have been passed over.
inline A max_run(const __global S* p, long n, A* doubt) {
  AV m0 = (AV)(-INFINITY), m1 = m0, m2 = m0, m3 = m0;
  AV d0 = (AV)(0), d1 = d0, d2 = d0, d3 = d0;
  long i = 0;
  for (; i + 4 * VW <= n; i += 4 * VW) {
    AV x0 = ldv(p + i), x1 = ldv(p + i + VW), x2 = ldv(p + i + 2 * VW), x3 = ldv(p + i + 3 * VW);
    m0 = larger_v(x0, m0); d0 = fma(x0, (AV)(0), d0);
    m1 = larger_v(x1, m1); d1 = fma(x1, (AV)(0), d1);
    m2 = larger_v(x2, m2); d2 = fma(x2, (AV)(0), d2);
    m3 = larger_v(x3, m3); d3 = fma(x3, (AV)(0), d3);
  }
  for (; i < n; i += VW) {
    AV x = i + VW <= n ? ldv(p + i) : ldv_part(p + i, (int)(n - i), LD(p + i));
    m0 = larger_v(x, m0); d0 = fma(x, (AV)(0), d0);
  }
  *doubt = sum_v((d0 + d1) + (d2 + d3));
  return max_v(larger_v(larger_v(m0, m1), larger_v(m2, m3)));
}

// ---- exp, to about 1 ulp, the same bits on every driver (float); the driver's own for double.
// Results below the smallest normal number are 0.
#if defined(DT_F64)
inline AV exp_v(AV x) { return exp(x); }
inline A exp_(A x) { return exp(x); }
#define exp_negative_v exp_v
#else
// x = n ln 2 + r. Adding 1.5 2^23 rounds n to an integer whose low bits become the exponent.
#define EXP_REDUCED(T, ASI, ASF, c, bias)                       \
  T t = fma(c, (T)(1.44269504088896341f), (T)(12582912.0f));    \
  T n = t - 12582912.0f;                                        \
  T r = fma(n, (T)(-0.693145751953125f), c);                    \
  r = fma(n, (T)(-1.42860682030941723212e-6f), r);              \
  T p = (T)(1.9875691500e-4f);                                  \
  p = fma(p, r, (T)(1.3981999507e-3f));                         \
  p = fma(p, r, (T)(8.3334519073e-3f));                         \
  p = fma(p, r, (T)(4.1665795894e-2f));                         \
  p = fma(p, r, (T)(1.6666665459e-1f));                         \
  p = fma(p, r, (T)(5.0000001201e-1f));                         \
  p = fma(p, r * r, r) + 1.0f;                                  \
  p = p * ASF((ASI(t) + (bias)) << 23);
// NaN passes every comparison as false and stays NaN.
#define EXP_ANY(T, ASI, ASF, ZEROED)                            \
  T c = x < -86.0f ? (T)(-86.0f) : x;                           \
  c = c > 89.0f ? (T)(89.0f) : c;                               \
  EXP_REDUCED(T, ASI, ASF, c, 126)                              \
  p = p + p; /* 2^128 itself has no exponent: 2^127 doubled */  \
  return ZEROED(p, x < -86.0f);
// A vector comparison is a mask; a select on it here trips a defect of Oclgrind 21.10.
#define ZEROED_V(p, mask) AS_AV(AS_IV(p) & ~(mask))
#define ZEROED_S(p, is) ((is) ? 0.0f : (p))
#define EXP_NEGATIVE(T, ASI, ASF, ZEROED)                       \
  T c = x < -87.0f ? (T)(-87.0f) : x;                           \
  EXP_REDUCED(T, ASI, ASF, c, 127)                              \
  return ZEROED(p, x < -87.0f);
inline AV exp_v(AV x) { EXP_ANY(AV, AS_IV, AS_AV, ZEROED_V) }
inline A exp_(A x) { EXP_ANY(A, as_int, as_float, ZEROED_S) }
// For x <= 0 only.
inline AV exp_negative_v(AV x) { EXP_NEGATIVE(AV, AS_IV, AS_AV, ZEROED_V) }
#endif

// ---- work-group reductions; a group is one work-item on CPUs (LOCAL == 1)
#ifndef LOCAL
#define LOCAL 1
#endif
#if LOCAL > 1
#define REDUCTION_MEMORY __local A lds_[LOCAL];
#define REDUCE(OP, x)                                        \
  {                                                          \
    int i_ = get_local_id(0);                                \
    barrier(CLK_LOCAL_MEM_FENCE);                            \
    lds_[i_] = (x);                                          \
    for (int d_ = LOCAL / 2; d_ > 0; d_ >>= 1) {             \
      barrier(CLK_LOCAL_MEM_FENCE);                          \
      if (i_ < d_) lds_[i_] = OP(lds_[i_], lds_[i_ + d_]);   \
    }                                                        \
    barrier(CLK_LOCAL_MEM_FENCE);                            \
    (x) = lds_[0];                                           \
  }
#else
#define REDUCTION_MEMORY
#define REDUCE(OP, x)
#endif
#define ADD_(a, b) ((a) + (b))

// Tasks of this group: a run of neighbours on CPUs, whose prefetchers follow it; every n-th of them
// elsewhere.
#if LOCAL > 1
#define FOR_TASKS(t, count) for (long t = get_group_id(0); t < (count); t += get_num_groups(0))
#else
#define FOR_TASKS(t, count)                                             \
  for (long t = (count) * (long)get_group_id(0) / (long)get_num_groups(0), \
            t##_to = (count) * (long)(get_group_id(0) + 1) / (long)get_num_groups(0); \
       t < t##_to; t++)
#endif

// Ask for the cache line of an address that is read soon.
#if defined(PREFETCH) && defined(__has_builtin)
#if __has_builtin(__builtin_prefetch)
#define ASK(p) __builtin_prefetch((const void*)(size_t)(p))
#endif
#endif
#ifndef ASK
#define ASK(p)
#endif

// A group of one item holds nothing to vectorise across. Intel's compiler tries all the same, for
// seconds a program, unless it is told; others do not know the attribute and leave it out.
#if LOCAL == 1
#define ALONE __attribute__((intel_vec_len_hint(1)))
#else
#define ALONE
#endif
#define KERNEL __kernel __attribute__((reqd_work_group_size(LOCAL, 1, 1))) ALONE
