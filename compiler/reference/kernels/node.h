#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "compiler/tensor/value.h"

/// What the CPU reference executes: nodes that have everything that a kernel asks, without ONNX's files and
/// schemas. compiler/reference/resolve.h makes them of ONNX's messages; packages hold those of host stages.
///
/// Example, `Concat` of two inputs along axis 1, opset 17:
///
///     {.name = "join", .op_type = "Concat", .inputs = {"a", "b"}, .outputs = {"y"},
///      .attributes = {{"axis", int64_t{1}}}, .since_version = 13, .opset = 17}
///
/// Attributes that the model leaves out are there with the schema's default.
namespace kodama::compiler::reference {

struct Graph;

/// monostate: of a kind that no kernel takes.
using Attribute = std::variant<std::monostate, int64_t, float, std::string, std::shared_ptr<const Tensor>,
                               std::shared_ptr<const Graph>, ValueType, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>>;
/// What is found and allowed in messages: "an integer", "a tensor", by the place in the variant.
std::string attribute_kind(size_t index);

/// What an operator's inputs must be.
struct Signature {
  struct Formal {
    std::string name;
    std::vector<std::string> types;  ///< allowed, as type_name() writes them
    std::string variable;            ///< inputs with the same one have the same type; or a type itself
    bool is_mixed = false;           ///< stands for any number of inputs, whose types may differ
    bool operator==(const Formal&) const = default;
  };
  std::vector<Formal> inputs;  ///< the last one is also that of inputs behind it
  bool operator==(const Signature&) const = default;
};

struct Node {
  std::string name;
  std::string domain;  ///< "" = ai.onnx
  std::string op_type;
  std::vector<std::string> inputs;   ///< "" = omitted
  std::vector<std::string> outputs;  ///< "" = not wanted
  std::map<std::string, Attribute> attributes;
  /// Version of the operator's definition: the opset in which it last changed, as far as `opset` goes.
  int64_t since_version = 0;
  int64_t opset = 0;
  std::shared_ptr<const Signature> signature;  ///< of operators; functions of a model have none
  /// Of a node that calls a function: its body, with the call's attributes in it.
  std::shared_ptr<const Graph> function;
  /// Why it can't be executed; thrown when it is to be.
  struct Refusal {
    bool is_unsupported = false;  ///< or the user's error
    std::string message;
  };
  std::optional<Refusal> refusal;
};

/// An input or output of a graph.
struct Declared {
  std::string name;
  std::optional<ValueType> type;
};

/// The body of If, Loop, Scan, SequenceMap, or of a function.
struct Graph {
  std::string name;
  std::vector<Declared> inputs;
  std::vector<Declared> outputs;
  std::vector<std::pair<std::string, Value>> initializers;
  std::vector<Node> nodes;  ///< each behind those it reads
};

/// "node 'conv1' (Conv)": how a message about a node begins. A node without a name is called by its first
/// output.
std::string place_of(const std::string& name, const std::string& op_type, const std::string& first_output);
std::string place_of(const Node& node);
/// What is given where an optional is declared becomes one; other values as they are.
Value as_declared(const Declared& declared, const Value& value);

}  // namespace kodama::compiler::reference
