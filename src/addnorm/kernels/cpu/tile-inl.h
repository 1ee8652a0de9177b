// Small matrix products in registers, for operands that lie in the first two caches: a few rows of C at
// a time. oneDNN's call costs more than the work at the sizes of one attention head.
#if defined(ADDNORM_KERNELS_TILE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ADDNORM_KERNELS_TILE_INL
#undef ADDNORM_KERNELS_TILE_INL
#else
#define ADDNORM_KERNELS_TILE_INL
#endif

#include "addnorm/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace addnorm::kernels::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
inline constexpr Index kTileRows = 8;  // 32 registers: 16 sums
#else
inline constexpr Index kTileRows = 4;  // 16 registers: 8 sums
#endif

// C[rows, vectors*lanes] (+)= A[rows, depth] B[depth, vectors*lanes]. A's element (r, k) is at
// a[r*a_row + k*a_col], so that A may be a transposed view; B and C are row-major.
template <int rows, int vectors>
HWY_INLINE void tile(Index depth, const float* a, Index a_row, Index a_col, const float* b,
                     Index b_pitch, float* c, Index c_pitch, bool accumulate) {
  const Index width = lanes();
  Vector sums[rows][vectors];
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) {
      sums[r][v] = accumulate ? hn::LoadU(Floats(), c + r * c_pitch + v * width) : zero();
    }
  }
  for (Index k = 0; k < depth; ++k) {
    Vector line[vectors];
    for (int v = 0; v < vectors; ++v) line[v] = hn::LoadU(Floats(), b + v * width);
    for (int r = 0; r < rows; ++r) {
      const auto factor = set(a[r * a_row]);
      for (int v = 0; v < vectors; ++v) sums[r][v] = hn::MulAdd(factor, line[v], sums[r][v]);
    }
    a += a_col;
    b += b_pitch;
  }
  for (int r = 0; r < rows; ++r) {
    for (int v = 0; v < vectors; ++v) hn::StoreU(sums[r][v], Floats(), c + r * c_pitch + v * width);
  }
}

template <int rows>
HWY_NOINLINE void tile_rows(Index vectors, Index depth, const float* a, Index a_row, Index a_col,
                            const float* b, Index b_pitch, float* c, Index c_pitch,
                            bool accumulate) {
  const Index width = lanes();
  Index v = 0;
  for (; v + 2 <= vectors; v += 2) {
    tile<rows, 2>(depth, a, a_row, a_col, b + v * width, b_pitch, c + v * width, c_pitch,
                  accumulate);
  }
  if (v < vectors) {
    tile<rows, 1>(depth, a, a_row, a_col, b + v * width, b_pitch, c + v * width, c_pitch,
                  accumulate);
  }
}

// The same for 1 <= rows <= kTileRows known at run time.
HWY_INLINE void multiply_tile(Index rows, Index vectors, Index depth, const float* a, Index a_row,
                              Index a_col, const float* b, Index b_pitch, float* c, Index c_pitch,
                              bool accumulate) {
  const auto call = [&]<int count>() {
    tile_rows<count>(vectors, depth, a, a_row, a_col, b, b_pitch, c, c_pitch, accumulate);
  };
  switch (rows) {
    case 1:
      return call.template operator()<1>();
    case 2:
      return call.template operator()<2>();
    case 3:
      return call.template operator()<3>();
    case 4:
      return call.template operator()<4>();
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
    case 5:
      return call.template operator()<5>();
    case 6:
      return call.template operator()<6>();
    case 7:
      return call.template operator()<7>();
    case 8:
      return call.template operator()<8>();
#endif
    default:
      return;
  }
}

}  // namespace addnorm::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
