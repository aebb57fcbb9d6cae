// Matrix product for GPUs: 64 x 64 tiles of C in local memory, 4 x 4 values per work-item, 256
// work-items; any strides, batches by three outer axes. Not verified on a GPU yet.
#define TS 64
#define TK 16
__kernel __attribute__((reqd_work_group_size(256, 1, 1))) void tiled(
    const __global S* a, long a0, const __global S* b, long b0, __global S* c, long c0,
    const __global S* bias, long bias0, const __global S* res, long res0, long res_stride,
    int has_bias, int has_res, long m, long n, long k, long ras, long cas, long rbs, long cbs, long n0,
    long n1, long n2, long sa0, long sa1, long sa2, long sb0, long sb1, long sb2) {
  __local A la[TK][TS + 1];
  __local A lb[TK][TS + 1];
  int id = get_local_id(0), tx = id % 16, ty = id / 16;
  long tm = (m + TS - 1) / TS, tn = (n + TS - 1) / TS;
  long batch = get_group_id(0) / (tm * tn), tile = get_group_id(0) % (tm * tn);
  long i0 = tile % tm * TS, j0 = tile / tm * TS;
  long q2 = batch % n2, q1 = batch / n2 % n1, q0 = batch / n2 / n1;
  const __global S* at = a + a0 + q0 * sa0 + q1 * sa1 + q2 * sa2;
  const __global S* bt = b + b0 + q0 * sb0 + q1 * sb1 + q2 * sb2;
  A acc[4][4];
  for (int i = 0; i < 4; i++) for (int j = 0; j < 4; j++) acc[i][j] = 0;
  for (long k0 = 0; k0 < k; k0 += TK) {
    for (int e = id; e < TS * TK; e += 256) {
      // Neighbouring work-items read neighbouring elements, whichever axis that is.
      int i = cas == 1 ? e / TK : e % TS, kk = cas == 1 ? e % TK : e / TS;
      la[kk][i] = i0 + i < m && k0 + kk < k ? LD(at + (i0 + i) * ras + (k0 + kk) * cas) : 0;
      int j = cbs == 1 ? e % TS : e / TK, kb = cbs == 1 ? e / TS : e % TK;
      lb[kb][j] = j0 + j < n && k0 + kb < k ? LD(bt + (k0 + kb) * rbs + (j0 + j) * cbs) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int kk = 0; kk < TK; kk++)
      for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
          acc[i][j] = fma(la[kk][ty * 4 + i], lb[kk][tx + j * 16], acc[i][j]);
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int i = 0; i < 4; i++)
    for (int j = 0; j < 4; j++) {
      long row = i0 + ty * 4 + i, col = j0 + tx + j * 16;
      if (row >= m || col >= n) continue;
      A x = acc[i][j] + (has_bias ? LD(bias + bias0 + col) : 0);
      x = activate_v((AV)(x)).s0;
      if (has_res) x += LD(res + res0 + row * res_stride + col);
      ST(x, c + c0 + (batch * m + row) * n + col);
    }
}
