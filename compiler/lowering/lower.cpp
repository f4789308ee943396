#include <algorithm>

#include "compiler/layers/fusion.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/node_lowering.h"
#include "compiler/reference/executor.h"
#include "compiler/reference/resolve.h"

namespace kodama::compiler {

namespace {

const OperatorTable& operator_table() {
  static const OperatorTable table = [] {
    OperatorTable rows;
    register_elementwise(rows);
    register_trigonometry(rows);
    register_reduce(rows);
    register_contract(rows);
    register_movement(rows);
    register_normalization(rows);
    register_pool(rows);
    register_logic(rows);
    register_indexing(rows);
    register_quantized(rows);
    register_regions(rows);
    register_resize(rows);
    register_recurrent(rows);
    register_scan(rows);
    register_einsum(rows);
    register_linear_algebra(rows);
    register_random(rows);
    register_training(rows);
    return rows;
  }();
  return table;
}

const OperatorRow* find_operator(const onnx::NodeProto& node) {
  const bool is_default = node.domain().empty() || node.domain() == "ai.onnx";
  const std::string name = is_default ? node.op_type() : node.domain() + "." + node.op_type();
  for (const OperatorRow& row : operator_table()) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

bool takes_integers(const OperatorRow& row) {
  return row.types == ElementTypes::kAllNumbers;
}
bool takes_doubles(const OperatorRow& row) {
  return row.types == ElementTypes::kReals || row.types == ElementTypes::kAllNumbers;
}
/// Whether it computes, and doesn't only move elements.
bool computes(const OperatorRow& row) {
  return row.types != ElementTypes::kAny && row.types != ElementTypes::kAnyFirst;
}

class GraphLowering {
 public:
  GraphLowering(const onnx::ModelProto& model, const LoweringOptions& options)
      : view_(model), options_(options), operators_(model) {
    graph_.name = model.graph().name();
  }

  LayerGraph run() {
    for (const auto& input : view_.graph().input()) {
      graph_.inputs.push_back(add_value(input.name()));
    }
    for (const auto& node : view_.nodes()) lower(node);
    for (const auto& output : view_.graph().output()) {
      const auto known = values_.find(output.name());
      if (known != values_.end()) {
        graph_.outputs.push_back(known->second);
        continue;
      }
      std::shared_ptr<const Tensor> constant = view_.shared_constant(output.name());
      isa::check_internal(constant != nullptr, "lower", "nothing makes the graph output '{}'", output.name());
      graph_.outputs.push_back(add_constant(output.name(), std::move(constant)));
    }
    for (const Check& check : graph_.checks) graph_.outputs.push_back(check.tensor);
    return std::move(graph_);
  }

 private:
  TensorId add_value(const std::string& name) {
    const auto& [type, shape] = view_.value(name);
    return values_[name] = graph_.add({name, type, shape, std::nullopt, -1});
  }

  TensorId add_constant(const std::string& name, ConstantValue value) {
    LayerTensor tensor{name, value->type(), value->shape(), std::move(value), -1};
    return values_[name] = graph_.add(std::move(tensor));
  }

  void lower(const onnx::NodeProto& node) {
    if (lower_to_constants(node)) return;
    const size_t tensors = graph_.tensors.size();
    const size_t layers = graph_.layers.size();
    const size_t checks = graph_.checks.size();
    const HostReason reason = try_lower(node);
    if (!reason) {
      for (size_t i = layers; i < graph_.layers.size(); ++i) check_points(node, graph_.layers[i]);
      return;
    }
    for (size_t i = layers; i < graph_.layers.size(); ++i) layer_names_.release(graph_.layers[i].name);
    graph_.layers.resize(layers);
    graph_.checks.resize(checks);
    graph_.tensors.resize(tensors);
    std::erase_if(values_, [&](const auto& value) { return static_cast<size_t>(value.second) >= tensors; });
    lower_to_host(node, *reason);
  }

  /// Numbers of cycles, bytes and words are computed from the points of a layer's iteration space.
  void check_points(const onnx::NodeProto& node, const Layer& layer) const {
    constexpr int64_t kMostPoints = int64_t{1} << 48;
    for (const AccessBox& box : layer_access_boxes(layer)) {
      int64_t points = 1;
      for (const int64_t extent : box.end) {
        if (!__builtin_mul_overflow(points, std::max<int64_t>(extent, 1), &points) && points <= kMostPoints)
          continue;
        throw isa::UnsupportedError(fmt::format("{}: {} are more than {} operations; split the node",
                                                view_.describe(node), shape_to_string(box.end), kMostPoints));
      }
    }
  }

  /// Constants that aren't initializers yet, and values without elements, which nobody has to compute.
  bool lower_to_constants(const onnx::NodeProto& node) {
    std::vector<Tensor> results;
    if (node.op_type() == "Constant" && node.domain().empty()) {
      results = run_node(node, {}, operators_);
    } else if (node.op_type() == "ConstantOfShape" && node.domain().empty()) {
      // Its shape is known, wherever it comes from.
      const Shape& shape = view_.shape(node.output(0));
      const Tensor extents =
          Tensor::from_values(DataType::kInt64, {static_cast<int64_t>(shape.size())}, shape);
      results = run_node(node, {&extents}, operators_);
    } else {
      for (int i = 0; i < node.output_size(); ++i) {
        if (!GraphView::has_output(node, i)) {
          results.emplace_back();
          continue;
        }
        const auto& [type, shape] = view_.value(node.output(i));
        if (element_count(shape) != 0) return false;
        results.emplace_back(type, shape);
      }
    }
    for (int i = 0; i < node.output_size(); ++i) {
      if (!GraphView::has_output(node, i)) continue;
      add_constant(node.output(i), std::move(results[i]));
    }
    return true;
  }

  HostReason try_lower(const onnx::NodeProto& node) {
    if (options_.force_host) return "everything is sent to the host";
    const OperatorRow* row = find_operator(node);
    if (row == nullptr) return "the operator has no decomposition into layers of the chip";
    for (int i = 0; i < node.input_size(); ++i) {
      if (!GraphView::has_input(node, i)) continue;
      const auto& [type, shape] = view_.value(node.input(i));
      // Integer operands after the first are axes, shapes and the like.
      const bool may_be_integer = takes_integers(*row) || (computes(*row) && i > 0);
      if (computes(*row) && !(may_be_integer && integer_type(type))) {
        if (auto reason = arithmetic_reason(*row, type)) return reason;
      }
      if (i == 0 && element_count(shape) == 0) return "the input has no elements";
    }
    const auto is_there = [](const std::string& name) { return !name.empty(); };
    const auto first = std::ranges::find_if(node.output(), is_there);
    if (computes(*row)) {
      if (first == node.output().end()) return "nobody reads its results";
      const DataType made = view_.type(*first);
      const bool makes_integers = takes_integers(*row) && integer_type(made);
      auto reason = makes_integers ? kLowered : arithmetic_reason(*row, made);
      if (reason) return reason;
    }
    for (int i = 1; i < node.input_size() && row->types != ElementTypes::kAnyFirst; ++i) {
      // Of a data operand, as in Concat; an empty list of axes means something.
      if (GraphView::has_input(node, i) && element_count(view_.shape(node.input(i))) == 0 &&
          view_.type(node.input(i)) == view_.type(node.input(0))) {
        return "an input has no elements";
      }
    }
    NodeLowering lowering(view_, node, graph_, values_, layer_names_);
    return row->decompose(lowering);
  }

  static HostReason arithmetic_reason(const OperatorRow& row, DataType type) {
    if (has_float_arithmetic(type)) return kLowered;
    if (type == DataType::kFloat64)
      return takes_doubles(row) ? kLowered : HostReason("it has no formula in double precision");
    return fmt::format("{} has no arithmetic on the chip's Map kernels", data_type_name(type));
  }

  void lower_to_host(const onnx::NodeProto& node, const std::string& reason) {
    NodeLowering lowering(view_, node, graph_, values_, layer_names_);
    std::vector<TensorId> inputs;
    for (int i = 0; i < node.input_size(); ++i)
      inputs.push_back(GraphView::has_input(node, i) ? lowering.input(i) : -1);
    std::string missing;
    if (!has_reference(node, operators_, &missing)) {
      const std::string why =
          fmt::format("neither the chip ({}) nor the CPU reference ({}) can compute it", reason, missing);
      if (!options_.refused) throw isa::UnsupportedError(view_.describe(node) + ": " + why);
      options_.refused(node, why);
    }
    std::vector<TensorId> outputs;
    for (int i = 0; i < node.output_size(); ++i) {
      outputs.push_back(GraphView::has_output(node, i) ? lowering.output(i) : -1);
    }
    isa::check_internal(!outputs.empty(), "lower", "{} has no outputs", view_.describe(node));
    lowering.add_layer("", HostLayer{resolve_node(node, operators_), reason}, outputs[0]);
    graph_.layers.back().host_inputs = std::move(inputs);
    graph_.layers.back().outputs = std::move(outputs);
  }

  GraphView view_;
  const LoweringOptions& options_;
  OperatorSets operators_;
  LayerGraph graph_;
  ValueTable values_;
  FreshNames layer_names_;
};

struct LayerPass {
  const char* name;
  void (*run)(LayerGraph&);
};
constexpr LayerPass kFusions[] = {
    {"channels-first", channels_first},     {"fuse-maps", fuse_maps},
    {"fuse-epilogues", fuse_epilogues},     {"fuse-reductions", fuse_reductions},
    {"merge-reductions", merge_reductions}, {"fuse-scales", fuse_scales},
    {"fold-rearranges", fold_rearranges}};

}  // namespace

const std::vector<std::string>& directly_lowered_operators() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const OperatorRow& row : operator_table()) list.emplace_back(row.name);
    return list;
  }();
  return names;
}

const std::vector<ChipOperator>& chip_operators() {
  static const std::vector<ChipOperator> operators = [] {
    std::vector<ChipOperator> list;
    for (const OperatorRow& row : operator_table())
      list.push_back({row.name, row.types == ElementTypes::kAny || row.types == ElementTypes::kAnyFirst,
                      takes_integers(row), takes_doubles(row), row.condition});
    return list;
  }();
  return operators;
}

const std::vector<std::string>& layer_pass_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list = {"lower"};
    for (const LayerPass& pass : kFusions) list.emplace_back(pass.name);
    return list;
  }();
  return names;
}

LayerGraph lower_to_layers(const onnx::ModelProto& model, const LoweringOptions& options,
                           const std::function<void(const std::string&, const LayerGraph&)>& observe) {
  LayerGraph graph = GraphLowering(model, options).run();
  const auto finish_pass = [&](const std::string& name) {
    drop_unused_tensors(graph);
    verify_layer_graph(graph, name);
    if (observe) observe(name, graph);
  };
  finish_pass("lower");
  if (options.fuse) {
    for (const LayerPass& pass : kFusions) {
      pass.run(graph);
      finish_pass(pass.name);
    }
  }
  return graph;
}

}  // namespace kodama::compiler
