// Index of the first largest element (the first NaN wins) of contiguous rows, or along an axis with
// `inner` elements between neighbours. `parts` pieces of a row leave a value and an index each.
inline bool better(A v, long i, A w, long j) {
  if (v != v) return w == w || i < j;
  return w == w && (v > w || (v == w && i < j));
}

// A long row is passed over once, in runs that stay in the L1 cache; only the run that holds the
// largest element so far (or the first NaN) is looked through for its place.
#define RUN 4096
KERNEL void argmax_rows(const __global S* x, long x0, __global A* best, long best0,
                        __global long* at, long at0, long rows, long n, long xs, long parts) {
  long piece = ((n + parts - 1) / parts + VW - 1) / VW * VW;
  long items = get_global_size(0), id = get_global_id(0), tasks = rows * parts;
  for (long t = LOCAL == 1 ? tasks * id / items : id; t < (LOCAL == 1 ? tasks * (id + 1) / items : tasks);
       t += LOCAL == 1 ? 1 : items) {
    long from = min(n, t % parts * piece), to = min(n, from + piece);
    const __global S* p = x + x0 + t / parts * xs;
    A v = -INFINITY;
    long index = from; // of the run that holds v
    for (long i = from; i < to && v == v; i += RUN) {
      long count = min((long)RUN, to - i);
      A doubt, most = max_run(p + i, count, &doubt);
      if (doubt != doubt)
        for (long j = 0; j < count; j++) {
          A c = LD(p + i + j);
          if (c != c) most = c;
        }
      if (most != most || most > v) { v = most; index = i; }
    }
    for (; v == v && index + 4 * VW <= to; index += 4 * VW) {
      const __global S* q = p + index;
      if (any((ldv(q) == (AV)(v)) | (ldv(q + VW) == (AV)(v)) | (ldv(q + 2 * VW) == (AV)(v)) |
              (ldv(q + 3 * VW) == (AV)(v))))
        break;
    }
    for (; index < to; index++) {
      A c = LD(p + index);
      if (v != v ? c != c : c == v) break;
    }
    if (from >= to) index = n; // an empty piece never wins
    best[best0 + t] = v;
    at[at0 + t] = index;
  }
}

KERNEL void argmax_parts(const __global A* best, long best0, const __global long* at, long at0,
                         __global long* y, long y0, long rows, long parts) {
  for (long r = get_global_id(0); r < rows; r += get_global_size(0)) {
    A v = best[best0 + r * parts];
    long index = at[at0 + r * parts];
    for (long i = 1; i < parts; i++) {
      A c = best[best0 + r * parts + i];
      long j = at[at0 + r * parts + i];
      if (better(c, j, v, index)) { v = c; index = j; }
    }
    y[y0 + r] = index;
  }
}

KERNEL void argmax_columns(const __global S* x, long x0, __global long* y, long y0, long outer,
                           long n, long inner) {
  long blocks = (inner + VW - 1) / VW;
  for (long t = get_global_id(0); t < outer * blocks; t += get_global_size(0)) {
    long block = t % blocks * VW;
    int width = (int)min((long)VW, inner - block);
    const __global S* p = x + x0 + t / blocks * n * inner + block;
    A v[VW];
    long index[VW];
    for (int e = 0; e < width; e++) { v[e] = LD(p + e); index[e] = 0; }
    for (long i = 1; i < n; i++)
      for (int e = 0; e < width; e++) {
        A c = LD(p + i * inner + e);
        if (v[e] == v[e] && (c > v[e] || c != c)) { v[e] = c; index[e] = i; }
      }
    for (int e = 0; e < width; e++) y[y0 + t / blocks * inner + block + e] = index[e];
  }
}
