#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/reference/kernels/interpreter.h"
#include "compiler/tensor/value.h"

/// The CPU reference: executes ONNX graphs as the ONNX specification says, for opsets 1 to 17.
///
/// Numerics: integers wrap as in two's complement; float and double operators compute in their own type,
/// sums and dot products of float accumulate in double; float16 and bfloat16 compute in float and round
/// once per operator. Convolutions, matrix products and pooling of float that are worth it run on oneDNN,
/// which accumulates in float.
///
/// Errors: UserError for a node or a value that contradicts the specification (the message begins with the
/// node's name and operator), UnsupportedError for what has no reference. Nothing here crashes on a malformed
/// node or model.
namespace kodama::compiler {

/// What an operator's name means: the version of each imported operator set, and the functions that the
/// model itself defines. Functions are referred to, not copied: the model must outlive this.
class OperatorSets {
 public:
  /// ONNX's own operator set at `version`, nothing else.
  OperatorSets(int64_t version) : versions_{{"", version}} {}  // NOLINT: a version is a set of operators
  /// These versions by domain ("" is ONNX's own).
  explicit OperatorSets(std::map<std::string, int64_t> versions) : versions_(std::move(versions)) {}
  /// The imports and functions of a model. UserError if a domain is imported twice with different versions.
  explicit OperatorSets(const onnx::ModelProto& model);

  /// The imports of a function, which sees the same functions as its caller.
  OperatorSets with_imports_of(const onnx::FunctionProto& function) const;

  /// Version of `domain` ("" and "ai.onnx" are the same); 0 if it isn't imported.
  int64_t version(const std::string& domain) const;
  /// The model-local function that `node` calls; nullptr if it calls none.
  const onnx::FunctionProto* function(const onnx::NodeProto& node) const;

 private:
  OperatorSets() = default;

  std::map<std::string, int64_t> versions_;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
};

/// Whether run_node can execute `node`: it has a kernel, is a model-local function, or has a function body
/// of ONNX in which everything can be executed. If not, `reason` (unless null) says why in a sentence fit
/// for a report.
bool has_reference(const onnx::NodeProto& node, const OperatorSets& operators, std::string* reason = nullptr);

/// Domain ("" = ai.onnx) and name of every operator that has a kernel of its own.
std::vector<std::pair<std::string, std::string>> reference_operators();

/// Whether the node draws random numbers: the same in every run of a model, but others under another seed or
/// name of the node (compiler/reference/random.h).
bool is_random(const onnx::NodeProto& node);

/// Executes one node. `inputs` holds one pointer per input of the node, nullptr for an omitted optional
/// one. Returns one tensor per output of the node, in order; an output whose name is empty gets an
/// unspecified tensor.
std::vector<Tensor> run_node(const onnx::NodeProto& node, const std::vector<const Tensor*>& inputs,
                             const OperatorSets& operators);

/// For values of any kind. The node's graphs go to `run_subgraph`, by the names of their attributes.
std::vector<Value> run_node_on_values(const onnx::NodeProto& node, const std::vector<const Value*>& inputs,
                                      const OperatorSets& operators,
                                      const reference::SubgraphRunner& run_subgraph);

struct RunOptions {
  /// Return every value of the main graph (inputs, initializers, intermediate values), not just its outputs.
  bool keep_intermediates = false;
  /// Called for each value that a node of the main graph has made, in their order; what it makes of the value
  /// is what other nodes read, and what is returned.
  std::function<void(const std::string& name, Value& value)> made = {};
};

/// Executes the whole model: `inputs` gives a value to every graph input that has no initializer (and may
/// override those that have). Returns all graph outputs. UnsupportedError for outputs that are no tensors.
TensorMap run_graph(const onnx::ModelProto& model, const TensorMap& inputs, const RunOptions& options = {});
/// The same for values of any kind. A value that isn't optional may be given where the model declares an
/// optional.
ValueMap run_graph_on_values(const onnx::ModelProto& model, const ValueMap& inputs,
                             const RunOptions& options = {});

/// Checks a value for a graph input against its declaration and returns it as declared: what is given for an
/// optional becomes one. `symbols` holds the extents that symbolic dimensions have got so far. UserError.
Value check_graph_input(const onnx::ValueInfoProto& declared, const Value& value,
                        std::map<std::string, int64_t>& symbols);
/// What is given where an optional is declared becomes one; other values as they are.
Value as_declared(const onnx::ValueInfoProto& declared, const Value& value);
/// Names that a node reads, also inside its graphs; of these not what they make themselves.
std::set<std::string> names_read(const onnx::NodeProto& node);

}  // namespace kodama::compiler
