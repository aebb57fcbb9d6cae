// The register tile of matrix products on CPUs.
#define NR (NV * VW)
#define KP (KC + VW)

// Defines NAME(a, b, acc, kc, first): MR x NR of acc (rows OS apart) (+)= a (row i, column k at AT)
// times b (kc x NR). All distances are constants, so that addresses cost no instructions.
#define DEFINE_MICRO(NAME, AT, OS)                                                               \
  inline void NAME(const __global A* a, const __global A* b, __global A* acc, int kc, int first) { \
    AV c[MR][NV];                                                                                \
    if (first) {                                                                                 \
      UNROLL for (int i = 0; i < MR; i++) UNROLL for (int v = 0; v < NV; v++) c[i][v] = (AV)(0); \
    } else {                                                                                     \
      UNROLL for (int i = 0; i < MR; i++)                                                        \
        UNROLL for (int v = 0; v < NV; v++) c[i][v] = lda(acc + i * (OS) + v * VW);              \
    }                                                                                            \
    for (int k = 0; k < kc; k++) {                                                               \
      AV bv[NV];                                                                                 \
      UNROLL for (int v = 0; v < NV; v++) bv[v] = lda(b + k * NR + v * VW);                      \
      UNROLL for (int i = 0; i < MR; i++) {                                                      \
        AV av = (AV)(a[AT]);                                                                     \
        UNROLL for (int v = 0; v < NV; v++) c[i][v] = fma(av, bv[v], c[i][v]);                   \
      }                                                                                          \
    }                                                                                            \
    UNROLL for (int i = 0; i < MR; i++)                                                          \
      UNROLL for (int v = 0; v < NV; v++) sta(c[i][v], acc + i * (OS) + v * VW);                 \
  }
