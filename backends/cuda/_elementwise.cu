#include "_common.cuh"
// y = f(x) or f(x, z), element by element, on dense tensors.
// Macros: T; FUNCTION (0 gelu, 1 gelu_tanh, 2 silu(x) z); VEC elements an access.
typedef Accumulator<T>::type A;

DEVICE A apply(A x, A z) {
  if constexpr (FUNCTION == 0) return gelu(x);
  else if constexpr (FUNCTION == 1) return gelu_tanh(x);
  else return silu(x) * z;
}

KERNEL(256) elementwise(T *y, const T *x, const T *z, i64 total) {
  for (i64 i = (blockIdx.x * 256LL + threadIdx.x) * VEC; i < total; i += gridDim.x * 256LL * VEC) {
    if (i + VEC <= total) {
      A a[VEC], b[VEC];
      load_as<VEC>(a, x + i);
      if constexpr (FUNCTION == 2) load_as<VEC>(b, z + i);
      UNROLL
      for (int j = 0; j < VEC; j++) a[j] = apply(a[j], FUNCTION == 2 ? b[j] : (A)0);
      store_as<VEC>(y + i, a);
    } else {  // the last, incomplete access
      for (i64 j = i; j < total; j++)
        y[j] = from_float<T>(apply(to_float(x[j]), FUNCTION == 2 ? (A)to_float(z[j]) : (A)0));
    }
  }
}
