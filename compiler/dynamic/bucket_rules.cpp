#include "compiler/dynamic/bucket_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_rules.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace {

/// Of an axis in both graphs.
struct Extent {
  int64_t exact = 1;
  int64_t padded = 1;
  bool is_padded() const { return exact != padded; }
  bool operator==(const Extent&) const = default;
};

using Extents = std::vector<Extent>;

/// A node with what its rule asks of it.
class Site {
 public:
  Site(int index, const TypedGraph& exact, const TypedGraph& padded, PadNeeds& needs)
      : index_(index),
        node_(padded.proto().node(index)),
        exact_node_(exact.proto().node(index)),
        exact_(exact),
        padded_(padded),
        needs_(needs) {}

  const onnx::NodeProto& node() const { return node_; }
  bool has_input(int k) const { return k < node_.input_size() && !node_.input(k).empty(); }
  bool has_output(int k) const { return k < node_.output_size() && !node_.output(k).empty(); }
  Extents input(int k) const { return extents(exact_node_.input(k), node_.input(k)); }
  Extents output(int k) const { return extents(exact_node_.output(k), node_.output(k)); }
  DataType input_type(int k) const { return padded_.type(node_.input(k)); }
  bool is_constant(int k) const { return padded_.constant(node_.input(k)) != nullptr; }
  /// The elements of a constant list, of the exact and of the padded graph; nothing if it is left out or not
  /// constant.
  std::optional<std::vector<int64_t>> exact_list(int k) const { return list(exact_, exact_node_, k); }
  std::optional<std::vector<int64_t>> padded_list(int k) const { return list(padded_, node_, k); }

  int64_t integer(const char* name, int64_t otherwise) const {
    const auto* attribute = find_attribute(node_, name);
    return attribute == nullptr ? otherwise : attribute->i();
  }
  std::string text(const char* name, const char* otherwise) const {
    const auto* attribute = find_attribute(node_, name);
    return attribute == nullptr ? otherwise : attribute->s();
  }
  std::optional<std::vector<int64_t>> integers(const char* name) const {
    const auto* attribute = find_attribute(node_, name);
    if (attribute == nullptr) return std::nullopt;
    return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
  }
  int axis(int64_t value, size_t rank) const {
    return static_cast<int>(value < 0 ? value + static_cast<int64_t>(rank) : value);
  }

  void mask(int input, int axis, PadFill fill) { needs_.masks.insert({index_, input, axis, fill}); }
  void mask_all(int input, PadFill fill) {
    const Extents axes = this->input(input);
    for (int k = 0; k < static_cast<int>(axes.size()); ++k) {
      if (axes[static_cast<size_t>(k)].is_padded()) mask(input, k, fill);
    }
  }
  void mean(std::vector<int> axes) { needs_.means[index_] = std::move(axes); }
  void reads_given_places() { needs_.given_places.insert(index_); }
  /// Whether a constant operand is given in every run.
  bool is_given(int k) const { return needs_.constants.contains(node_.input(k)); }

 private:
  Extents extents(const std::string& exact_name, const std::string& name) const {
    const Shape& exact = exact_.shape(exact_name);
    const Shape& padded = padded_.shape(name);
    Extents result;
    for (size_t k = 0; k < padded.size(); ++k) result.push_back({exact[k], padded[k]});
    return result;
  }
  static std::optional<std::vector<int64_t>> list(const TypedGraph& graph, const onnx::NodeProto& node,
                                                  int k) {
    if (k >= node.input_size() || node.input(k).empty()) return std::nullopt;
    const onnx::TensorProto* const constant = graph.constant(node.input(k));
    if (constant == nullptr) return std::nullopt;
    const Tensor tensor = tensor_from_proto(*constant, constant->name());
    std::vector<int64_t> values;
    for (int64_t at = 0; at < tensor.size(); ++at)
      values.push_back(static_cast<int64_t>(element_as_double(tensor, at)));
    return values;
  }

  int index_;
  const onnx::NodeProto& node_;
  const onnx::NodeProto& exact_node_;
  const TypedGraph& exact_;
  const TypedGraph& padded_;
  PadNeeds& needs_;
};

bool any_padded(const Extents& extents) {
  return std::ranges::any_of(extents, &Extent::is_padded);
}
bool any_padded_from(const Extents& extents, size_t first) {
  return std::any_of(extents.begin() + static_cast<ptrdiff_t>(std::min(first, extents.size())), extents.end(),
                     [](const Extent& extent) { return extent.is_padded(); });
}

