// Matrix products by oneDNN, one thread per call.
#include <fmt/format.h>
#include <sys/mman.h>

#include <mutex>
#include <vector>

#include "addnorm/base/error.h"
#include "addnorm/base/threads.h"
#include "addnorm/kernels/kernels.h"
#include "oneapi/dnnl/dnnl.h"

namespace addnorm::kernels {
namespace {

dnnl_status_t product(bool a_transposed, bool b_transposed, Index m, Index n, Index k,
                      const float* a, Index a_pitch, const float* b, Index b_pitch, float* c,
                      Index c_pitch, bool accumulate) {
  return dnnl_sgemm(a_transposed ? 'T' : 'N', b_transposed ? 'T' : 'N', m, n, k, 1.0F, a, a_pitch,
                    b, b_pitch, accumulate ? 1.0F : 0.0F, c, c_pitch);
}

// oneDNN writes its machine code when a kind of product first comes, and crashes where there is no
// memory for it. So all kinds come once, at the first product, when there is room for certain.
void write_code() {
  constexpr size_t room = size_t{32} << 20;
  void* const memory =
      ::mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    fail_system("memory",
                "expected 32 MiB for the code of matrix products, got less; try a smaller batch, a "
                "smaller model or more memory");
  }
  ::munmap(memory, room);
  constexpr Index size = 8;
  const std::vector<float> a(size * size, 1.0F);
  std::vector<float> c(size * size, 0.0F);
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        product(a_transposed, b_transposed, size, size, size, a.data(), size, a.data(), size,
                c.data(), size, accumulate);
      }
    }
  }
}

}  // namespace

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
  static std::once_flag code;
  std::call_once(code, write_code);
  const dnnl_status_t status =
      product(a_transposed, b_transposed, m, n, k, a, a_pitch, b, b_pitch, c, c_pitch, accumulate);
  if (status == dnnl_out_of_memory) {
    fail_system("memory",
                fmt::format("expected room for the work of a matrix product of {} x {} "
                            "by {} x {} ({:.1f} MiB of operands), got none; try a "
                            "smaller batch, a smaller model or fewer threads",
                            m, k, k, n, static_cast<double>(m * k + k * n + m * n) * 0x1p-18));
  }
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
