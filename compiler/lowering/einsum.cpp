#include <algorithm>
#include <cctype>
#include <map>

#include "compiler/lowering/fold.h"

/// Einsum: diagonals of an operand first, then sums over what it alone has, then the operands one after the
/// other: a Contract for two of them, or, where nothing is summed, a Map.
namespace kodama::compiler {

namespace {

/// A letter, or an axis of the ellipsis: kEllipsis plus its number from the right.
using Label = int;
constexpr Label kEllipsis = 256;
using Labels = std::vector<Label>;

bool has(const Labels& labels, Label label) {
  return std::ranges::find(labels, label) != labels.end();
}

struct Operand {
  TensorId tensor = -1;
  Labels labels;  ///< of its axes
};

class Einsum {
 public:
  explicit Einsum(NodeLowering& lowering) : lowering_(lowering) {
    std::string text = lowering.string_attribute("equation");
    std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
    const size_t arrow = text.find("->");
    std::string left = text.substr(0, arrow);
    for (int i = 0; i < lowering.input_count(); ++i) {
      const size_t comma = left.find(',');
      lowering.require((comma != std::string::npos) == (i + 1 < lowering.input_count()),
                       "the equation '{}' has another number of terms than the {} operands", text,
                       lowering.input_count());
      const Shape& shape = lowering.input_shape(i);
      Operand operand{lowering.input(i), labels_of(left.substr(0, comma), shape.size())};
      left = comma == std::string::npos ? "" : left.substr(comma + 1);
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        int64_t& extent = extents_.try_emplace(operand.labels[axis], 1).first->second;
        lowering.require(extent == 1 || shape[axis] == 1 || extent == shape[axis],
                         "operand {} is {}; axis {} should have {}", i, shape_to_string(shape), axis, extent);
        extent = std::max(extent, shape[axis]);
      }
      operands_.push_back(std::move(operand));
    }
    if (arrow == std::string::npos) {
      // The ellipsis, then what occurs once, by the alphabet.
      std::map<Label, int> uses;
      for (const Operand& operand : operands_) {
        for (const Label label : operand.labels) ++uses[label];
      }
      for (auto use = uses.rbegin(); use != uses.rend() && use->first >= kEllipsis; ++use)
        output_.push_back(use->first);
      for (const auto& [label, count] : uses) {
        if (label < kEllipsis && count == 1) output_.push_back(label);
      }
    } else {
      output_ = labels_of(text.substr(arrow + 2), lowering.output_shape().size());
    }
    for (const Label label : output_)
      lowering.require(extents_.contains(label) && std::ranges::count(output_, label) == 1,
                       "the result of '{}' names an axis that no operand has, or twice", text);
  }

  HostReason run() {
    for (size_t i = 0; i < operands_.size(); ++i) {
      take_diagonals(operands_[i]);
      sum_alone(i);
    }
    while (operands_.size() > 1) {
      if (!join()) return kTooManyProducts;
    }
    const Operand& result = operands_[0];
    if (result.labels == output_) {
      if (!written_) lowering_.bind_output(result.tensor);
      return kLowered;
    }
    AffineMap map(result.labels.size(), output_.size());
    for (size_t axis = 0; axis < result.labels.size(); ++axis)
      map.set(axis, place(output_, result.labels[axis]), 1);
    add_rearrange("", result.tensor, std::move(map), output_, lowering_.output());
    return kLowered;
  }

 private:
  static size_t place(const Labels& labels, Label label) {
    return static_cast<size_t>(std::ranges::find(labels, label) - labels.begin());
  }

  Labels labels_of(const std::string& term, size_t rank) const {
    Labels labels;
    for (size_t k = 0; k < term.size(); ++k) {
      if (term[k] != '.') {
        lowering_.require(std::isalpha(static_cast<unsigned char>(term[k])) != 0,
                          "the equation has '{}'; letters, commas, '...' and '->' are allowed", term[k]);
        labels.push_back(static_cast<unsigned char>(term[k]));
        continue;
      }
      lowering_.require(term.compare(k, 3, "...") == 0 && rank + 3 >= term.size(),
                        "the equation has '{}' for an operand of rank {}", term, rank);
      const size_t axes = rank + 3 - term.size();
      for (size_t axis = axes; axis-- > 0;) labels.push_back(kEllipsis + static_cast<Label>(axis));
      k += 2;
    }
    lowering_.require(labels.size() == rank, "the equation has '{}' for an operand of rank {}", term, rank);
    return labels;
  }