/// Whether an operand is spread over a result in both graphs alike, axes counted from the last; `skip` last
/// axes aside.
bool is_spread_alike(const Extents& operand, const Extents& result, size_t skip_operand = 0,
                     size_t skip_result = 0) {
  if (operand.size() < skip_operand) return true;
  const size_t rank = operand.size() - skip_operand;
  const size_t result_rank = result.size() - skip_result;
  if (rank > result_rank) return false;
  for (size_t k = 0; k < rank; ++k) {
    const Extent& mine = operand[rank - 1 - k];
    if (!(mine == result[result_rank - 1 - k] || mine == Extent{})) return false;
  }
  return true;
}

constexpr const char* kSpread = "an operand of length 1 is spread over an axis that is padded";

std::string elementwise(Site& site) {
  const Extents result = site.output(0);
  for (int k = 0; k < site.node().input_size(); ++k) {
    if (site.has_input(k) && !is_spread_alike(site.input(k), result)) return kSpread;
  }
  return "";
}

/// Dividing integers by what may be 0 is an error.
std::string division(Site& site) {
  const DataType type = site.input_type(1);
  if (type != DataType::kFloat32 && type != DataType::kFloat64 && type != DataType::kFloat16 &&
      type != DataType::kBfloat16)
    site.mask_all(1, PadFill::kOne);
  return elementwise(site);
}

std::string dropout(Site& site) {
  return site.has_input(2)                                ? "it may be training"
         : is_spread_alike(site.input(0), site.output(0)) ? ""
                                                          : kSpread;
}

/// Wherever an element goes, its place follows from its own, and what it is from nothing else.
std::string any_place(Site&) {
  return "";
}

std::string matrix_product(Site& site) {
  const Extents a = site.input(0);
  const Extents b = site.input(1);
  const Extents result = site.output(0);
  const int a_axis = static_cast<int>(a.size()) - 1;
  const int b_axis = std::max(static_cast<int>(b.size()) - 2, 0);
  const size_t own_axes = (a.size() > 1 ? 1 : 0) + (b.size() > 1 ? 1 : 0);
  if (!is_spread_alike(a, result, 2, own_axes) || !is_spread_alike(b, result, 2, own_axes)) return kSpread;
  if (a[static_cast<size_t>(a_axis)].is_padded()) {
    site.mask(0, a_axis, PadFill::kZero);
    site.mask(1, b_axis, PadFill::kZero);
  }
  return "";
}

std::string gemm(Site& site) {
  const int a_axis = site.integer("transA", 0) != 0 ? 0 : 1;
  const int b_axis = site.integer("transB", 0) != 0 ? 1 : 0;
  if (site.input(0)[static_cast<size_t>(a_axis)].is_padded()) {
    site.mask(0, a_axis, PadFill::kZero);
    site.mask(1, b_axis, PadFill::kZero);
  }
  return site.has_input(2) && !is_spread_alike(site.input(2), site.output(0)) ? kSpread : "";
}

/// Of an axis alone, where what is lowest counts for nothing.
std::string softmax(Site& site) {
  const Extents operand = site.input(0);
  const int axis = site.axis(site.integer("axis", -1), operand.size());
  if (operand[static_cast<size_t>(axis)].is_padded()) site.mask(0, axis, PadFill::kLowest);
  return "";
}

/// Axes that a reduction takes together.
std::vector<int> reduced_axes(const Site& site, size_t rank) {
  std::optional<std::vector<int64_t>> axes = site.integers("axes");
  if (!axes) axes = site.padded_list(1);
  std::vector<int> result;
  if (axes) {
    for (const int64_t axis : *axes) result.push_back(site.axis(axis, rank));
  }
  if (result.empty() && site.integer("noop_with_empty_axes", 0) == 0) {
    for (size_t k = 0; k < rank; ++k) result.push_back(static_cast<int>(k));
  }
  std::ranges::sort(result);
  return result;
}

template <PadFill fill>
std::string reduction(Site& site) {
  const Extents operand = site.input(0);
  if (site.has_input(1) && !site.padded_list(1)) return "the axes are no constants";
  for (const int axis : reduced_axes(site, operand.size())) {
    if (operand[static_cast<size_t>(axis)].is_padded()) site.mask(0, axis, fill);
  }
  return "";
}

