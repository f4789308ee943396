#pragma once

#include <string>

#include "compiler/lowering/node_lowering.h"

/// Convolutions and matrix products, as layers: what Conv, ConvTranspose, Resize and the operators on
/// quantized tensors have in common. Private to compiler/layers.
namespace kodama::compiler {

/// A convolution of `x` [N, C, ...] with `w` [M, C / groups, ...] into `target` [N, M, ...].
struct Convolution {
  TensorId x = -1, w = -1, target = -1;
  TensorId bias = -1;   ///< [M]; -1 = none
  TensorId scale = -1;  ///< [M / groups, ...]: factors of the sums, the same for every group; -1 = none
  int64_t groups = 1;
  Window window;
};
void add_convolution(NodeLowering& lowering, const std::string& suffix, const Convolution& convolution);

/// The product of two tensors as MatMul defines it, of shape `y`.
ContractLayer matmul_of(const NodeLowering& lowering, TensorId first, TensorId second, const Shape& y);
/// The same as a layer, of floats, into `target`.
void add_matmul(NodeLowering& lowering, const std::string& suffix, TensorId first, TensorId second,
                TensorId target);

/// The output, of the residues of its positions modulo `strides`: position q * stride + r of channel m is
/// position q of channel m * (all strides) + r of `residues`, which may have more of them than the output
/// needs.
void weave_residues(NodeLowering& lowering, TensorId residues, const Shape& strides);

/// A Rearrange of one piece, done at once if its source is constant: `extents` are filled by `map` within
/// [0, box), the rest is 0.
TensorId rearranged(NodeLowering& lowering, const std::string& suffix, TensorId source, AffineMap map,
                    const Shape& extents, const Shape& box);

}  // namespace kodama::compiler
