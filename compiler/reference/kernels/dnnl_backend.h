#pragma once

#include "compiler/reference/kernels/window.h"

/// oneDNN for float problems that are large enough to pay for its set-up. Plain code in the operators' own
/// files computes the same; dnnl_backend_test.cpp compares them.
///
/// oneDNN's threads belong to OpenMP, whose idle threads spin by default. libgomp reads OMP_WAIT_POLICY when
/// it is loaded, before main, so a program can't set it for itself: set OMP_WAIT_POLICY=passive in the
/// environment where several programs share the cores.
namespace kodama::compiler::reference {

/// From this number of multiply-adds (or comparisons, for pooling) on oneDNN is used.
inline constexpr int64_t kDnnlThreshold = 1'000'000;

/// c[M, N] = op(a) op(b), row major, where op transposes if asked to.
void dnnl_matmul(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, const float* a,
                 const float* b, float* c);

/// Whether oneDNN has this window (one to three spatial axes, nothing empty).
bool dnnl_supports(const Window& window, const Tensor& x);

/// x [N, C, ...], weights [M, C / groups, ...], bias [M] or null.
Tensor dnnl_convolution(const Window& window, int64_t groups, const Tensor& x, const Tensor& weights,
                        const Tensor* bias);

enum class PoolKind { kMax, kAverage, kAverageWithPadding };
Tensor dnnl_pool(const Window& window, PoolKind kind, const Tensor& x);

}  // namespace kodama::compiler::reference