bool is_float(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64;
}

std::string mean_over(Site& site, std::vector<int> axes) {
  const Extents operand = site.input(0);
  bool is_padded = false;
  for (const int axis : axes) {
    if (!operand[static_cast<size_t>(axis)].is_padded()) continue;
    site.mask(0, axis, PadFill::kZero);
    is_padded = true;
  }
  if (!is_padded) return "";
  if (!is_float(site.input_type(0))) return "it is a mean of numbers that are no float32 or float64";
  site.mean(std::move(axes));
  return "";
}

std::string mean(Site& site) {
  return mean_over(site, reduced_axes(site, site.input(0).size()));
}

std::string global_average(Site& site) {
  std::vector<int> axes;
  for (int k = 2; k < static_cast<int>(site.input(0).size()); ++k) axes.push_back(k);
  return mean_over(site, std::move(axes));
}

template <PadFill fill>
std::string first_place(Site& site) {
  const Extents operand = site.input(0);
  const int axis = site.axis(site.integer("axis", 0), operand.size());
  if (!operand[static_cast<size_t>(axis)].is_padded()) return "";
  if (site.integer("select_last_index", 0) != 0)
    return "it looks for the last place along an axis that is padded";
  site.mask(0, axis, fill);
  return "";
}

/// A part of the axes of operand and result that has as many elements in both, in both graphs. What is
/// outside of the box stays behind it if only the slowest axis is padded.
std::string regroup(Site& site) {
  const Extents from = site.input(0);
  const Extents to = site.output(0);
  const std::string reason = "its elements move from an axis that is padded to others";
  const auto grow = [](Extent& product, const Extent& extent) {
    product.exact *= extent.exact;
    product.padded *= extent.padded;
  };
  size_t i = 0;
  size_t j = 0;
  while (i < from.size() || j < to.size()) {
    const size_t first_i = i;
    const size_t first_j = j;
    Extent mine;
    Extent theirs;
    do {
      const bool takes_mine =
          j == to.size() ||
          (i < from.size() && std::pair(mine.padded, mine.exact) <= std::pair(theirs.padded, theirs.exact));
      if (takes_mine && i < from.size()) {
        grow(mine, from[i++]);
      } else if (j < to.size()) {
        grow(theirs, to[j++]);
      } else {
        return reason;
      }
    } while (!(mine == theirs));
    if (mine.exact == 0 || mine.padded == 0) return reason;
    const auto only_slowest = [](const Extents& extents, size_t begin, size_t end) {
      while (begin < end && extents[begin] == Extent{}) ++begin;
      for (size_t k = begin + 1; k < end; ++k) {
        if (extents[k].is_padded()) return false;
      }
      return true;
    };
    if (!only_slowest(from, first_i, i) || !only_slowest(to, first_j, j)) return reason;
  }
  return "";
}

std::string concat(Site& site) {
  const auto axis = static_cast<size_t>(site.axis(site.integer("axis", 0), site.output(0).size()));
  for (int k = 0; k + 1 < site.node().input_size(); ++k) {
    if (site.input(k)[axis].is_padded()) return "it appends to an axis that is padded";
  }
  return "";
}

std::string split(Site& site) {
  const Extents operand = site.input(0);
  const auto axis = static_cast<size_t>(site.axis(site.integer("axis", 0), operand.size()));
  for (int k = 0; k < site.node().output_size(); ++k) {
    if (operand[axis].is_padded() || (site.has_output(k) && site.output(k)[axis].is_padded()))
      return "it splits an axis at places that depend on its length";
  }
  return "";
}

