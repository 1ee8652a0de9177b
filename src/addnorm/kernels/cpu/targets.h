// The instruction sets that the kernels are compiled for. Included before anything of Highway, and
// by every file that includes Highway, so that all agree on the dispatch tables.
#pragma once

// SSSE3 and AVX3_DL bring nothing for float arithmetic over what is left: AVX3 (AVX-512), AVX2, SSE4
// and plain C++ for older processors. The kernels keep vectors in arrays, which vectors of unknown
// length (SVE) do not allow: Arm runs on NEON.
#define ADDNORM_UNUSED_TARGETS \
  (HWY_SSSE3 | HWY_AVX3_DL | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)

// Highway reads its own macro HWY_DISABLED_TARGETS: instruction sets left out, not tests.
// Builds with a sanitizer keep AVX2 and the baseline: every further set costs minutes to compile.
#ifdef ADDNORM_FEWER_SIMD_TARGETS
#define HWY_DISABLED_TARGETS (ADDNORM_UNUSED_TARGETS | HWY_AVX3 | HWY_SSE4)
#else
#define HWY_DISABLED_TARGETS ADDNORM_UNUSED_TARGETS
#endif
