#include "compiler/graph/fold_constants.h"

#include <algorithm>
#include <memory>
#include <set>

#include "compiler/graph/infer_types.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {

namespace {

int64_t byte_count(DataType type, const Shape& shape) {
  // Strings have no fixed size; what matters is the order of magnitude.
  const int64_t element = std::max<int64_t>(1, static_cast<int64_t>(element_size(type)));
  int64_t bytes = element;
  for (int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return std::numeric_limits<int64_t>::max();
  }
  return bytes;
}

class ConstantFolder {
 public:
  ConstantFolder(onnx::ModelProto& model, int64_t limit, int64_t largest_total, bool integers_only)
      : graph_(*model.mutable_graph()),
        limit_(limit),
        integers_only_(integers_only),
        largest_total_(largest_total),
        operators_(model),
        types_(collect_types(model.graph())),
        names_(names_of(model.graph())) {
    std::unordered_set<std::string> inputs;
    for (const auto& input : graph_.input()) inputs.insert(input.name());
    for (int i = 0; i < graph_.initializer_size(); ++i) {
      // An initializer that is an input as well is only a default.
      if (!inputs.contains(graph_.initializer(i).name())) initializers_[graph_.initializer(i).name()] = i;
    }
    for (const auto& output : graph_.output()) outputs_.insert(output.name());
    for (const auto& tensor : graph_.initializer()) count(bytes_of(tensor.name()), 1);
    for (const auto& node : graph_.node()) {
      for (const std::string& input : node.input()) ++readers_[input];
      if (!has_subgraph(node)) continue;
      for (const std::string& name : names_read(node)) ++readers_[name];
    }
  }

  bool run() {
    std::vector<bool> dead(graph_.node_size(), false);
    bool any = false;
    for (int i = 0; i < graph_.node_size(); ++i) {
      onnx::NodeProto& node = *graph_.mutable_node(i);
      if (is_constant_output(node) || (integers_only_ && !makes_integers(node))) continue;
      std::vector<Tensor> results;
      if (!fold_shape(node, results) && !evaluate(node, results)) continue;
      any = true;
      dead[i] = true;
      for (int k = 0; k < node.output_size(); ++k) {
        if (!node.output(k).empty()) add_constant(node.output(k), std::move(results[k]));
      }
      for (const std::string& input : node.input()) forget_reader(input);
    }
    remove_nodes(graph_, [&](int i) { return dead[i]; });
    auto& constants = *graph_.mutable_initializer();
    constants.erase(std::remove_if(constants.begin(), constants.end(),
                                   [&](const auto& tensor) { return unread_.contains(tensor.name()); }),
                    constants.end());
    // First in the graph: nodes that read such an output come after it.
    const int kept = graph_.node_size();
    for (auto& node : identities_) *graph_.add_node() = std::move(node);
    auto& nodes = *graph_.mutable_node();
    std::rotate(nodes.pointer_begin(), nodes.pointer_begin() + kept, nodes.pointer_end());
    return any;
  }

 private:
  /// The Identity that stands for a constant graph output.
  bool is_constant_output(const onnx::NodeProto& node) const {
    return node.op_type() == "Identity" && node.domain().empty() && outputs_.contains(node.output(0)) &&
           initializers_.contains(node.input(0));
  }

  bool makes_integers(const onnx::NodeProto& node) const {
    return std::all_of(node.output().begin(), node.output().end(), [&](const std::string& name) {
      const auto type = types_.find(name);
      if (type == types_.end()) return false;
      const auto element = static_cast<DataType>(type->second.tensor_type().elem_type());
      return element == DataType::kInt32 || element == DataType::kInt64;
    });
  }

  std::shared_ptr<const Tensor> constant(const std::string& name) {
    const auto cached = cache_.find(name);
    if (cached != cache_.end()) return cached->second;
    const auto it = initializers_.find(name);
    if (it == initializers_.end()) return nullptr;
    auto tensor = std::make_shared<const Tensor>(
        tensor_from_proto(graph_.initializer(it->second), "initializer '" + name + "'"));
    cache_[name] = tensor;
    return tensor;
  }

  int64_t bytes_of(const std::string& name) const {
    const auto type = types_.find(name);
    if (type == types_.end()) return 0;
    const auto shape = static_shape(type->second);
    return shape ? byte_count(static_cast<DataType>(type->second.tensor_type().elem_type()), *shape) : 0;
  }

