// Put before every kernel source: types, memory access and warp operations for three compilers:
// CUDA (NVRTC, no headers needed), HIP (hipRTC), and g++ with the tests' emulation header.
//
// From the host, before this file: ARCH (compute capability x 100: 8.0 is 800; 0 for HIP) and WARP
// (threads of a warp). After the headers: the macros each source names, types as typedefs (T).
// Kernel arguments are pointers, i64 (sizes and strides in elements) and double, nothing else.
typedef long long i64;
typedef unsigned long long u64;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef signed char i8;

#ifndef WARP
#define WARP 32
#endif
#ifndef ARCH
#define ARCH 0
#endif

#define DEVICE __device__ __forceinline__
#if defined(PORTABLE_EMULATE)
#define KERNEL(threads) void
#define DYNAMIC_SHARED(name) unsigned char *name = emulate::dynamic_shared
#define UNROLL
#elif defined(__HIP__) || defined(__HIPCC_RTC__)
#define PORTABLE_HIP 1
#define DYNAMIC_SHARED(name) extern __shared__ __attribute__((aligned(128))) unsigned char name[]
#define UNROLL _Pragma("unroll")
#else
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) unsigned char name[]
#define UNROLL _Pragma("unroll")
#endif

#if !defined(PORTABLE_EMULATE)
// One resident block is enough for the compiler: it must not spill registers to fit in more.
#define KERNEL(threads) extern "C" __global__ void __launch_bounds__(threads, 1)
#endif

// ---- element types: storage only; arithmetic is in float or double -------------------------
struct alignas(2) f16 { u16 bits; };
struct alignas(2) bf16 { u16 bits; };
struct f8e4m3 { u8 bits; };

DEVICE float to_float(f16 x) {
#if defined(PORTABLE_EMULATE)
  return emulate::half_to_float(x.bits);
#elif defined(PORTABLE_HIP)
  return (float)__builtin_bit_cast(_Float16, x.bits);
#else
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
#endif
}
DEVICE float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
DEVICE float to_float(f8e4m3 x) {  // S.EEEE.MMM, bias 7, no infinity, 0x7F is NaN
  u32 sign = (u32)(x.bits & 0x80) << 24, low = x.bits & 0x7F;
  if (low == 0x7F) return __uint_as_float(0x7FC00000);
  // As the top bits of a float with exponent bias 127, then scaled by 2^(127 - 7); exact.
  return __uint_as_float(sign | (low << 20)) * 1.329227995784916e36f;
}
DEVICE float to_float(float x) { return x; }
DEVICE double to_float(double x) { return x; }
DEVICE i64 to_float(i64 x) { return x; }
DEVICE i64 to_float(int x) { return x; }
DEVICE i64 to_float(short x) { return x; }
DEVICE i64 to_float(i8 x) { return x; }
DEVICE i64 to_float(u8 x) { return x; }
DEVICE i64 to_float(u16 x) { return x; }
DEVICE i64 to_float(u32 x) { return x; }
DEVICE u64 to_float(u64 x) { return x; }
DEVICE i64 to_float(bool x) { return x; }

template <class T> struct Convert {
  template <class A> static DEVICE T from(A x) { return (T)x; }
};
template <> struct Convert<f16> {
  static DEVICE f16 from(float x) {
    f16 y;
#if defined(PORTABLE_EMULATE)
    y.bits = emulate::float_to_half(x);
#elif defined(PORTABLE_HIP)
    y.bits = __builtin_bit_cast(u16, (_Float16)x);
#else
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#endif
    return y;
  }
};
template <> struct Convert<bf16> {
  static DEVICE bf16 from(float x) {
    bf16 y;
#if defined(PORTABLE_EMULATE)
    y.bits = emulate::float_to_bfloat(x);
#elif ARCH >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
    u32 b = __float_as_uint(x);  // nearest, ties to even; NaN stays NaN
    y.bits = (b & 0x7FFFFFFF) > 0x7F800000 ? 0x7FFF : (u16)((b + 0x7FFF + ((b >> 16) & 1)) >> 16);
#endif
    return y;
  }
};
template <class T, class A> DEVICE T from_float(A x) { return Convert<T>::from(x); }

