#include "_common.cuh"
// Puts the parts of a split attention together: o = sum w_s partial_s / sum w_s sum_s with
// w_s = exp(top_s - top). Macros: T; BASE2 (1: maxima are in units of log2).
typedef Accumulator<T>::type A;
KERNEL(256) attention_combine(T *o, const A *partial, const A *stats, i64 rows, i64 dv, i64 splits) {
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < rows * dv; i += gridDim.x * 256LL) {
    i64 row = i / dv;
    A top = -infinity<A>(), sum = 0, x = 0;
    for (i64 s = 0; s < splits; s++) top = maximum(top, stats[(s * rows + row) * 2]);
    for (i64 s = 0; s < splits; s++) {
      A part = stats[(s * rows + row) * 2 + 1], below = stats[(s * rows + row) * 2] - top;
      A weight = part == (A)0 ? (A)0 : exp_of(BASE2 ? below * (A)0.69314718055994530942 : below);
      if (weight != (A)0) {  // a part without weight may hold NaN or infinity
        sum += weight * part;
        x += weight * partial[s * rows * dv + i];
      }
    }
    o[i] = from_float<T>(sum == (A)0 ? (A)0 : x / sum);
  }
}
