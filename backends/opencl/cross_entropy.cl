// loss[i] = log(sum(exp(x[i] - max))) + max - x[i, target[i]]; 0 where the row is ignored.
typedef INDEX T;
KERNEL void losses(const __global S* x, long x0, const __global T* targets, long targets0,
                   __global A* loss, long loss0, long rows, long n, long xs, long ignore,
                   int has_ignore) {
  REDUCTION_MEMORY
  int lane = get_local_id(0);
  long whole = n - n % VW;
  int rest = (int)(n - whole);
  for (long r = get_group_id(0); r < rows; r += get_num_groups(0)) {
    const __global S* p = x + x0 + r * xs;
    T target = targets[targets0 + r];
    AV m0 = (AV)(-INFINITY), m1 = m0, m2 = m0, m3 = m0;
    long k = lane * 4 * VW;
    for (; k + 4 * VW <= whole; k += LOCAL * 4 * VW) {
      m0 = larger_v(ldv(p + k), m0);
      m1 = larger_v(ldv(p + k + VW), m1);
      m2 = larger_v(ldv(p + k + 2 * VW), m2);
      m3 = larger_v(ldv(p + k + 3 * VW), m3);
    }
    for (long i = k; i < whole && i < k + 4 * VW; i += VW) m0 = larger_v(ldv(p + i), m0);
    A m = max_v(larger_v(larger_v(m0, m1), larger_v(m2, m3)));
    if (rest && lane == 0) m = max_nan(m, max_v(ldv_part(p + whole, rest, -INFINITY)));
    REDUCE(max_nan, m)
    AV sv = (AV)(0);
    for (long i = lane * VW; i < whole; i += LOCAL * VW) sv += exp_negative_v(ldv(p + i) - m);
    if (rest && lane == 0) sv += exp_negative_v(ldv_part(p + whole, rest, -INFINITY) - m);
    A s = sum_v(sv);
    REDUCE(ADD_, s)
    bool inside = target >= 0 && (ulong)target < (ulong)n;
    bool ignored = has_ignore && (long)target == ignore;
    if (lane == 0)
      loss[loss0 + r] = ignored ? (A)0 : log(s) + (m - (inside ? LD(p + target) : (A)NAN));
  }
}

// reduction: 0 none, 1 sum, 2 mean over the rows that count.
KERNEL void reduce_losses(const __global A* loss, long loss0, const __global T* targets,
                          long targets0, __global S* y, long y0, long rows, long ignore,
                          int has_ignore, int reduction) {
  if (reduction == 0) {
    for (long r = get_global_id(0); r < rows; r += get_global_size(0)) ST(loss[loss0 + r], y + y0 + r);
  } else if (get_global_id(0) == 0) {
    AV sums = (AV)(0);
    A total = 0;
    long count = 0, r = 0;
    for (; r + VW <= rows; r += VW) sums += VLOAD(0, loss + loss0 + r);
    for (; r < rows; r++) total += loss[loss0 + r];
    total += sum_v(sums);
    for (r = 0; r < rows; r++) count += !(has_ignore && (long)targets[targets0 + r] == ignore);
    ST(reduction == 2 ? total / (A)count : total, y + y0);
  }
}