// The type sums are kept in.
template <class T> struct Accumulator { typedef i64 type; };
template <> struct Accumulator<f16> { typedef float type; };
template <> struct Accumulator<bf16> { typedef float type; };
template <> struct Accumulator<f8e4m3> { typedef float type; };
template <> struct Accumulator<float> { typedef float type; };
template <> struct Accumulator<double> { typedef double type; };
template <> struct Accumulator<u64> { typedef u64 type; };

template <class T> DEVICE T infinity();
template <> DEVICE float infinity<float>() { return __uint_as_float(0x7F800000); }
template <> DEVICE double infinity<double>() { return __longlong_as_double(0x7FF0000000000000LL); }
template <class T> DEVICE bool is_nan(T x) { return x != x; }
template <class T> DEVICE T maximum(T a, T b) { return a > b ? a : b; }
// NumPy's maximum: NaN if either is.
template <class T> DEVICE T nan_maximum(T a, T b) { return a > b || a != a ? a : b; }

DEVICE float exp_of(float x) { return expf(x); }
DEVICE double exp_of(double x) { return exp(x); }
DEVICE float log_of(float x) { return logf(x); }
DEVICE double log_of(double x) { return log(x); }
DEVICE float sqrt_of(float x) { return sqrtf(x); }
DEVICE double sqrt_of(double x) { return sqrt(x); }
DEVICE float tanh_of(float x) { return tanhf(x); }
DEVICE double tanh_of(double x) { return tanh(x); }
DEVICE float erf_of(float x) { return erff(x); }
DEVICE double erf_of(double x) { return erf(x); }
DEVICE float erfc_of(float x) { return erfcf(x); }
DEVICE double erfc_of(double x) { return erfc(x); }

// ---- activations ----------------------------------------------------------------------------
enum { ACT_NONE, ACT_RELU, ACT_GELU, ACT_GELU_TANH, ACT_SILU };
template <class A> DEVICE A silu(A x) { return x / ((A)1 + exp_of(-x)); }
// x Phi(x); erfc keeps the relative accuracy of the left tail.
template <class A> DEVICE A gelu(A x) {
  return (A)0.5 * x * erfc_of(-x * (A)0.70710678118654752440);
}
// 0.5 x (1 + tanh u) = x / (1 + exp(-2u)) without the cancellation of 1 + tanh near -1.
template <class A> DEVICE A gelu_tanh(A x) {
  A u = (A)0.79788456080286535588 * (x + (A)0.044715 * x * x * x);
  return x / ((A)1 + exp_of((A)-2 * u));
}
template <int ACT, class A> DEVICE A activate(A x) {
  if constexpr (ACT == ACT_RELU) return x > (A)0 || is_nan(x) ? x : (A)0;
  else if constexpr (ACT == ACT_GELU) return gelu(x);
  else if constexpr (ACT == ACT_GELU_TANH) return gelu_tanh(x);
  else if constexpr (ACT == ACT_SILU) return silu(x);
  else return x;
}

// ---- N elements that move in one access -----------------------------------------------------
template <class T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };
template <int N, class T> DEVICE Pack<T, N> load(const T *p) {
#if defined(PORTABLE_EMULATE)
  emulate::check_aligned(p, sizeof(T) * N);
#endif
  return *reinterpret_cast<const Pack<T, N> *>(p);
}
template <int N, class T> DEVICE void store(T *p, const Pack<T, N> &x) {
#if defined(PORTABLE_EMULATE)
  emulate::check_aligned(p, sizeof(T) * N);
#endif
  *reinterpret_cast<Pack<T, N> *>(p) = x;
}

// N elements as numbers of type A, in accesses of at most 16 bytes.
template <int N, class T, class A> DEVICE void load_as(A *v, const T *p) {
  constexpr int W = N * sizeof(T) <= 16 ? N : 16 / sizeof(T);
  UNROLL
  for (int i = 0; i < N; i += W) {
    Pack<T, W> x = load<W>(p + i);
    UNROLL
    for (int j = 0; j < W; j++) v[i + j] = to_float(x.v[j]);
  }
}
template <int N, class T, class A> DEVICE void store_as(T *p, const A *v) {
  Pack<T, N> x;
  UNROLL
  for (int j = 0; j < N; j++) x.v[j] = from_float<T>(v[j]);
  store<N>(p, x);
}