std::string slice(Site& site) {
  const Extents operand = site.input(0);
  const Extents result = site.output(0);
  const auto starts = site.exact_list(1);
  const auto padded_starts = site.padded_list(1);
  if (!starts || !padded_starts) return "where it begins is no constant";
  std::optional<std::vector<int64_t>> axes = site.padded_list(3);
  if (!axes) {
    axes.emplace();
    for (size_t k = 0; k < starts->size(); ++k) axes->push_back(static_cast<int64_t>(k));
  }
  const auto steps = site.padded_list(4);
  for (size_t k = 0; k < axes->size(); ++k) {
    const auto axis = static_cast<size_t>(site.axis((*axes)[k], operand.size()));
    const int64_t step = steps ? (*steps)[k] : 1;
    const auto begin = [&](int64_t start, int64_t extent) {
      const int64_t at = start < 0 ? start + extent : start;
      return std::clamp<int64_t>(at, 0, step < 0 ? std::max<int64_t>(extent - 1, 0) : extent);
    };
    const int64_t exact_begin = begin((*starts)[k], operand[axis].exact);
    const int64_t padded_begin = begin((*padded_starts)[k], operand[axis].padded);
    if (exact_begin == padded_begin && (step > 0 || !operand[axis].is_padded())) continue;
    if (step != 1 || axes->size() != 1 || result[axis].is_padded())
      return "it begins at places that depend on the length of an axis that is padded";
    site.reads_given_places();
  }
  return "";
}

std::string gather(Site& site) {
  const Extents data = site.input(0);
  const auto axis = static_cast<size_t>(site.axis(site.integer("axis", 0), data.size()));
  if (!site.is_constant(1)) {
    if (data[axis].is_padded())
      return "its indices, which may count from the end, aren't known, and their axis is padded";
    site.mask_all(1, PadFill::kZero);
    return "";
  }
  const auto is_negative = [](int64_t index) { return index < 0; };
  if (data[axis].is_padded() && (std::ranges::any_of(*site.padded_list(1), is_negative) ||
                                 std::ranges::any_of(*site.exact_list(1), is_negative))) {
    if (any_padded(site.input(1)) || site.is_given(1))
      return "its indices count from the end of an axis that is padded, and depend on lengths";
    site.reads_given_places();
  }
  return "";
}

/// Places in data that aren't padded: what is no place is masked.
std::string gather_elements(Site& site) {
  if (any_padded(site.input(0))) return "the data that it reads are padded";
  if (!site.is_constant(1)) site.mask_all(1, PadFill::kZero);
  return "";
}

std::string gather_points(Site& site) {
  if (site.input(1).back().is_padded()) return "its places have other axes for other lengths";
  if (site.integer("batch_dims", 0) != 0) return "it reads in batches";
  return gather_elements(site);
}

std::string expand(Site& site) {
  return is_spread_alike(site.input(0), site.output(0)) ? "" : kSpread;
}

std::string tile(Site& site) {
  const Extents operand = site.input(0);
  const Extents result = site.output(0);
  for (size_t k = 0; k < operand.size(); ++k) {
    if (operand[k].is_padded() && !(operand[k] == result[k])) return "it repeats an axis that is padded";
  }
  return "";
}

std::string running_sum(Site& site) {
  const auto axes = site.padded_list(1);
  if (!axes) return "its axis is no constant";
  const Extents operand = site.input(0);
  const int axis = site.axis(axes->at(0), operand.size());
  if (site.integer("reverse", 0) != 0 && operand[static_cast<size_t>(axis)].is_padded())
    site.mask(0, axis, PadFill::kZero);
  return "";
}

std::string pad(Site& site) {
  const Extents operand = site.input(0);
  const auto pads = site.padded_list(1);
  const auto exact_pads = site.exact_list(1);
  if (!pads || !exact_pads || site.has_input(3)) return "how much it pads is no constant, or of some axes";
  const auto value = site.has_input(2) ? site.padded_list(2) : std::vector<int64_t>{0};
  const bool puts_zero = site.text("mode", "constant") == "constant" && value && value->at(0) == 0;
  for (size_t k = 0; k < operand.size(); ++k) {
    if ((*pads)[k] != (*exact_pads)[k]) return "where its data begin depends on lengths";
    if (!operand[k].is_padded()) continue;
    const int64_t end = (*pads)[k + operand.size()];
    if (end < 0 || (end > 0 && !puts_zero))
      return "it pads an axis that is padded with something else than zeros, or less at its end";
    if (end > 0) site.mask(0, static_cast<int>(k), PadFill::kZero);
  }
  return "";
}

/// Windows over axes from the third on; those that reach beyond the end find what `fill` is.
std::string windows(Site& site, PadFill fill) {
  const Extents operand = site.input(0);
  if (operand[1].is_padded()) return "its channels are padded";
  if (!any_padded_from(operand, 2)) return "";
  const std::string placed = site.text("auto_pad", "NOTSET");
  if (placed != "NOTSET" && placed != "VALID")
    return "where its windows are depends on the length of an axis that is padded";
  if (site.has_output(1)) return "places of maxima depend on the length of an axis that is padded";
  for (size_t k = 2; k < operand.size(); ++k) {
    if (operand[k].is_padded()) site.mask(0, static_cast<int>(k), fill);
  }
  return "";
}

