#pragma once

/// The targets that the kernels are compiled for: every source of kernels includes this before Highway.
/// SVE vectors can't be kept in arrays; the others of this list only repeat a neighbour for our purposes.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_SSSE3 | HWY_AVX3_DL)
