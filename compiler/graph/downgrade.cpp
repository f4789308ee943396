#include "compiler/graph/downgrade.h"

#include <algorithm>
#include <array>
#include <set>

#include "compiler/graph/downgrade_rules.h"
#include "compiler/graph/expand_functions.h"
#include "compiler/graph/walk.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace {

using downgrade::ChangeRow;

/// Operands whose elements rules ask for are axes, sizes and the like.
constexpr int64_t kMostListElements = 1024;

const ChangeRow* find_row(const onnx::NodeProto& node) {
  if (!node.domain().empty()) return nullptr;
  const auto& table = downgrade::operator_changes();
  const auto row = std::ranges::find(table, node.op_type(), &ChangeRow::op);
  return row == table.end() ? nullptr : &*row;
}

/// One graph, or the body of a function; `outer` is the graph around it, whose values it sees.
class GraphDowngrade final : public downgrade::ValueKnowledge {
 public:
  GraphDowngrade(int64_t version, FreshNames& names, const std::string& where, const GraphDowngrade* outer)
      : version_(version), names_(names), where_(where), outer_(outer) {}

  void run(onnx::GraphProto& graph) {
    for (const auto* infos : {&graph.input(), &graph.value_info(), &graph.output()}) {
      for (const auto& info : *infos) {
        if (info.type().value_case() != onnx::TypeProto::VALUE_NOT_SET) types_[info.name()] = &info.type();
      }
    }
    for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
    run(*graph.mutable_node());
  }

  void run(google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    google::protobuf::RepeatedPtrField<onnx::NodeProto> old;
    old.Swap(&nodes);
    for (auto& node : old) {
      for (auto& attribute : *node.mutable_attribute()) {
        if (attribute.has_g()) GraphDowngrade(version_, names_, where_, this).run(*attribute.mutable_g());
        for (auto& graph : *attribute.mutable_graphs())
          GraphDowngrade(version_, names_, where_, this).run(graph);
      }
      const auto add = [&](onnx::NodeProto made) {
        auto& stored = *nodes.Add() = std::move(made);
        for (const std::string& output : stored.output()) producers_[output] = &stored;
        evaluate(stored);
      };
      const ChangeRow* row = find_row(node);
      if (row == nullptr) {
        add(std::move(node));
        continue;
      }
      downgrade::NodeDowngrade rewriting(std::move(node), version_, *this, names_, add, where_);
      row->rule(rewriting);
    }
  }

  std::shared_ptr<const Tensor> constant(const std::string& value) const override {
    const auto known = constants_.find(value);
    if (known != constants_.end()) return known->second;
    const auto initializer = initializers_.find(value);
    if (initializer != initializers_.end()) return decode(*initializer->second);
    const bool is_own = producers_.contains(value) || types_.contains(value);
    return is_own || outer_ == nullptr ? nullptr : outer_->constant(value);
  }

  DataType type(const std::string& value) const override { return type(value, 0); }

  std::optional<int> rank(const std::string& value) const override {
    const auto declared = types_.find(value);
    if (declared == types_.end()) {
      if (const auto it = initializers_.find(value); it != initializers_.end())
        return it->second->dims_size();
      return outer_ == nullptr ? std::nullopt : outer_->rank(value);
    }
    const auto& tensor = declared->second->tensor_type();
    return tensor.has_shape() ? std::optional(tensor.shape().dim_size()) : std::nullopt;
  }

  bool is_no_optional(const std::string& value) const override {
    std::string name = value;
    for (;;) {
      if (initializers_.contains(name)) return true;
      const auto declared = types_.find(name);
      if (declared != types_.end()) return !declared->second->has_optional_type();
      const auto producer = producers_.find(name);
      if (producer == producers_.end()) return outer_ != nullptr && outer_->is_no_optional(name);
      const onnx::NodeProto& node = *producer->second;
      if (node.op_type() != "Identity" || node.input_size() != 1)
        return node.domain().empty() && node.op_type() != "Optional" && !has_subgraph(node);
      name = node.input(0);
    }
  }