// ---- warps and blocks -----------------------------------------------------------------------
template <class T> DEVICE T shuffle_xor(T x, int mask) {
#if defined(PORTABLE_EMULATE)
  return emulate::shuffle(x, emulate::lane() ^ mask);
#elif defined(PORTABLE_HIP)
  return __shfl_xor(x, mask, WARP);
#else
  return __shfl_xor_sync(0xFFFFFFFFu, x, mask);
#endif
}
// The value of the lane `delta` below; the lanes below `delta` get their own.
template <class T> DEVICE T shuffle_up(T x, int delta) {
#if defined(PORTABLE_EMULATE)
  return emulate::shuffle(x, emulate::lane() < delta ? emulate::lane() : emulate::lane() - delta);
#elif defined(PORTABLE_HIP)
  return __shfl_up(x, delta, WARP);
#else
  return __shfl_up_sync(0xFFFFFFFFu, x, delta);
#endif
}

struct Sum { template <class T> DEVICE T operator()(T a, T b) const { return a + b; } };
struct Max { template <class T> DEVICE T operator()(T a, T b) const { return maximum(a, b); } };
struct NanMax { template <class T> DEVICE T operator()(T a, T b) const { return nan_maximum(a, b); } };

// Combines over groups of WIDTH neighbouring lanes; every lane gets the result.
template <int WIDTH, class T, class F> DEVICE T group_reduce(T x, F f) {
  UNROLL
  for (int mask = WIDTH / 2; mask > 0; mask /= 2) x = f(x, shuffle_xor(x, mask));
  return x;
}
// Combines over all THREADS of the block; every thread gets the result. Starts and ends with a
// barrier's guarantee that `scratch` is free for the next call.
template <int THREADS, class T, class F> DEVICE T block_reduce(T x, F f, T *scratch) {
  x = group_reduce<WARP>(x, f);
  if (THREADS == WARP) return x;
  if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = x;
  __syncthreads();
  x = scratch[0];
  for (int i = 1; i < THREADS / WARP; i++) x = f(x, scratch[i]);
  __syncthreads();
  return x;
}

// ---- the end of a matrix product: act(sum + bias) + residual, rounded once -------------------
template <int ACT, bool BIAS, bool RESIDUAL, class T, class A>
DEVICE T finish(A sum, const T *bias, const T *residual, i64 row, i64 col, i64 n) {
  if constexpr (BIAS) sum += to_float(bias[col]);
  sum = activate<ACT>(sum);
  if constexpr (RESIDUAL) sum += to_float(residual[row * n + col]);
  return from_float<T>(sum);
}

// ---- rows: GROUP threads share one (a warp each, or the whole block) --------------------------
template <class A> struct Pair { A a, b; };
template <class A> DEVICE Pair<A> shuffle_xor(Pair<A> x, int mask) {
  return Pair<A>{shuffle_xor(x.a, mask), shuffle_xor(x.b, mask)};
}
template <class A> struct Triple { A a, b, c; };
template <class A> DEVICE Triple<A> shuffle_xor(Triple<A> x, int mask) {
  return Triple<A>{shuffle_xor(x.a, mask), shuffle_xor(x.b, mask), shuffle_xor(x.c, mask)};
}
template <int GROUP, class T, class F> DEVICE T row_reduce(T x, F f, T *scratch) {
  if (GROUP <= WARP) return group_reduce<GROUP>(x, f);
  return block_reduce<GROUP>(x, f, scratch);
}

// Running (maximum a, sum b of exp(x - a)): softmax in one reading. -inf adds nothing.
template <class A> DEVICE A weight_of(A x, A top) {
  return x == -infinity<A>() ? (A)0 : exp_of(x - top);
}
struct SoftmaxMerge {
  template <class A> DEVICE Pair<A> operator()(Pair<A> x, Pair<A> y) const {
    A top = maximum(x.a, y.a);
    return Pair<A>{top, x.b * weight_of(x.a, top) + y.b * weight_of(y.a, top)};
  }
};
template <class A> DEVICE void softmax_add(Pair<A> &run, A x) {
  A top = maximum(run.a, x);
  run.b = run.b * weight_of(run.a, top) + weight_of(x, top);
  run.a = top;
}