std::string convolution(Site& site) {
  for (int k = 1; k < site.node().input_size(); ++k) {
    if (site.has_input(k) && any_padded(site.input(k))) return "its weights are padded";
  }
  return windows(site, PadFill::kZero);
}

std::string max_pool(Site& site) {
  return windows(site, PadFill::kLowest);
}

std::string global_max(Site& site) {
  const Extents operand = site.input(0);
  for (size_t k = 2; k < operand.size(); ++k) {
    if (operand[k].is_padded()) site.mask(0, static_cast<int>(k), PadFill::kLowest);
  }
  return "";
}

std::string batch_normalization(Site& site) {
  return site.input(0).size() > 1 && site.input(0)[1].is_padded() ? "its channels are padded" : "";
}

std::string layer_normalization(Site& site) {
  const Extents operand = site.input(0);
  const auto axis = static_cast<size_t>(site.axis(site.integer("axis", -1), operand.size()));
  return any_padded_from(operand, axis) ? "it normalizes over an axis that is padded" : "";
}

/// What is computed for every picture, row, … of the first axis by itself.
std::string each_by_itself(Site& site) {
  const Extents operand = site.input(0);
  if (any_padded_from(operand, 1)) return "an axis behind its first is padded";
  for (int k = 1; k < site.node().input_size(); ++k) {
    if (site.has_input(k) && any_padded(site.input(k))) return "an operand behind its first is padded";
  }
  for (int k = 0; k < site.node().output_size(); ++k) {
    if (!site.has_output(k)) continue;
    const Extents result = site.output(k);
    if (result.empty() || !(result[0] == operand[0]) || any_padded_from(result, 1))
      return "an axis of its results behind their first is padded";
  }
  return "";
}

/// Steps (axis 0) that come behind those that count change only the last state.
std::string recurrent(Site& site) {
  const Extents steps = site.input(0);
  if (steps.at(2).is_padded()) return "what a step reads is padded";
  if (site.integer("layout", 0) != 0) return "its batch comes first";
  if (site.has_input(4) && !site.is_constant(4)) return "the lengths of its samples are no constants";
  if (steps[0].is_padded() &&
      (site.text("direction", "forward") != "forward" || site.has_output(1) || site.has_output(2)))
    return "it begins or ends with the last of steps that are padded";
  return "";
}

std::string one_hot(Site& site) {
  return any_padded(site.input(1)) || any_padded(site.input(2)) ? "its depth is padded" : "";
}

using Rule = std::string (*)(Site&);

