// Scales of a quantized product. Put after _common.cuh.
// scale_a(row, k) = a[row * ar + k / block * ak]; scale_b(k, col) = b[k / block * bk + col / width * bn]:
// a stride is 0 along an axis where the scale does not change.
struct Scales {
  const float *a, *b;
  i64 ar, ak, bk, bn, width, block;
  DEVICE float row(i64 r, i64 k) const { return a[r * ar + k / block * ak]; }
  DEVICE float col(i64 k, i64 c) const { return b[k / block * bk + c / width * bn]; }
};
#define SCALE_ARGUMENTS \
  const float *scale_a, const float *scale_b, i64 ar, i64 ak, i64 bk, i64 bn, i64 width, i64 block
#define SCALE_VALUES { scale_a, scale_b, ar, ak, bk, bn, width, block }
