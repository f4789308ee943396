#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/tensor/value.h"

namespace kodama::compiler {

/// What of a node the executor decides by.
enum class NodeClass : uint8_t {
  kPlain,     ///< tensors to tensors: in a region as soon as its shapes are known
  kControl,   ///< If, Loop, Scan: the host says which graph runs, and when
  kSequence,  ///< makes or takes sequences or optionals: the host keeps those
};

/// By its schema in the operator sets that `model` imports; unknown operators are plain.
NodeClass class_of(const onnx::ModelProto& model, const onnx::NodeProto& node);

/// A graph of the model with what doesn't change from run to run: its live nodes in their order, what they
/// read. Refers to the model.
class GraphInfo {
 public:
  struct Node {
    const onnx::NodeProto* proto = nullptr;
    NodeClass node_class = NodeClass::kPlain;
    std::vector<std::string> reads;  ///< also of the graphs in it
    std::vector<std::unique_ptr<GraphInfo>> graphs;
  };

  /// `path` names the graph in reports: "main", "body of 'loop'". `outer` is the surrounding graph, or null.
  GraphInfo(const onnx::ModelProto& model, const onnx::GraphProto& graph, std::string path,
            const GraphInfo* outer);

  const onnx::GraphProto& proto() const { return graph_; }
  const std::string& path() const { return path_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  /// Of a body of Loop or Scan: inputs that in the next iteration are the outputs beside them.
  struct State {
    std::string input;
    std::string output;
    bool is_read = false;  ///< by others than the next iteration
  };
  const std::vector<State>& states() const { return states_; }
  /// Whether it may run many times in a run of the model: it is in a Loop or Scan.
  bool is_body() const { return is_repeated_ || (outer_ != nullptr && outer_->is_body()); }
  /// All names that its live nodes and its outputs read, each once.
  const std::vector<std::string>& names() const { return names_; }
  bool is_output(const std::string& name) const;
  /// An initializer of this graph or of one around it; null if there is none of this name.
  const onnx::TensorProto* constant(const std::string& name) const;
  /// The same as a value, decoded once.
  const Value* constant_value(const std::string& name) const;
  /// The info of a graph in one of its nodes.
  const GraphInfo& inner(const onnx::GraphProto& graph) const;
  /// Takes over what is known of `other`, of which this has all nodes.
  void take_states(const GraphInfo& other) { states_ = other.states_; }

 private:
  const onnx::GraphProto& graph_;
  std::string path_;
  void find_states(const onnx::ModelProto& model, const onnx::NodeProto& node);

  const GraphInfo* outer_;
  std::vector<State> states_;
  bool is_repeated_ = false;
  std::vector<Node> nodes_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, const onnx::TensorProto*> initializers_;
  mutable std::unordered_map<std::string, Value> decoded_;
  std::unordered_map<const onnx::GraphProto*, const GraphInfo*> inner_;
};

/// Values of a graph while it runs; names that aren't here are looked up in the surrounding graph's.
class Frame {
 public:
  struct Known {
    Value value;
    bool from_shapes = false;  ///< computed from shapes and constants alone
  };

  Frame(const GraphInfo& graph, const Frame* outer) : graph_(graph), outer_(outer) {}

  const GraphInfo& graph() const { return graph_; }
  /// Not initializers; null if there is no such value yet.
  const Known* find(const std::string& name) const;
  /// Also initializers.
  const Value* value(const std::string& name) const;
  void set(const std::string& name, Value value, bool from_shapes = false);
  /// Axes of a value that are of a dimension with a name.
  void name_axes(const std::string& name, std::map<int, std::string> axes);
  /// Those; null if nothing was said.
  const std::map<int, std::string>* named_axes(const std::string& name) const;

 private:
  const GraphInfo& graph_;
  const Frame* outer_;
  std::unordered_map<std::string, Known> values_;
  std::unordered_map<std::string, std::map<int, std::string>> axes_;
};

}  // namespace kodama::compiler
