#include "_common.cuh"
// C = act(sum over splits of partial (splits, total) + bias) + residual: the second half of a
// product whose k axis was split. Macros: T, ACT, BIAS, RESIDUAL.
typedef Accumulator<T>::type A;
KERNEL(256) gemm_finish(T *c, const A *partial, const T *bias, const T *residual, i64 total, i64 n,
                        i64 splits) {
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < total; i += gridDim.x * 256LL) {
    A sum = partial[i];
    for (i64 s = 1; s < splits; s++) sum += partial[s * total + i];
    c[i] = finish<ACT, BIAS, RESIDUAL>(sum, bias, residual, i / n, i % n, n);
  }
}
