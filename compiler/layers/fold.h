#pragma once

#include "compiler/layers/node_lowering.h"

/// Reductions and running sums of numbers that no Reduce layer combines, because they are two words or no
/// operation of the chip: doubles, and products of integers. They are Maps, one after the other, that combine
/// a few elements each.
namespace kodama::compiler {

enum class FoldOp : uint8_t { kSum, kProduct, kMax, kMin };

/// `source`, of integers or floats of any size, reduced over the axes with a flag, each of which has one
/// element then.
TensorId add_fold(NodeLowering& lowering, const std::string& suffix, TensorId source,
                  const std::vector<bool>& reduced, FoldOp op);

/// The sums of products that a Contract layer would compute, of integers or doubles, which the matrix unit
/// hasn't: all products as one Map, then a fold; of the shape of its output. Its epilogue isn't applied.
/// Nothing where there are too many products to keep.
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