 private:
  static std::shared_ptr<const Tensor> decode(const onnx::TensorProto& tensor) {
    int64_t count = 1;
    for (int64_t extent : tensor.dims()) {
      if (__builtin_mul_overflow(count, extent, &count) || count > kMostListElements) return nullptr;
    }
    try {
      return std::make_shared<const Tensor>(tensor_from_proto(tensor, ""));
    } catch (const isa::UserError&) {
      return nullptr;  // whoever checks tensors says so
    }
  }

  DataType type(const std::string& value, int depth) const {
    constexpr DataType kUnknown = DataType::kUndefined;
    constexpr int kDeepest = 1000;
    const auto declared = types_.find(value);
    if (declared != types_.end()) {
      const auto& tensor = declared->second->tensor_type();
      if (tensor.elem_type() != kUnknown) return static_cast<DataType>(tensor.elem_type());
    }
    if (const auto it = initializers_.find(value); it != initializers_.end())
      return static_cast<DataType>(it->second->data_type());
    const auto producer = producers_.find(value);
    if (producer == producers_.end()) return outer_ == nullptr ? kUnknown : outer_->type(value, depth);
    if (const auto known = constants_.find(value); known != constants_.end()) return known->second->type();
    const onnx::NodeProto& node = *producer->second;
    static const std::set<std::string> kTruth = {"And",   "Equal", "Greater", "GreaterOrEqual",
                                                 "IsInf", "IsNaN", "Less",    "LessOrEqual",
                                                 "Not",   "Or",    "Xor"};
    static const std::set<std::string> kLikeFirst = {
        "Abs",        "Add",       "AveragePool", "BatchNormalization",
        "Ceil",       "Clip",      "Concat",      "Conv",
        "Div",        "Dropout",   "Exp",         "Expand",
        "Flatten",    "Floor",     "Gather",      "GatherElements",
        "GatherND",   "Gemm",      "Identity",    "MatMul",
        "Max",        "MaxPool",   "Min",         "Mod",
        "Mul",        "Neg",       "Pad",         "ReduceMax",
        "ReduceMean", "ReduceMin", "ReduceSum",   "Relu",
        "Reshape",    "Sigmoid",   "Slice",       "Softmax",
        "Split",      "Sqrt",      "Squeeze",     "Sub",
        "Tanh",       "Tile",      "Transpose",   "Unsqueeze"};
    if (!node.domain().empty()) return kUnknown;
    if (kTruth.contains(node.op_type())) return DataType::kBool;
    if (node.op_type() == "Cast") {
      const auto* to = find_attribute(node, "to");
      return to == nullptr ? kUnknown : static_cast<DataType>(to->i());
    }
    int like = 0;
    if (node.op_type() == "CastLike" || node.op_type() == "Where") {
      like = 1;
    } else if (!kLikeFirst.contains(node.op_type())) {
      return kUnknown;
    }
    if (depth > kDeepest || node.input_size() <= like) return kUnknown;
    return type(node.input(like), depth + 1);
  }

  /// Values that follow from constants in a few steps, as exporters write axes and sizes.
  void evaluate(const onnx::NodeProto& node) {
    static const std::set<std::string> kSimple = {"Add",    "Cast",     "Concat", "Constant", "Div",
                                                  "Gather", "Identity", "Mul",    "Neg",      "Reshape",
                                                  "Slice",  "Squeeze",  "Sub",    "Unsqueeze"};
    if (!node.domain().empty() || !kSimple.contains(node.op_type()) || node.output_size() != 1) return;
    std::vector<std::shared_ptr<const Tensor>> held;
    std::vector<const Tensor*> inputs;
    for (const std::string& name : node.input()) {
      held.push_back(name.empty() ? nullptr : constant(name));
      inputs.push_back(held.back().get());
      if (!name.empty() && inputs.back() == nullptr) return;
    }
    if (node.op_type() == "Constant") {
      const auto* value = find_attribute(node, "value");
      if (value != nullptr && (!value->has_t() || decode(value->t()) == nullptr)) return;
    }
    try {
      std::vector<Tensor> results = run_node(node, inputs, OperatorSets(kOpsetVersion));
      if (results.size() == 1 && results[0].size() <= kMostListElements)
        constants_[node.output(0)] = std::make_shared<const Tensor>(std::move(results[0]));
    } catch (const isa::UserError&) {  // a wrong node is reported when it is checked
    } catch (const isa::UnsupportedError&) {
    }
  }

