#pragma once

#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "builder/graph.h"
#include "compiler/tensor/fresh_names.h"

/// What a Graph has recorded. Private to builder.
namespace kodama::builder {

/// Where a value comes from.
enum class ValueKind : uint8_t { kInput, kParameter, kBuffer, kConstant, kBodyInput, kResult };

struct ValueRecord {
  ValueKind kind = ValueKind::kResult;
  std::string name;
  bool has_own_name = false;  ///< from the program; else it gives way to one that is
  onnx::TypeProto type;
  std::shared_ptr<const Tensor> known = nullptr;     ///< elements that are constant, if they are few
  std::shared_ptr<const Tensor> elements = nullptr;  ///< of a parameter, buffer or constant
  std::optional<Initial> initial = std::nullopt;     ///< or what draws them
  int block = 0;
  int node = -1;        ///< of a result
  bool is_used = true;  ///< false: an output that the node may leave out, and nobody has asked for it
  bool is_output = false;
  int gradient = -1;  ///< of a parameter: a value
};

struct NodeRecord {
  const onnx::OpSchema* schema = nullptr;
  std::string name;
  std::vector<int> inputs;   ///< values; -1: left out
  std::vector<int> outputs;  ///< values, also those that aren't used
  std::vector<onnx::AttributeProto> attributes = {};
  struct Body {
    std::string attribute;
    int block;
  };
  std::vector<Body> bodies = {};
  /// Attributes whose strings are names of values; `single` for one string.
  struct Names {
    std::string attribute;
    std::vector<int> values;
    bool single = false;
  };
  std::vector<Names> names = {};
  int block = 0;
  bool keeps_outputs = false;  ///< it can't do without those that nobody uses
};

/// The main graph, number 0, or the body of a node.
struct Block {
  int parent = -1;
  bool is_open = true;
  std::vector<int> nodes;
  std::vector<int> inputs;   ///< of a body
  std::vector<int> outputs;  ///< values
};

/// A node before its types are known.
struct NodeRequest {
  const onnx::OpSchema* schema = nullptr;
  Here here = Here::line();
  std::vector<Operand> operands = {};
  std::vector<onnx::AttributeProto> attributes = {};
  std::vector<std::pair<std::string, Body>> bodies = {};
  std::vector<NodeRecord::Names> names = {};
  int output_count = -1;  ///< where the operator has as many as there are; -1: as the bodies or operands say
  std::vector<std::string> output_names = {};  ///< wishes; empty: after the node
};

class Recorder : public std::enable_shared_from_this<Recorder> {
 public:
  Recorder(std::string name, uint64_t seed) : name_(std::move(name)), seed_(seed), blocks_(1) {}

  Value add(ValueRecord record, const std::string& name, bool in_scope, Here here);
  /// Of a node's results; those that the schema leaves to the node are there, too, and become part of it when
  /// they are used.
  std::vector<Value> record(const NodeRequest& request);
  void make_output(const Value& value, const std::string& name, Here here);
  std::vector<Value> backward(int loss, Here here);
  Value gradient(int parameter, Here here);

  /// The number of a value that is given to a function. UserError if it can't be used here.
  int use(const Value& value, Here here);
  Value handle(int id) { return {shared_from_this(), id}; }
  /// Of a value, with its type up to date.
  const ValueRecord& value(int id, Here here);
  int count() const { return static_cast<int>(values_.size()); }
  const ValueRecord& record_of(int id) const { return values_[static_cast<size_t>(id)]; }
  int find(const std::string& name) const;
  std::vector<int> of_kind(ValueKind kind) const;
  /// Of these the ones that a value depends on.
  std::vector<int> ancestors(int value, ValueKind kind) const;

  /// The model of these outputs, as it was recorded; with parameters that train as inputs if so asked.
  onnx::ModelProto export_model(const std::vector<int>& outputs, bool with_parameters = true) const;
  const std::vector<int>& outputs() const { return blocks_[0].outputs; }

  static std::shared_ptr<Recorder> of(const Value& value) { return value.recorder_; }
  static int id_of(const Value& value) { return value.id_; }

  size_t push_scope(const std::string& name);
  void pop_scope(size_t outer) { scope_.resize(std::min(outer, scope_.size())); }

 private:
  class Undo;
  struct Live;

  ValueRecord& at(int id) { return values_[static_cast<size_t>(id)]; }
  const NodeRecord& node_at(int id) const { return nodes_[static_cast<size_t>(id)]; }
  std::string claim(const std::string& wish, bool own, int id, Here here);
  int add_value(ValueRecord record, const std::string& name, bool own, Here here);

  std::vector<int> resolve_operands(const NodeRequest& request, const std::string& node_name);
  void check_kinds(const NodeRequest& request, const NodeRecord& node) const;
  int record_body(const Body& body, const std::string& name, const std::vector<onnx::TypeProto>& inputs,
                  Here here);
  void finish_body(int block, std::vector<Value> outputs, Here here);
  void record_bodies(const NodeRequest& request, NodeRecord& node);
  std::vector<onnx::TypeProto> body_inputs(const NodeRequest& request, const NodeRecord& node) const;
  int count_outputs(const NodeRequest& request, const NodeRecord& node) const;
  void infer(NodeRecord& node, Here here);
  /// Of nodes that take or make sequences or optionals.
  std::vector<onnx::TypeProto> infer_others(onnx::NodeProto proto, const NodeRecord& node) const;
  bool has_others(const std::vector<NodeRecord::Body>& bodies) const;
  onnx::TypeProto type_by_body(const NodeRecord& node, size_t output) const;

  onnx::ModelProto versions() const;
  onnx::NodeProto node_proto(const NodeRecord& node, const Live* live) const;
  onnx::GraphProto body_proto(int block, const Live* live) const;
  Live live_for(const std::vector<int>& outputs) const;

  std::string name_;
  uint64_t seed_;
  std::string scope_;  ///< "layers.0."
  std::vector<ValueRecord> values_;
  std::vector<NodeRecord> nodes_;
  std::vector<Block> blocks_;
  int block_ = 0;  ///< that nodes go to
  compiler::FreshNames node_names_;
  compiler::FreshNames value_names_;
  std::unordered_map<std::string, int> by_name_;
};

/// The model with what takes the place of its Gradient nodes; all extents of its inputs are known. `where`
/// begins the messages.
onnx::ModelProto with_gradients(onnx::ModelProto model, const std::string& where);
/// What Graph::model() returns, with these outputs.
onnx::ModelProto finished_model(const Recorder& recorder, const std::vector<int>& outputs,
                                const Extents& extents, Here here);

/// UserError that begins with a line of the program.
[[noreturn]] inline void fail(Here here, const std::string& message) {
  throw isa::UserError(here.location(), message);
}
/// Errors of `work` get the line in front.
template <typename Work>
auto with_line(Here here, const Work& work) {
  try {
    return work();
  } catch (const isa::UserError& error) {
    throw isa::UserError(here.location(), error.what());
  } catch (const isa::UnsupportedError& error) {
    throw isa::UnsupportedError(here.location().to_string() + ": " + error.what());
  }
}

/// The elements that numbers become. UserError if the type can't hold one of them.
Tensor constant_of(const Operand& numbers, DataType type, const std::string& what);

}  // namespace kodama::builder
