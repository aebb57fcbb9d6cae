#include "_common.cuh"
// y[i] = table[indices[i]]: rows are copied in accesses of VEC elements.
// Macros: T (an unsigned type of the element's size), I (type of the indices), VEC.
// table (n, d) with strides; indices and y dense. A row outside of the table becomes zeros.
KERNEL(256) gather_rows(T *y, const T *table, const I *indices, i64 total, i64 n, i64 d, i64 row_step,
                        i64 col_step) {
  i64 each = d / VEC;
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < total; i += gridDim.x * 256LL) {
    i64 row = (i64)indices[i / each], col = i % each * VEC;
    Pack<T, VEC> x = {};
    if (row >= 0 && row < n) {
      const T *from = table + row * row_step + col * col_step;
      if constexpr (VEC > 1) x = load<VEC>(from);
      else x.v[0] = *from;
    }
    store<VEC>(y + i * VEC, x);
  }
}
