// Arguments and results of the products that stream B for a few rows of A.
//
// A is (m, k), B is (k, n); scratch and a counter of tasks belong to the call.
#define FEW_ROWS                                                                                  \
  const __global S *a, long a0, const __global S *b, long b0, __global S *c, long c0,             \
      const __global S *bias, long bias0, const __global S *res, long res0, int has_bias,         \
      int has_res, __global A *scratch, long scratch0, volatile __global int *counter,            \
      long counter0, long m, long n, long k, long ras, long cas, long rbs, long cbs, long crs,    \
      long ccs, long bias_row, long bias_col, long res_row, long res_col, int strip

// Store up to VW neighbours of row i from column j on, after bias, activation and residual.
#define STORE_ROW(x, i, j, width)                                                              \
  {                                                                                            \
    AV v_ = (x);                                                                               \
    A lane_[VW];                                                                               \
    if (has_bias) {                                                                            \
      for (int e_ = 0; e_ < VW; e_++)                                                          \
        lane_[e_] = LD(bias + bias0 + (i) * bias_row + ((j) + min(e_, (width) - 1)) * bias_col); \
      v_ += VLOAD(0, lane_);                                                                   \
    }                                                                                          \
    v_ = activate_v(v_);                                                                       \
    if (has_res) {                                                                             \
      for (int e_ = 0; e_ < VW; e_++)                                                          \
        lane_[e_] = LD(res + res0 + (i) * res_row + ((j) + min(e_, (width) - 1)) * res_col);   \
      v_ += VLOAD(0, lane_);                                                                   \
    }                                                                                          \
    __global S* o_ = c + c0 + (i) * crs + (j) * ccs;                                           \
    if ((width) >= VW && ccs == 1) {                                                           \
      stv(v_, o_);                                                                             \
    } else {                                                                                   \
      VSTORE(v_, 0, lane_);                                                                    \
      for (int e_ = 0; e_ < min((int)(width), VW); e_++) ST(lane_[e_], o_ + e_ * ccs);         \
    }                                                                                          \
  }

// Elements of a row of A, widened, with room for a vector more.
#define KX ((k + VW - 1) / VW * VW + VW)
