// y = activate(x) (-DACT), or silu(x) * up (-DGATED), over rows at any distance, in blocks.
#ifdef GATED
#define POINT silu_v(ldv(p + i)) * ldv(u + i)
#else
#define POINT activate_v(ldv(p + i))
#endif

KERNEL void pointwise(const __global S* x, long x0, long xs,
#ifdef GATED
                      const __global S* up, long up0, long ups,
#endif
                      __global S* y, long y0, long rows, long n, long block) {
  long blocks = (n + block - 1) / block;
  FOR_TASKS(t, rows * blocks) {
    long r = t / blocks, from = t % blocks * block, to = min(n, from + block);
    const __global S* p = x + x0 + r * xs;
    __global S* o = y + y0 + r * n;
#ifdef GATED
    const __global S* u = up + up0 + r * ups;
#endif
    long i = from + get_local_id(0) * VW;
    // Two loops: compilers join two stores to one place, and lose how they were meant.
    if (ALIGNED(o + i)) {
      for (; i + VW <= to; i += LOCAL * VW) put_past(POINT, o + i);
    } else {
      for (; i + VW <= to; i += LOCAL * VW) stv(POINT, o + i);
    }
    if (i < to) {
      int w = (int)(to - i);
#ifdef GATED
      stv_part(silu_v(ldv_part(p + i, w, 0)) * ldv_part(u + i, w, 0), o + i, w);
#else
      stv_part(activate_v(ldv_part(p + i, w, 0)), o + i, w);
#endif
    }
  }
}