  const int64_t version_;
  FreshNames& names_;
  const std::string& where_;
  const GraphDowngrade* outer_;
  std::unordered_map<std::string, const onnx::TypeProto*> types_;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers_;
  std::unordered_map<std::string, const onnx::NodeProto*> producers_;
  std::unordered_map<std::string, std::shared_ptr<const Tensor>> constants_;
};

std::string newer_type_name(int64_t type) {
  constexpr std::array kNames = {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
                                 "uint4",        "int4",           "float4e2m1"};
  constexpr int64_t kFirst = 17;
  if (type < kFirst || type >= kFirst + static_cast<int64_t>(kNames.size())) return "";
  return kNames[static_cast<size_t>(type - kFirst)];
}

/// Types of elements that came with IR version 9 and later.
void check_element_types(onnx::ModelProto& model, const std::string& where) {
  const auto check = [&](int64_t type, const std::string& what) {
    const std::string name = newer_type_name(type);
    if (name.empty()) return;
    throw isa::UnsupportedError(
        fmt::format("{}: {} has elements of type {}, which isn't supported; export the model with such "
                    "values as int8, float16 or bfloat16",
                    where, what, name));
  };
  for_each_tensor(model, [&](const onnx::TensorProto& tensor, const std::string& what) {
    check(tensor.data_type(), what);
  });
  for_each_graph(model, [&](const onnx::GraphProto& graph) {
    for (const auto* values : {&graph.input(), &graph.output(), &graph.value_info()}) {
      for (const auto& value : *values)
        check(value.type().tensor_type().elem_type(), fmt::format("value '{}'", value.name()));
    }
  });
  for_each_node(model, [&](const onnx::NodeProto& node) {
    if (!node.domain().empty()) return;
    for (const char* name : {"to", "dtype", "output_dtype"}) {
      if (const auto* attribute = find_attribute(node, name))
        check(attribute->i(), fmt::format("the result of {}", describe_node(node)));
    }
  });
}

int64_t imported(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  for (const auto& import : imports) {
    if (import.domain().empty()) return import.version();
  }
  return 0;
}

void set_imported(google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports) {
  for (auto& import : imports) {
    if (import.domain().empty()) import.set_version(kOpsetVersion);
  }
}

}  // namespace

void downgrade_opset(onnx::ModelProto& model, const std::string& where) {
  if (model.ir_version() > kIrVersion) {
    check_element_types(model, where);
    model.set_ir_version(kIrVersion);
  }
  const int64_t version = imported(model.opset_import());
  bool is_mixed = false;
  bool is_newer = version > kOpsetVersion;
  for (const auto& function : model.functions()) {
    const int64_t own = imported(function.opset_import());
    is_mixed |= own != 0 && own != version;
    is_newer |= own > kOpsetVersion;
  }
  if (!is_newer) return;
  check_element_types(model, where);
  if (!is_mixed) expand_local_functions(model, where);
  FreshNames names;
  for_each_graph(model, [&](const onnx::GraphProto& graph) { reserve_names(graph, names); });
  for (auto& function : *model.mutable_functions()) {
    for (const auto& input : function.input()) names.reserve(input);
    for (const auto& node : function.node()) {
      for (const auto& output : node.output()) names.reserve(output);
    }
  }
  for (auto& function : *model.mutable_functions()) {
    const int64_t own = imported(function.opset_import());
    if (own <= kOpsetVersion) continue;
    GraphDowngrade(own, names, fmt::format("{}: function '{}.{}'", where, function.domain(), function.name()),
                   nullptr)
        .run(*function.mutable_node());
    set_imported(*function.mutable_opset_import());
  }
  if (version > kOpsetVersion) {
    GraphDowngrade(version, names, where, nullptr).run(*model.mutable_graph());
    set_imported(*model.mutable_opset_import());
  }
}

std::vector<ChangedOperator> changed_operators() {
  std::vector<ChangedOperator> list;
  for (const ChangeRow& row : downgrade::operator_changes())
    list.push_back({row.op, row.versions, row.change, row.rule == downgrade::refuse_operator});
  return list;
}

}  // namespace kodama::compiler
