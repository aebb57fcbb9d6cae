// Rows of a table by index. An index outside of the table reads row 0: nothing beyond the table is
// touched (what the row then holds is unspecified by the op's contract).
typedef INDEX T;
typedef ELEMENT E;
KERNEL void embedding(const __global E* table, long table0, const __global T* indices, long indices0,
                      __global E* y, long y0, long count, long rows, long n, long row_stride,
                      long col_stride) {
  for (long i = get_group_id(0); i < count; i += get_num_groups(0)) {
    T index = indices[indices0 + i];
    long row = (index < 0 || (ulong)index >= (ulong)rows) ? 0 : (long)index;
    const __global E* p = table + table0 + row * row_stride;
    __global E* o = y + y0 + i * n;
    if (col_stride == 1) {
      for (long j = get_local_id(0); j < n; j += LOCAL) o[j] = p[j];
    } else {
      for (long j = get_local_id(0); j < n; j += LOCAL) o[j] = p[j * col_stride];
    }
  }
}
