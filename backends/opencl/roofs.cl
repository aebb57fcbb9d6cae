// Micro-kernels that measure a device: see `_roofs.py`.
#ifdef NATIVE_F16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
typedef half2 RV;
typedef half RA;
#else
typedef AV RV;
typedef A RA;
#endif
#define CHAINS 16

// CHAINS independent chains hide the latency of an FMA; values stay finite (x -> x / 2 + 1).
__kernel void fma_chains(__global RV* out, int rounds) {
  RV c[CHAINS], half_ = (RV)((RA)0.5f), one = (RV)((RA)1.0f);
  for (int i = 0; i < CHAINS; i++) c[i] = (RV)((RA)(i + get_global_id(0) % 7));
  for (int r = 0; r < rounds; r++) UNROLL for (int i = 0; i < CHAINS; i++) c[i] = fma(c[i], half_, one);
  RV sum = c[0];
  for (int i = 1; i < CHAINS; i++) sum += c[i];
  out[get_global_id(0)] = sum;
}

#ifndef NATIVE_F16
// Each item streams one piece on CPUs (LOCAL groups of one), neighbours side by side elsewhere.
#define SPAN                                                                               \
  long items = get_global_size(0), id = get_global_id(0), width_ = get_local_size(0);       \
  long vectors = n / VW, piece = (vectors / 8 + items - 1) / items * 8;                    \
  long from = width_ == 1 ? min(vectors, id * piece) : id;                                  \
  long to = width_ == 1 ? min(vectors, from + piece) : vectors;                             \
  long step = width_ == 1 ? 1 : items;

// In one stream an item, or (on CPUs) in eight: more for the prefetchers of a core to work on.
#define STREAM_READ(NAME, APART)                                                              \
  __kernel void NAME(__global const A* a, __global A* out, long n, int passes) {              \
    SPAN                                                                                      \
    long part = (to - from) / step / 8;                                                       \
    long apart = APART ? part * step : step, hop = APART ? step : 8 * step;                   \
    AV s[8];                                                                                  \
    UNROLL for (int v = 0; v < 8; v++) s[v] = (AV)(0);                                        \
    for (int pass = 0; pass < passes; pass++) {                                               \
      long i = from;                                                                          \
      for (long p = 0; p < part; p++, i += hop)                                               \
        UNROLL for (int v = 0; v < 8; v++) s[v] += VLOAD(i + v * apart, a);                   \
      for (i = from + 8 * part * step; i < to; i += step) s[0] += VLOAD(i, a);                \
    }                                                                                         \
    UNROLL for (int v = 1; v < 8; v++) s[0] += s[v];                                          \
    VSTORE(s[0], id, out);                                                                    \
  }
STREAM_READ(stream_read, 0)
STREAM_READ(stream_read_apart, 1)

__kernel void stream_write(__global A* a, __global A* out, long n, int passes) {
  SPAN
  for (int pass = 0; pass < passes; pass++)
    for (long i = from; i < to; i += step) VSTORE((AV)(1), i, a);
}

__kernel void stream_copy(__global A* a, __global const A* b, __global A* out, long n, int passes) {
  SPAN
  for (int pass = 0; pass < passes; pass++)
    for (long i = from; i < to; i += step) VSTORE(VLOAD(i, b), i, a);
}

__kernel void stream_triad(__global A* a, __global const A* b, __global const A* c,
                           __global A* out, long n, int passes) {
  SPAN
  for (int pass = 0; pass < passes; pass++)
    for (long i = from; i < to; i += step) VSTORE(fma((AV)(3), VLOAD(i, c), VLOAD(i, b)), i, a);
}

__kernel void nothing(void) {}
#endif
