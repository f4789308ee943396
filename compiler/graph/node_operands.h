#pragma once

#include <fmt/format.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <vector>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// The largest tensor: more elements than this overflow 32-bit indices of tools that read our files, and no
/// chip's memory holds them.
inline constexpr int64_t kMaxTensorElements = (int64_t{1} << 31) - 1;

/// A node with what is known about its operands.
class NodeOperands {
 public:
  /// `types` and `constants`: one per input of the node, nullptr where nothing is known. All must outlive
  /// this.
  NodeOperands(const onnx::NodeProto& node, const onnx::OpSchema& schema,
               std::vector<const onnx::TypeProto*> types, std::vector<const Tensor*> constants)
      : node_(node), schema_(schema), types_(std::move(types)), constants_(std::move(constants)) {}

  const onnx::NodeProto& node() const { return node_; }
  const onnx::OpSchema& schema() const { return schema_; }
  /// The first opset in which the operator is as it is here.
  int since_version() const { return schema_.since_version(); }

  int input_count() const { return node_.input_size(); }
  bool has(int input) const { return input < node_.input_size() && !node_.input(input).empty(); }
  /// nullopt where nothing is known, and for an operand that is left out.
  std::optional<DataType> type(int input) const;
  std::optional<int64_t> rank(int input) const;
  std::optional<int64_t> extent(int input, int64_t axis) const;
  std::optional<Shape> shape(int input) const;
  /// The number of elements.
  std::optional<int64_t> size(int input) const;
  /// The elements of a constant int32 or int64 operand.
  std::optional<std::vector<int64_t>> integers(int input) const;
  const Tensor* constant(int input) const;

  /// Attributes, with the schema's default; nullopt if there is neither.
  std::optional<int64_t> integer(const char* name) const;
  std::optional<std::vector<int64_t>> integers(const char* name) const;
  std::optional<std::string> text(const char* name) const;
  /// Whether the node itself has the attribute.
  bool has_attribute(const char* name) const;

  /// "input W 'conv1.weight' (float32 [8, 3])", for messages.
  std::string describe(int input) const;
  /// UserError that begins with the node unless `condition` holds.
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) fail(fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  [[noreturn]] void fail(const std::string& message) const;
  const onnx::AttributeProto* attribute(const char* name) const;
  const onnx::TensorShapeProto* known_shape(int input) const;

  const onnx::NodeProto& node_;
  const onnx::OpSchema& schema_;
  std::vector<const onnx::TypeProto*> types_;
  std::vector<const Tensor*> constants_;
};

}  // namespace kodama::compiler
