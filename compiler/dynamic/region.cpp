#include "compiler/dynamic/region.h"

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "compiler/graph/fold_constants.h"
#include "compiler/graph/infer_types.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_rules.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace {

/// Lists that decide shapes have an element per axis; of floats these are the scales of Resize.
constexpr int64_t kMostListElements = 1024;

bool is_list(const Tensor& tensor) {
  const bool is_number = tensor.type() == DataType::kInt64 || tensor.type() == DataType::kInt32 ||
                         tensor.type() == DataType::kFloat32;
  return is_number && tensor.rank() <= 1 && tensor.size() <= kMostListElements;
}

class RegionPlanner {
 public:
  RegionPlanner(const onnx::ModelProto& model, const GraphInfo& graph, const std::vector<bool>& done,
                const Frame& frame, const RegionOptions& options)
      : model_(model), graph_(graph), done_(done), frame_(frame), options_(options) {}

  Region run() {
    find_candidates();
    if (!candidates_.empty()) infer();
    decide();
    if (candidates_.empty() || !region_.decided.empty()) return std::move(region_);
    choose();
    if (options_.most_nodes >= 0 && static_cast<int>(region_.nodes.size()) > options_.most_nodes)
      region_.nodes.resize(static_cast<size_t>(options_.most_nodes));
    if (region_.nodes.empty()) return std::move(region_);
    bind();
    make_model();
    return std::move(region_);
  }

 private:
  const onnx::NodeProto& node(int index) const { return *graph_.nodes()[static_cast<size_t>(index)].proto; }

  /// Nodes whose operands are there, or made by candidates before them.
  void find_candidates() {
    for (int k = 0; k < static_cast<int>(graph_.nodes().size()); ++k) {
      const GraphInfo::Node& info = graph_.nodes()[static_cast<size_t>(k)];
      if (done_[static_cast<size_t>(k)] || info.node_class != NodeClass::kPlain ||
          options_.refused.contains(k))
        continue;
      bool available = true;
      bool from_shapes = !is_random(*info.proto);
      const bool asks_shape_alone = info.proto->op_type() == "Shape" || info.proto->op_type() == "Size";
      for (const std::string& name : info.reads) {
        if (made_by_.contains(name)) {
          from_shapes &= asks_shape_alone || from_shapes_.contains(name);
          continue;
        }
        const Frame::Known* const known = frame_.find(name);
        if (known != nullptr) from_shapes &= asks_shape_alone || known->from_shapes;
        available &= known != nullptr ? known->value.is_tensor() : graph_.constant(name) != nullptr;
      }
      if (!available || (shape_depends_on_data(*info.proto) && !from_shapes)) continue;
      candidates_.push_back(k);
      for (const std::string& name : info.proto->output()) {
        if (name.empty()) continue;
        made_by_[name] = k;
        if (from_shapes) from_shapes_.insert(name);
      }
    }
  }

  bool may_bind(const std::string& name) const {
    const Frame::Known* const known = frame_.find(name);
    if (known == nullptr || !known->value.is_tensor() || !is_list(known->value.tensor())) return false;
    return known->value.element_type() != DataType::kFloat32 || decides_shape_.contains(name);
  }

  /// Types of what the candidates make, as far as they can be told.
  void infer() {
    for (const int k : candidates_) {
      for (const int input : shape_inputs(node(k))) {
        if (input < node(k).input_size()) decides_shape_.insert(node(k).input(input));
      }
    }
    onnx::ModelProto trial;
    trial.set_ir_version(kIrVersion);
    *trial.mutable_opset_import() = model_.opset_import();
    auto& graph = *trial.mutable_graph();
    graph.set_name(graph_.path());
    std::unordered_set<std::string> given;
    for (const int k : candidates_) {
      *graph.add_node() = node(k);
      for (const std::string& name : node(k).input()) {
        if (name.empty() || made_by_.contains(name) || !given.insert(name).second) continue;
        if (const Frame::Known* known = frame_.find(name); known != nullptr && may_bind(name)) {
          *graph.add_initializer() = tensor_to_proto(known->value.tensor(), name);
        } else if (known != nullptr) {
          add_input(graph, name, type_to_proto(known->value.type()));
        } else {
          add_constant(graph, name, kMostListElements);
        }
      }
    }
    infer_types(trial);
    types_ = collect_types(graph);
  }

