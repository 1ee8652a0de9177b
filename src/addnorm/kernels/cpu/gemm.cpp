// Matrix products by oneDNN, one thread per call.
#include "addnorm/base/error.h"
#include "addnorm/base/threads.h"
#include "addnorm/kernels/kernels.h"
#include "oneapi/dnnl/dnnl.h"

namespace addnorm::kernels {

void matmul(bool a_transposed, bool b_transposed, Index m, Index n, Index k, const float* a,
            Index a_pitch, const float* b, Index b_pitch, float* c, Index c_pitch,
            bool accumulate) {
  if (m == 0 || n == 0) return;
  if (k == 0) {  // dnnl_sgemm would leave C as it is
    if (!accumulate) {
      for (Index row = 0; row < m; ++row) fill(n, 0, c + row * c_pitch);
    }
    return;
  }
  keep_libraries_single_threaded();
  const dnnl_status_t status =
      dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, k, 1.0F, a, a_pitch, b,
                 b_pitch, accumulate ? 1.0F : 0.0F, c, c_pitch);
  ADDNORM_ASSERT(status == dnnl_success);
}

void linear(Index m, Index n, Index k, const float* x, const float* w, const float* bias,
            float* y) {
  if (bias != nullptr) {
    for (Index row = 0; row < m; ++row) {
      for (Index j = 0; j < n; ++j) y[row * n + j] = bias[j];
    }
  }
  matmul(false, true, m, n, k, x, k, w, k, y, n, bias != nullptr);
}

void linear_dx(Index m, Index n, Index k, const float* dy, const float* w, float* dx,
               bool accumulate) {
  matmul(false, false, m, k, n, dy, n, w, k, dx, k, accumulate);
}

void linear_dw(Index m, Index n, Index k, const float* dy, const float* x, float* dw,
               bool accumulate) {
  matmul(true, false, n, k, m, dy, n, x, k, dw, k, accumulate);
}

}  // namespace addnorm::kernels