const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> kRules = [] {
    std::unordered_map<std::string, Rule> result = {
        {"ArgMax", first_place<PadFill::kLowest>},
        {"ArgMin", first_place<PadFill::kHighest>},
        {"AveragePool", each_by_itself},
        {"BatchNormalization", batch_normalization},
        {"Concat", concat},
        {"ConstantOfShape", any_place},
        {"Conv", convolution},
        {"ConvTranspose", each_by_itself},
        {"CumSum", running_sum},
        {"DepthToSpace", each_by_itself},
        {"Div", division},
        {"Dropout", dropout},
        {"Expand", expand},
        {"EyeLike", any_place},
        {"Flatten", regroup},
        {"GRU", recurrent},
        {"Gather", gather},
        {"GatherElements", gather_elements},
        {"GatherND", gather_points},
        {"Gemm", gemm},
        {"GlobalAveragePool", global_average},
        {"GlobalMaxPool", global_max},
        {"GridSample", each_by_itself},
        {"Hardmax", softmax},
        {"InstanceNormalization", each_by_itself},
        {"LRN", each_by_itself},
        {"LSTM", recurrent},
        {"LayerNormalization", layer_normalization},
        {"LogSoftmax", softmax},
        {"MatMul", matrix_product},
        {"MaxPool", max_pool},
        {"Mod", division},
        {"OneHot", one_hot},
        {"Pad", pad},
        {"RNN", recurrent},
        {"ReduceL1", reduction<PadFill::kZero>},
        {"ReduceL2", reduction<PadFill::kZero>},
        {"ReduceLogSum", reduction<PadFill::kZero>},
        {"ReduceLogSumExp", reduction<PadFill::kLowest>},
        {"ReduceMax", reduction<PadFill::kLowest>},
        {"ReduceMean", mean},
        {"ReduceMin", reduction<PadFill::kHighest>},
        {"ReduceProd", reduction<PadFill::kOne>},
        {"ReduceSum", reduction<PadFill::kZero>},
        {"ReduceSumSquare", reduction<PadFill::kZero>},
        {"Reshape", regroup},
        {"Resize", each_by_itself},
        {"Slice", slice},
        {"Softmax", softmax},
        {"SpaceToDepth", each_by_itself},
        {"Split", split},
        {"Squeeze", regroup},
        {"Tile", tile},
        {"Transpose", any_place},
        {"Trilu", any_place},
        {"Unsqueeze", regroup},
    };
    for (const char* name : {"Abs",
                             "Acos",
                             "Acosh",
                             "Add",
                             "And",
                             "Asin",
                             "Asinh",
                             "Atan",
                             "Atanh",
                             "BitShift",
                             "Cast",
                             "CastLike",
                             "Ceil",
                             "Celu",
                             "Clip",
                             "Cos",
                             "Cosh",
                             "Elu",
                             "Equal",
                             "Erf",
                             "Exp",
                             "Floor",
                             "Greater",
                             "GreaterOrEqual",
                             "HardSigmoid",
                             "HardSwish",
                             "Identity",
                             "IsInf",
                             "IsNaN",
                             "LeakyRelu",
                             "Less",
                             "LessOrEqual",
                             "Log",
                             "Max",
                             "Mean",
                             "Min",
                             "Mul",
                             "Neg",
                             "Not",
                             "Or",
                             "PRelu",
                             "Pow",
                             "Reciprocal",
                             "Relu",
                             "Round",
                             "Selu",
                             "Shrink",
                             "Sigmoid",
                             "Sign",
                             "Sin",
                             "Sinh",
                             "Softplus",
                             "Softsign",
                             "Sqrt",
                             "Sub",
                             "Sum",
                             "Tan",
                             "Tanh",
                             "ThresholdedRelu",
                             "Where",
                             "Xor"})
      result.emplace(name, elementwise);
    return result;
  }();
  return kRules;
}

bool same_elements(const onnx::TensorProto& a, const onnx::TensorProto& b) {
  if (a.has_raw_data() && b.has_raw_data()) return a.raw_data() == b.raw_data();
  return tensor_from_proto(a, a.name()) == tensor_from_proto(b, b.name());
}

/// Whether the exact constant is what the padded one has in its box.
bool is_box_of(const Tensor& exact, const Tensor& padded) {
  if (exact.type() != padded.type() || exact.rank() != padded.rank() || !exact.strings().empty())
    return false;
  const Shape& extents = exact.shape();
  for (size_t k = 0; k < extents.size(); ++k) {
    if (extents[k] > padded.shape()[k]) return false;
  }
  const auto size = static_cast<int64_t>(exact.bytes().size()) / std::max<int64_t>(exact.size(), 1);
  Shape index(extents.size(), 0);
  for (int64_t at = 0; at < exact.size(); ++at) {
    int64_t place = 0;
    for (size_t k = 0; k < extents.size(); ++k) place = place * padded.shape()[k] + index[k];
    if (!std::equal(exact.bytes().begin() + at * size, exact.bytes().begin() + (at + 1) * size,
                    padded.bytes().begin() + place * size))
      return false;
    for (size_t k = extents.size(); k-- > 0;) {
      if (++index[k] < extents[k]) break;
      index[k] = 0;
    }
  }
  return true;
}

/// Names of constants that some node reads as what decides its shape, and those that one reads otherwise.
struct ConstantUses {
  std::set<std::string> shapes;
  std::set<std::string> values;
};

ConstantUses uses_of_constants(const TypedGraph& graph) {
  ConstantUses uses;
  for (const onnx::NodeProto& node : graph.proto().node()) {
    const std::vector<int> lists = shape_inputs(node);
    for (int k = 0; k < node.input_size(); ++k) {
      if (graph.constant(node.input(k)) == nullptr) continue;
      (std::ranges::find(lists, k) != lists.end() ? uses.shapes : uses.values).insert(node.input(k));
    }
  }
  for (const auto& output : graph.proto().output()) {
    if (graph.constant(output.name()) != nullptr) uses.values.insert(output.name());
  }
  return uses;
}

