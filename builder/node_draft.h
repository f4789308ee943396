#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "builder/recorder.h"

namespace kodama::builder {

/// What the operators' functions (operators.cpp, which the build makes) fill: a node's operands and
/// attributes, in the order of the schema. Private to builder.
class NodeDraft {
 public:
  /// `graph`: of operators that may have no operand; else null.
  NodeDraft(const char* op, const char* domain, Here here, const Graph* graph = nullptr);

  void operand(const Operand& operand) { request_.operands.push_back(operand); }
  void operands(const Operands& operands);
  /// How many outputs it has, where the operator leaves that open.
  void outputs(int64_t count);

  // Attributes that aren't given leave no trace in the node.
  template <typename T>
  void attribute(const char* name, const std::optional<T>& value) {
    if (value) set(name, *value);
  }
  template <typename T>
  void attribute(const char* name, const List<T>& list) {
    if (list.values()) set(name, *list.values());
  }
  template <typename T>
  void attribute(const char* name, const Required<T>& value) {
    set(name, value.value());
  }

  std::vector<Value> record();

 private:
  onnx::AttributeProto& add(const char* name, onnx::AttributeProto_AttributeType type);
  void set(const char* name, int64_t value);
  void set(const char* name, float value);
  void set(const char* name, const std::string& value);
  void set(const char* name, const std::vector<int64_t>& values);
  void set(const char* name, const std::vector<float>& values);
  void set(const char* name, const std::vector<std::string>& values);
  void set(const char* name, const Tensor& tensor);
  void set(const char* name, const onnx::SparseTensorProto& tensor);
  void set(const char* name, const onnx::TypeProto& type);
  void set(const char* name, const Body& body);

  std::shared_ptr<Recorder> recorder_;
  NodeRequest request_;
};

}  // namespace kodama::builder