  /// A constant that nobody reads any more gives its memory back.
  void forget_reader(const std::string& name) {
    const auto readers = readers_.find(name);
    if (readers == readers_.end() || --readers->second > 0 || outputs_.contains(name)) return;
    const auto constant = initializers_.find(name);
    if (constant == initializers_.end()) return;
    count(bytes_of(name), -1);
    onnx::TensorProto& tensor = *graph_.mutable_initializer(constant->second);
    onnx::TensorProto empty;
    empty.set_name(name);
    tensor.Swap(&empty);
    unread_.insert(name);
    cache_.erase(name);
    initializers_.erase(constant);
  }

  bool is_constant(const std::string& name) const {
    return cache_.contains(name) || initializers_.contains(name);
  }

  bool fold_shape(const onnx::NodeProto& node, std::vector<Tensor>& results) {
    const auto type = node.input_size() == 0 ? types_.end() : types_.find(node.input(0));
    if (type == types_.end()) return false;
    if (node.op_type() == "EyeLike" && node.domain().empty()) return fold_eye(node, type->second, results);
    auto value = value_of_shape(node, type->second);
    if (!value) return false;
    results.push_back(std::move(*value));
    return true;
  }

  /// Of an EyeLike's operand, only the shape matters.
  bool fold_eye(const onnx::NodeProto& node, const onnx::TypeProto& type, std::vector<Tensor>& results) {
    const auto shape = static_shape(type);
    const int64_t made = bytes_of(node.output(0));
    if (!shape || made == 0 || made > limit_ || !may_grow(node, made)) return false;
    const Tensor like(static_cast<DataType>(type.tensor_type().elem_type()), *shape);
    try {
      results = run_node(node, {&like}, operators_);
    } catch (const isa::Error&) {
      return false;
    }
    return true;
  }

  bool evaluate(const onnx::NodeProto& node, std::vector<Tensor>& results) {
    if (is_random(node) || has_subgraph(node)) return false;
    const bool all_constant =
        std::all_of(node.input().begin(), node.input().end(),
                    [&](const std::string& name) { return name.empty() || is_constant(name); });
    if (!all_constant) return false;
    int64_t allowed = 0;
    for (const std::string& input : node.input()) {
      const auto type = types_.find(input);
      if (type == types_.end()) continue;
      if (const auto shape = static_shape(type->second)) {
        allowed += byte_count(static_cast<DataType>(type->second.tensor_type().elem_type()), *shape);
      }
    }
    // A Constant node is in the model already.
    const bool is_there = node.op_type() == "Constant";  // in the model already
    allowed = is_there ? std::numeric_limits<int64_t>::max() : std::max(allowed, limit_);
    int64_t made = 0;
    for (const std::string& output : node.output()) {
      const int64_t bytes = bytes_of(output);
      if (bytes > allowed) return false;
      made += bytes;
    }
    if (!is_there && !may_grow(node, made)) return false;
    if (!has_reference(node, operators_)) return false;
    std::vector<std::shared_ptr<const Tensor>> tensors;
    std::vector<const Tensor*> inputs;
    for (const std::string& input : node.input()) {
      tensors.push_back(input.empty() ? nullptr : constant(input));
      inputs.push_back(tensors.back().get());
    }
    try {
      results = run_node(node, inputs, operators_);
    } catch (const isa::UserError&) {
      return false;
    } catch (const isa::UnsupportedError&) {
      return false;
    }
    // Only now is known what no type inference could tell.
    made = 0;
    for (size_t k = 0; k < results.size(); ++k) {
      const Tensor& tensor = results[k];
      check_declaration(node, static_cast<int>(k), tensor);
      const int64_t bytes = byte_count(tensor.type(), tensor.shape());
      if (bytes > allowed) return false;
      made += bytes;
    }
    return is_there || may_grow(node, made);
  }

  /// What the model says of a value whose shape its data decide was never checked.
  void check_declaration(const onnx::NodeProto& node, int output, const Tensor& value) const {
    if (node.output(output).empty()) return;
    const auto declared = types_.find(node.output(output));
    const auto shape = declared == types_.end() ? std::nullopt : static_shape(declared->second);
    if (!shape || *shape == value.shape()) return;
    throw isa::UserError(fmt::format(
        "{}: its output '{}' is {}, but the model says {}", describe_node(node), node.output(output),
        type_to_string(make_tensor_type(value.type(), value.shape())), type_to_string(declared->second)));
  }

  void count(int64_t bytes, int64_t sign) {
    total_ += sign * bytes;
    if (bytes <= limit_) small_total_ += sign * bytes;
  }