  static void add_input(onnx::GraphProto& graph, const std::string& name, const onnx::TypeProto& type) {
    auto& input = *graph.add_input();
    input.set_name(name);
    *input.mutable_type() = type;
  }
  /// An initializer; only its type if it has more than `most` elements.
  void add_constant(onnx::GraphProto& graph, const std::string& name, int64_t most) const {
    const onnx::TensorProto& tensor = *graph_.constant(name);
    const Shape shape(tensor.dims().begin(), tensor.dims().end());
    if (element_count(shape) <= most) {
      *graph.add_initializer() = tensor;
      graph.mutable_initializer(graph.initializer_size() - 1)->set_name(name);
    } else {
      add_input(graph, name, make_tensor_type(static_cast<DataType>(tensor.data_type()), shape));
    }
  }

  bool is_static(const std::string& name) const {
    const auto type = types_.find(name);
    return type != types_.end() && static_shape(type->second).has_value() &&
           type->second.tensor_type().elem_type() != DataType::kUndefined;
  }

  /// Of Ifs that wait, the conditions that follow from shapes.
  void decide() {
    const OperatorSets operators(model_);
    for (int k = 0; k < static_cast<int>(graph_.nodes().size()); ++k) {
      const GraphInfo::Node& info = graph_.nodes()[static_cast<size_t>(k)];
      if (done_[static_cast<size_t>(k)] || info.node_class != NodeClass::kControl ||
          node(k).op_type() != "If")
        continue;
      const Tensor* const condition = value_from_shapes(node(k).input(0), operators);
      if (condition != nullptr && condition->type() == DataType::kBool && condition->size() == 1)
        region_.decided[k] = condition->data<bool>()[0];
    }
    region_.bound.assign(deciding_.begin(), deciding_.end());
  }

  /// Null if it isn't computed from shapes and constants alone, or isn't small.
  const Tensor* value_from_shapes(const std::string& name, const OperatorSets& operators) {
    if (const auto known = from_shapes_values_.find(name); known != from_shapes_values_.end())
      return known->second ? &*known->second : nullptr;
    std::optional<Tensor>& value = from_shapes_values_[name];
    const auto maker = made_by_.find(name);
    if (maker == made_by_.end()) {
      const Frame::Known* const known = frame_.find(name);
      if (known != nullptr && known->from_shapes) {
        value = known->value.tensor();
        deciding_.insert(name);
      }
      if (known == nullptr && graph_.constant(name) != nullptr) value = graph_.constant_value(name)->tensor();
      if (value && value->size() > kMostListElements) value.reset();
      return value ? &*value : nullptr;
    }
    const onnx::NodeProto& made = node(maker->second);
    if (!from_shapes_.contains(name) || !is_static(name)) return nullptr;
    if (element_count(*static_shape(types_.at(name))) > kMostListElements) return nullptr;
    if (made.op_type() == "Shape" || made.op_type() == "Size") {
      const auto type = types_.find(made.input(0));
      if (type != types_.end()) value = value_of_shape(made, type->second);
      return value ? &*value : nullptr;
    }
    std::vector<const Tensor*> inputs;
    for (const std::string& input : made.input()) {
      inputs.push_back(input.empty() ? nullptr : value_from_shapes(input, operators));
      if (!input.empty() && inputs.back() == nullptr) return nullptr;
    }
    std::vector<Tensor> results;
    try {
      results = run_node(made, inputs, operators);
    } catch (const isa::Error&) {  // whoever runs it says so
      return nullptr;
    }
    for (int k = 0; k < made.output_size(); ++k)
      from_shapes_values_[made.output(k)] = std::move(results[static_cast<size_t>(k)]);
    return &*from_shapes_values_[name];
  }

  void choose() {
    std::unordered_set<std::string> outside;  // made by candidates that aren't in the region
    for (const int k : candidates_) {
      const auto& outputs = node(k).output();
      const auto& inputs = node(k).input();
      const bool waits =
          std::ranges::any_of(inputs, [&](const auto& name) { return outside.contains(name); });
      const bool known =
          std::ranges::all_of(outputs, [&](const auto& name) { return name.empty() || is_static(name); });
      if (!waits && known) {
        region_.nodes.push_back(k);
        continue;
      }
      outside.insert(outputs.begin(), outputs.end());
      const bool is_there =
          std::ranges::none_of(inputs, [&](const auto& name) { return made_by_.contains(name); });
      if (is_there) region_.unknown.push_back(k);
    }
  }

