#pragma once

#include "compiler/lowering/node_lowering.h"

/// Reductions and running sums of numbers that are two words, or that the chip has no operation to combine:
/// doubles by Reduce layers that keep both words; integers of 64 bits, and products of integers, by Maps, one
/// after the other, that combine a few elements each.
namespace kodama::compiler {

enum class FoldOp : uint8_t { kSum, kProduct, kMax, kMin };

/// `source`, of integers or floats of any size, reduced over the axes with a flag, each of which has one
/// element then.
TensorId add_fold(NodeLowering& lowering, const std::string& suffix, TensorId source,
                  const std::vector<bool>& reduced, FoldOp op);

/// Doubles that `map`, over the dims of `outputs` and `reduced`, reads of `source`, reduced over the latter.
/// What is outside leaves the result as it is.
TensorId add_reduction_of_doubles(NodeLowering& lowering, const std::string& suffix, TensorId source,
                                  const AffineMap& map, const Shape& outputs, const Shape& reduced,
                                  FoldOp op);

/// The sums of products that a Contract layer would compute, of integers or doubles, which the matrix unit
/// hasn't, as a Reduce, or, of integers of 64 bits, as a Map of all products and a fold; of the shape of its
/// output. Its epilogue isn't applied. Nothing where there are too many products to keep.
std::optional<TensorId> add_products(NodeLowering& lowering, const std::string& suffix,
                                     const ContractLayer& contract);
constexpr const char* kTooManyProducts = "too many products for sums outside the matrix unit";

struct Scan {
  size_t axis = 0;
  bool exclusive = false, reverse = false;
};
/// Running sums of `source` along an axis: in every Map each element takes what stands twice as far away as
/// in the one before.
TensorId add_scan_by_steps(NodeLowering& lowering, TensorId source, const Scan& scan);

}  // namespace kodama::compiler