  /// Whether there may be `made` bytes of constants more, without what only the node reads. Of outputs within
  /// the limit only constants within it count: a model of many weights has masks and positions, too.
  bool may_grow(const onnx::NodeProto& node, int64_t made) const {
    constexpr int64_t kAlways = 4096;  // shapes and axes
    if (made <= kAlways) return true;
    int64_t freed = 0;
    for (const std::string& input : std::set<std::string>(node.input().begin(), node.input().end())) {
      const auto uses = std::count(node.input().begin(), node.input().end(), input);
      if (initializers_.contains(input) && !outputs_.contains(input) && readers_.at(input) == uses)
        freed += bytes_of(input);
    }
    const int64_t total = made <= limit_ ? small_total_ : total_;
    return made <= freed || total + made - freed <= largest_total_;
  }

  void add_constant(const std::string& name, Tensor tensor) {
    std::string stored = name;
    if (outputs_.contains(name)) {
      stored = names_.make_unique(name + "_constant");
      onnx::NodeProto identity;
      identity.set_op_type("Identity");
      identity.set_name(names_.make_unique(name + "_output"));
      identity.add_input(stored);
      identity.add_output(name);
      identities_.push_back(std::move(identity));
    }
    count(byte_count(tensor.type(), tensor.shape()), 1);
    initializers_[stored] = graph_.initializer_size();
    *graph_.add_initializer() = tensor_to_proto(tensor, stored);
    types_[name] = types_[stored] = make_tensor_type(tensor.type(), tensor.shape());
    // Nodes that read a graph output find it under its own name.
    cache_[name] = std::make_shared<const Tensor>(std::move(tensor));
  }

  onnx::GraphProto& graph_;
  const int64_t limit_;
  const bool integers_only_;
  const int64_t largest_total_;
  OperatorSets operators_;
  TypeMap types_;
  FreshNames names_;
  std::unordered_map<std::string, int> initializers_;
  std::unordered_map<std::string, std::shared_ptr<const Tensor>> cache_;
  std::unordered_set<std::string> outputs_;
  std::vector<onnx::NodeProto> identities_;
  int64_t total_ = 0;                             ///< bytes of all constants that something reads
  int64_t small_total_ = 0;                       ///< and of those within the limit
  std::unordered_map<std::string, int> readers_;  ///< inputs of nodes, by value
  std::unordered_set<std::string> unread_;        ///< constants that nobody reads any more
};

class NoOpRemover {
 public:
  explicit NoOpRemover(onnx::ModelProto& model)
      : graph_(*model.mutable_graph()), types_(collect_types(model.graph())) {
    for (int i = 0; i < graph_.initializer_size(); ++i) initializers_[graph_.initializer(i).name()] = i;
    for (const auto& output : graph_.output()) outputs_.insert(output.name());
    for (const auto& node : graph_.node()) {
      made_.insert(node.output().begin(), node.output().end());
      used_.insert(node.input().begin(), node.input().end());
    }
  }

  bool run() {
    std::vector<bool> dead(graph_.node_size(), false);
    bool any = false;
    for (int i = 0; i < graph_.node_size(); ++i) {
      onnx::NodeProto& node = *graph_.mutable_node(i);
      for (auto& input : *node.mutable_input()) {
        const auto alias = aliases_.find(input);
        if (alias != aliases_.end()) input = alias->second;
      }
      if (!is_no_op(node)) continue;
      const std::string source = node.input(0);
      const std::string result = node.output(0);
      if (!outputs_.contains(result)) {
        aliases_[result] = source;
        dead[i] = any = true;
      } else if (made_.contains(source) && !outputs_.contains(source) && !renames_.contains(source)) {
        renames_[source] = result;
        dead[i] = any = true;
      } else if (node.op_type() != "Identity") {
        node.set_op_type("Identity");
        node.clear_attribute();
        node.mutable_input()->DeleteSubrange(1, node.input_size() - 1);
        any = true;
      }
    }
    remove_nodes(graph_, [&](int i) { return dead[i]; });
    if (renames_.empty()) return any;
    for (auto& node : *graph_.mutable_node()) {
      for (auto* names : {node.mutable_input(), node.mutable_output()}) {
        for (auto& name : *names) {
          const auto rename = renames_.find(name);
          if (rename != renames_.end()) name = rename->second;
        }
      }
    }
    return any;
  }