  /// From operands that decide shapes back to values of the frame.
  void bind() {
    std::set<std::string> bound;
    std::vector<std::string> open;
    std::unordered_set<std::string> seen;
    const auto visit = [&](const std::string& name) {
      if (!name.empty() && seen.insert(name).second) open.push_back(name);
    };
    for (const int k : region_.nodes) {
      bool by_data = false;
      for (const int input : shape_inputs(node(k))) {
        if (input >= node(k).input_size()) continue;
        const std::string& name = node(k).input(input);
        visit(name);
        const Frame::Known* const known = frame_.find(name);
        by_data |=
            made_by_.contains(name) ? !from_shapes_.contains(name) : known != nullptr && !known->from_shapes;
      }
      if (by_data) region_.by_data.push_back(k);
    }
    while (!open.empty()) {
      const std::string name = std::move(open.back());
      open.pop_back();
      if (const auto maker = made_by_.find(name); maker != made_by_.end()) {
        const onnx::NodeProto& made = node(maker->second);
        if (made.op_type() == "Shape" || made.op_type() == "Size") continue;
        for (const std::string& input : made.input()) visit(input);
      } else if (may_bind(name)) {
        bound.insert(name);
      }
    }
    region_.bound.assign(bound.begin(), bound.end());
  }

  void make_model() {
    onnx::ModelProto& model = region_.model;
    model.set_ir_version(kIrVersion);
    *model.mutable_opset_import() = model_.opset_import();
    auto& graph = *model.mutable_graph();
    graph.set_name(graph_.path());
    const std::unordered_set<int> inside(region_.nodes.begin(), region_.nodes.end());
    std::unordered_set<std::string> given;
    for (const int k : region_.nodes) {
      *graph.add_node() = node(k);
      for (const std::string& name : node(k).input()) {
        if (name.empty() || made_by_.contains(name) || !given.insert(name).second) continue;
        const Frame::Known* const known = frame_.find(name);
        if (known == nullptr) {
          add_constant(graph, name, INT64_MAX);
        } else if (std::ranges::binary_search(region_.bound, name)) {
          *graph.add_initializer() = tensor_to_proto(known->value.tensor(), name);
        } else {
          add_input(graph, name, type_to_proto(known->value.type()));
          region_.inputs.push_back(name);
        }
      }
    }
    std::unordered_set<std::string> wanted;
    for (const auto& output : graph_.proto().output()) wanted.insert(output.name());
    for (int k = 0; k < static_cast<int>(graph_.nodes().size()); ++k) {
      if (done_[static_cast<size_t>(k)] || inside.contains(k)) continue;
      const auto& reads = graph_.nodes()[static_cast<size_t>(k)].reads;
      wanted.insert(reads.begin(), reads.end());
    }
    for (const int k : region_.nodes) {
      for (const std::string& name : node(k).output()) {
        if (!wanted.contains(name)) continue;
        region_.outputs.push_back({name, from_shapes_.contains(name)});
        auto& output = *graph.add_output();
        output.set_name(name);
        *output.mutable_type() = types_.at(name);
      }
    }
    isa::check_internal(graph.output_size() > 0, "plan_region", "nobody reads what a region of {} makes",
                        graph_.path());
  }

  const onnx::ModelProto& model_;
  const GraphInfo& graph_;
  const std::vector<bool>& done_;
  const Frame& frame_;
  const RegionOptions& options_;
  Region region_;
  std::vector<int> candidates_;
  std::unordered_map<std::string, int> made_by_;  ///< of candidates
  std::unordered_set<std::string> from_shapes_;   ///< of what they make
  std::unordered_set<std::string> decides_shape_;
  TypeMap types_;
  std::set<std::string> deciding_;  ///< values of the frame that conditions follow from
  std::map<std::string, std::optional<Tensor>> from_shapes_values_;  ///< nothing: it can't be told
};

}  // namespace

Region plan_region(const onnx::ModelProto& model, const GraphInfo& graph, const std::vector<bool>& done,
                   const Frame& frame, const RegionOptions& options) {
  return RegionPlanner(model, graph, done, frame, options).run();
}

}  // namespace kodama::compiler
