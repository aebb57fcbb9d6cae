/* Independent figures for `python -m bench.roofs`: FMA rate and STREAM triad, plain C with OpenMP. */
#include <stddef.h>

#define LANES 16
#define CHAINS 12
typedef float vec __attribute__((vector_size(LANES * 4)));

/* 2 * LANES * CHAINS * rounds * threads floating-point operations. */
float fma_rounds(long rounds, int threads) {
  float total = 0;
#pragma omp parallel for num_threads(threads) reduction(+ : total)
  for (int t = 0; t < threads; t++) {
    vec c[CHAINS], half, one;
    for (int l = 0; l < LANES; l++) half[l] = 0.5f, one[l] = 1.0f;
    for (int i = 0; i < CHAINS; i++)
      for (int l = 0; l < LANES; l++) c[i][l] = (float)(i + l + t);
    for (long r = 0; r < rounds; r++) {
#pragma GCC unroll 12
      for (int i = 0; i < CHAINS; i++) c[i] = c[i] * half + one; /* contracted to an FMA */
    }
    for (int i = 0; i < CHAINS; i++)
      for (int l = 0; l < LANES; l++) total += c[i][l];
  }
  return total;
}

/* a = b + 3 c over n floats: 12 n bytes, write-allocate not counted, as in STREAM. */
void triad(float *restrict a, const float *restrict b, const float *restrict c, size_t n,
           int threads) {
#pragma omp parallel for num_threads(threads) schedule(static)
  for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0f * c[i];
}