 private:
  bool has_same_type(const onnx::NodeProto& node) const {
    const auto in = types_.find(node.input(0));
    const auto out = types_.find(node.output(0));
    if (in == types_.end() || out == types_.end()) return false;
    const auto in_shape = static_shape(in->second);
    return in_shape && in_shape == static_shape(out->second) &&
           in->second.tensor_type().elem_type() == out->second.tensor_type().elem_type();
  }

  const onnx::TensorProto* constant(const std::string& name) const {
    const auto it = initializers_.find(name);
    return it == initializers_.end() ? nullptr : &graph_.initializer(it->second);
  }

  bool is_no_op(const onnx::NodeProto& node) const {
    if (!node.domain().empty() || node.input_size() == 0 || node.input(0).empty()) return false;
    const std::string& op = node.op_type();
    if (op == "Identity") return true;
    if (op == "Dropout") {
      for (int i = 1; i < node.output_size(); ++i) {
        if (used_.contains(node.output(i)) || outputs_.contains(node.output(i))) return false;
      }
      if (node.input_size() < 3 || node.input(2).empty()) return true;
      const auto* training = constant(node.input(2));
      return training && element_as_double(tensor_from_proto(*training, describe_node(node)), 0) == 0;
    }
    if (!has_same_type(node)) return false;
    if (op == "Cast" || op == "CastLike" || op == "Reshape" || op == "Flatten" || op == "Squeeze" ||
        op == "Unsqueeze" || op == "Expand" || op == "Tile") {
      return true;
    }
    if (op == "Concat" || op == "Sum" || op == "Max" || op == "Min" || op == "Mean")
      return node.input_size() == 1;
    if (op == "Transpose") {
      const auto* perm = find_attribute(node, "perm");
      if (!perm) return static_shape(types_.at(node.input(0)))->size() < 2;
      return std::is_sorted(perm->ints().begin(), perm->ints().end());
    }
    if (op == "Slice") {  // the same extents forward are everything; backward they are the reverse
      if (node.input_size() < 5 || node.input(4).empty()) return true;
      const auto* steps = constant(node.input(4));
      if (!steps) return false;
      const Tensor values = tensor_from_proto(*steps, describe_node(node));
      for (int64_t i = 0; i < values.size(); ++i) {
        if (element_as_double(values, i) < 0) return false;
      }
      return true;
    }
    return false;
  }

  onnx::GraphProto& graph_;
  TypeMap types_;
  std::unordered_map<std::string, int> initializers_;
  std::unordered_set<std::string> outputs_;
  std::unordered_set<std::string> made_;
  std::unordered_set<std::string> used_;
  std::unordered_map<std::string, std::string> aliases_;
  std::unordered_map<std::string, std::string> renames_;
};

}  // namespace

std::optional<Tensor> value_of_shape(const onnx::NodeProto& node, const onnx::TypeProto& input) {
  if (!node.domain().empty() || (node.op_type() != "Shape" && node.op_type() != "Size")) return std::nullopt;
  const auto shape = static_shape(input);
  if (!shape) return std::nullopt;
  constexpr DataType kInt64 = DataType::kInt64;
  if (node.op_type() == "Size") return Tensor::from_values<int64_t>(kInt64, {}, {element_count(*shape)});
  const auto rank = static_cast<int64_t>(shape->size());
  const auto bound = [&](const char* name, int64_t absent) {
    const auto* attribute = find_attribute(node, name);
    int64_t value = attribute ? attribute->i() : absent;
    if (value < 0) value += rank;
    return std::clamp<int64_t>(value, 0, rank);
  };
  const int64_t start = bound("start", 0);
  const int64_t end = std::max(start, bound("end", rank));
  return Tensor::from_values<int64_t>(kInt64, {end - start},
                                      std::vector<int64_t>(shape->begin() + start, shape->begin() + end));
}

bool fold_constants(onnx::ModelProto& model, int64_t limit, int64_t total) {
  return ConstantFolder(model, limit, total, false).run();
}

bool fold_shapes(onnx::ModelProto& model) {
  return ConstantFolder(model, kDefaultFoldLimit, kFoldTotal, true).run();
}

void settle_types(onnx::ModelProto& model) {
  for (;;) {
    infer_types(model);
    if (!find_untyped_value(model.graph()) || !fold_constants(model)) return;
    prune_value_info(*model.mutable_graph());
  }
}

bool remove_no_ops(onnx::ModelProto& model) {
  return NoOpRemover(model).run();
}

}  // namespace kodama::compiler