  Shape extents_of(const Labels& labels) const {
    Shape extents;
    for (const Label label : labels) extents.push_back(extents_.at(label));
    return extents;
  }
  /// An operand over points of `dims`; where it has one element for several of a label, all read it.
  TensorAccess access(const Operand& operand, const Labels& dims) const {
    const Shape& shape = lowering_.tensor(operand.tensor).shape;
    AffineMap map(shape.size(), dims.size());
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] != 1) map.set(axis, place(dims, operand.labels[axis]), 1);
    }
    return {operand.tensor, map, 0};
  }
  /// Whether an operand differs along a label.
  bool varies(const Operand& operand, Label label) const {
    const size_t axis = place(operand.labels, label);
    return axis < operand.labels.size() && lowering_.tensor(operand.tensor).shape[axis] != 1;
  }

  void add_rearrange(const std::string& suffix, TensorId source, AffineMap map, const Labels& labels,
                     TensorId target) const {
    RearrangeLayer rearrange;
    rearrange.extents = lowering_.tensor(target).shape;
    rearrange.pieces = {
        {{source, std::move(map), 0}, std::vector<int64_t>(labels.size(), 0), rearrange.extents}};
    lowering_.add_layer(suffix, std::move(rearrange), target);
  }

  std::string next_name(const char* what) { return fmt::format("{}{}", what, names_++); }

  void take_diagonals(Operand& operand) {
    Labels unique;
    for (const Label label : operand.labels) {
      if (!has(unique, label)) unique.push_back(label);
    }
    if (unique == operand.labels) return;
    const Shape& shape = lowering_.tensor(operand.tensor).shape;
    AffineMap map(shape.size(), unique.size());
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] != 1) map.set(axis, place(unique, operand.labels[axis]), 1);
    }
    const std::string name = next_name("diagonal");
    const TensorId target = lowering_.add_tensor(name, lowering_.output_type(), extents_of(unique));
    add_rearrange(name, operand.tensor, std::move(map), unique, target);
    operand = {target, unique};
  }

  /// Sums over what neither the result nor another operand has.
  void sum_alone(size_t index) {
    Operand& operand = operands_[index];
    Labels kept;
    Labels summed;
    for (const Label label : operand.labels) {
      bool elsewhere = has(output_, label);
      for (size_t i = 0; i < operands_.size(); ++i)
        elsewhere = elsewhere || (i != index && has(operands_[i].labels, label));
      (elsewhere ? kept : summed).push_back(label);
    }
    if (summed.empty()) return;
    Labels dims = kept;
    dims.insert(dims.end(), summed.begin(), summed.end());
    const Shape& shape = lowering_.tensor(operand.tensor).shape;
    Shape kept_extents;
    for (const Label label : kept) kept_extents.push_back(shape[place(operand.labels, label)]);
    const std::string name = next_name("sum");
    if (!has_float_arithmetic(lowering_.output_type())) {
      sum_by_maps(name, operand, dims, kept_extents);
      operand.labels = kept;
      return;
    }
    const TensorId target = lowering_.add_tensor(name, lowering_.output_type(), kept_extents);
    lowering_.add_layer(name,
                        ReduceLayer{ReduceLayer::Op::kSum,
                                    kept_extents,
                                    extents_of(summed),
                                    {access(operand, dims)},
                                    ScalarExpr::identity(),
                                    ScalarExpr::identity(),
                                    {}},
                        target);
    operand = {target, kept};
  }

  /// What no Reduce layer sums, over the dims behind the extents that are kept.
  void sum_by_maps(const std::string& name, Operand& operand, const Labels& dims,
                   const Shape& kept_extents) const {
    Shape extents = kept_extents;
    for (size_t k = kept_extents.size(); k < dims.size(); ++k) extents.push_back(extents_.at(dims[k]));
    const TensorId ordered = lowering_.add_tensor(name + "_terms", lowering_.output_type(), extents);
    add_rearrange(name + "_terms", operand.tensor, access(operand, dims).map, dims, ordered);
    std::vector<bool> summed(dims.size(), false);
    std::fill(summed.begin() + static_cast<std::ptrdiff_t>(kept_extents.size()), summed.end(), true);
    const TensorId sums = add_fold(lowering_, name, ordered, summed, FoldOp::kSum);
    operand.tensor = lowering_.add_alias(name + "_kept", sums, kept_extents);
  }

  /// The first two operands become one. False where the chip has no way to.
  bool join() {
    using Role = ContractLayer::Role;
    const Operand a = operands_[0];
    const Operand b = operands_[1];
    operands_.erase(operands_.begin());
    const bool is_last = operands_.size() == 1;
    Labels kept;
    Labels summed;
    if (is_last) kept = output_;
    for (const Operand* operand : {&a, &b}) {
      for (const Label label : operand->labels) {
        if (has(kept, label) || has(summed, label)) continue;
        bool later = has(output_, label);
        for (size_t i = 1; i < operands_.size(); ++i) later = later || has(operands_[i].labels, label);
        (later ? kept : summed).push_back(label);
      }
    }
    const Shape extents = extents_of(kept);
    const std::string name = is_last ? "" : next_name("product");
    const auto new_target = [&] {
      written_ = is_last;
      return is_last ? lowering_.output() : lowering_.add_tensor(name, lowering_.output_type(), extents);
    };
    TensorId target = -1;
    if (summed.empty()) {
      target = new_target();
      MapBuilder map(lowering_, extents);
      if (integer_type(lowering_.output_type())) {
        const Integer first = map.integer_at(a.tensor, access(a, kept).map);
        map.finish(name, first * map.integer_at(b.tensor, access(b, kept).map), target);
      } else {
        const Term first = map.operand_at(a.tensor, access(a, kept).map);
        map.finish(name, first * map.operand_at(b.tensor, access(b, kept).map), target);
      }
    } else {
      Labels dims = kept;
      dims.insert(dims.end(), summed.begin(), summed.end());
      ContractLayer contract;
      for (const Label label : dims) {
        const bool in_a = varies(a, label);
        const bool in_b = varies(b, label);
        const Role role = has(summed, label) ? Role::kK
                          : in_a == in_b     ? Role::kBatch
                          : in_a             ? Role::kM
                                             : Role::kN;
        contract.dims.push_back({label < kEllipsis ? std::string(1, static_cast<char>(label))
                                                   : fmt::format("e{}", label - kEllipsis),
                                 extents_.at(label), role});
      }
      contract.a = access(a, dims);
      contract.b = access(b, dims);
      contract.output = AffineMap(kept.size(), dims.size());
      for (size_t axis = 0; axis < kept.size(); ++axis) contract.output.set(axis, axis, 1);
      contract.output_shape = extents;
      contract.epilogue = ScalarExpr::identity();
      if (has_float_arithmetic(lowering_.output_type())) {
        target = new_target();
        lowering_.add_layer(name, std::move(contract), target);
      } else {
        const auto sums = add_products(lowering_, name, contract);
        if (!sums) return false;
        target = *sums;
      }
    }
    operands_[0] = {target, kept};
    return true;
  }

  NodeLowering& lowering_;
  std::map<Label, int64_t> extents_;
  std::vector<Operand> operands_;
  Labels output_;
  bool written_ = false;  ///< the output, by the last join
  int names_ = 0;
};

HostReason lower_einsum(NodeLowering& lowering) {
  return Einsum(lowering).run();
}

}  // namespace

void register_einsum(OperatorTable& table) {
  table.push_back(
      {"Einsum", lower_einsum, ElementTypes::kAllNumbers, "up to 2^22 products of 64-bit integers"});
}

}  // namespace kodama::compiler