/// `differing` receives all that aren't the same.
std::string find_constants(const TypedGraph& exact, const TypedGraph& padded, PadNeeds& needs,
                           std::set<std::string>& differing) {
  const ConstantUses uses = uses_of_constants(padded);
  for (const auto& tensor : padded.proto().initializer()) {
    const onnx::TensorProto* const other = exact.constant(tensor.name());
    if (other == nullptr) {
      if (!uses.shapes.contains(tensor.name()) && !uses.values.contains(tensor.name())) continue;
      return fmt::format("constant '{}' follows from other nodes", tensor.name());
    }
    const bool same_shape = std::ranges::equal(tensor.dims(), other->dims());
    if (same_shape && same_elements(tensor, *other)) continue;
    differing.insert(tensor.name());
    if (!uses.values.contains(tensor.name())) continue;  // rules look at shapes
    if (is_box_of(tensor_from_proto(*other, tensor.name()), tensor_from_proto(tensor, tensor.name())))
      continue;
    if (uses.shapes.contains(tensor.name()))
      return fmt::format("'{}', which depends on lengths, is computed with and decides shapes",
                         tensor.name());
    needs.constants.insert(tensor.name());
  }
  return "";
}

bool is_alike(const onnx::NodeProto& a, const onnx::NodeProto& b) {
  return a.op_type() == b.op_type() && a.domain() == b.domain() && std::ranges::equal(a.input(), b.input()) &&
         std::ranges::equal(a.output(), b.output());
}

}  // namespace

bool PadNeeds::covers(const PadNeeds& other) const {
  return std::ranges::includes(masks, other.masks) && std::ranges::includes(means, other.means) &&
         std::ranges::includes(given_places, other.given_places) &&
         std::ranges::includes(constants, other.constants);
}

TypedGraph::TypedGraph(const onnx::GraphProto& graph) : graph_(graph) {
  for (const auto& [name, type] : collect_types(graph)) {
    const auto shape = static_shape(type);
    if (!shape) continue;
    shapes_[name] = *shape;
    types_[name] = static_cast<DataType>(type.tensor_type().elem_type());
  }
  for (const auto& tensor : graph.initializer()) constants_[tensor.name()] = &tensor;
}

const onnx::TensorProto* TypedGraph::constant(const std::string& name) const {
  const auto found = constants_.find(name);
  return found == constants_.end() ? nullptr : found->second;
}

std::string find_pad_needs(const TypedGraph& exact, const TypedGraph& padded, PadNeeds& needs) {
  if (exact.proto().node_size() != padded.proto().node_size())
    return "other nodes are left for other lengths";
  std::set<std::string> differing;
  if (std::string reason = find_constants(exact, padded, needs, differing); !reason.empty()) return reason;
  for (int k = 0; k < padded.proto().node_size(); ++k) {
    const onnx::NodeProto& node = padded.proto().node(k);
    const onnx::NodeProto& other = exact.proto().node(k);
    const auto fail = [&](const std::string& reason) {
      return fmt::format("{}: {}", describe_node(node), reason);
    };
    if (!is_alike(node, other)) return fail("other nodes are left for other lengths");
    bool touches = false;
    bool ranks_differ = false;
    const auto look = [&](const std::string& name) {
      if (name.empty()) return;
      touches |= exact.shape(name) != padded.shape(name) || differing.contains(name);
      ranks_differ |= exact.shape(name).size() != padded.shape(name).size();
    };
    for (const std::string& name : node.input()) look(name);
    for (const std::string& name : node.output()) look(name);
    if (ranks_differ && !node.input().empty()) {
      // Lists of axes or extents may have any length; data may not.
      for (const std::string& name : node.output()) {
        if (!name.empty() && exact.shape(name).size() != padded.shape(name).size())
          return fail("its results have other axes for other lengths");
      }
    }
    if (!touches) continue;
    if (is_random(node)) return fail("it draws random numbers");
    const auto rule = rules().find(node.domain().empty() ? node.op_type() : "");
    if (rule == rules().end()) return fail("nothing says what padding does to its results");
    Site site(k, exact, padded, needs);
    if (const std::string reason = rule->second(site); !reason.empty()) return fail(reason);
  }
  return "";
}

}  // namespace kodama::compiler
