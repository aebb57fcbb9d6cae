#include "_common.cuh"
// Copies a strided tensor into a dense one: the op `transpose`, and the packing step of the others.
// Macro: T, an unsigned type of the element's size.

// General: up to 6 axes, outermost first. Neighbouring threads write neighbouring elements.
KERNEL(256) copy_strided(T *out, const T *in, i64 total, i64 n0, i64 n1, i64 n2, i64 n3, i64 n4,
                         i64 n5, i64 s0, i64 s1, i64 s2, i64 s3, i64 s4, i64 s5) {
  for (i64 i = blockIdx.x * 256LL + threadIdx.x; i < total; i += gridDim.x * 256LL) {
    i64 rest = i, at = 0;
    at += rest % n5 * s5, rest /= n5;
    at += rest % n4 * s4, rest /= n4;
    at += rest % n3 * s3, rest /= n3;
    at += rest % n2 * s2, rest /= n2;
    at += rest % n1 * s1, rest /= n1;
    out[i] = in[at + rest * s0];
  }
}

// Two axes change places: in (batch, cols, rows) with rows adjacent -> out (batch, rows, cols).
// A 32 x 32 tile goes through shared memory, so that reads and writes are both along memory.
// Grid: x = tiles, y = batch. The odd pitch keeps the columns of a tile in different banks.
KERNEL(256) copy_transposed(T *out, const T *in, i64 rows, i64 cols, i64 in_col, i64 batch,
                            i64 in_batch) {
  __shared__ T tile[32][33];
  int x = threadIdx.x % 32, y = threadIdx.x / 32;
  i64 tiles_c = (cols + 31) / 32;
  i64 r0 = blockIdx.x / tiles_c * 32, c0 = blockIdx.x % tiles_c * 32;
  for (i64 z = blockIdx.y; z < batch; z += gridDim.y) {
    for (int j = y; j < 32; j += 8)
      if (c0 + j < cols && r0 + x < rows)
        tile[j][x] = in[z * in_batch + (c0 + j) * in_col + r0 + x];
    __syncthreads();
    for (int j = y; j < 32; j += 8)
      if (r0 + j < rows && c0 + x < cols) out[(z * rows + r0 + j) * cols + c0 + x] = tile[x][j];
    __syncthreads();
  }
}
