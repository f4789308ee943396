#pragma once

#include <fmt/format.h>
#include <onnx/defs/attr_proto_util.h>
#include <onnx/onnx_pb.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/graph/onnx_model.h"
#include "compiler/tensor/fresh_names.h"

/// How nodes of opset 18 to 21 become nodes of opset 17. Private to compiler/graph.
///
/// A rule is a function of a NodeDowngrade: it reads the node and either keeps it, changed or not, or adds
/// nodes of opset 17 that compute its outputs. `operator_changes` has a row per operator.
namespace kodama::compiler::downgrade {

inline constexpr DataType kBool = DataType::kBool;
inline constexpr DataType kDouble = DataType::kFloat64;
inline constexpr DataType kFloat = DataType::kFloat32;
inline constexpr DataType kInt32 = DataType::kInt32;
inline constexpr DataType kInt64 = DataType::kInt64;
inline constexpr DataType kUint8 = DataType::kUint8;
inline constexpr DataType kUint64 = DataType::kUint64;

/// Attributes that many operators have.
inline onnx::AttributeProto to_type(DataType type) {
  return onnx::MakeAttribute("to", static_cast<int64_t>(type));
}
inline onnx::AttributeProto along(int64_t axis) {
  return onnx::MakeAttribute("axis", axis);
}

/// What is known of the values that a node reads.
class ValueKnowledge {
 public:
  virtual ~ValueKnowledge() = default;
  /// nullptr if the elements aren't known, or are many.
  virtual std::shared_ptr<const Tensor> constant(const std::string& value) const = 0;
  /// UNDEFINED if it isn't known.
  virtual DataType type(const std::string& value) const = 0;
  /// The number of axes, if it is declared.
  virtual std::optional<int> rank(const std::string& value) const = 0;
  /// Whether the value certainly is a tensor or a sequence, not an optional.
  virtual bool is_no_optional(const std::string& value) const = 0;
};

class NodeDowngrade {
 public:
  using Attributes = std::vector<onnx::AttributeProto>;

  /// `version`: of the opset that the node is written in. `made` takes the new nodes.
  NodeDowngrade(onnx::NodeProto node, int64_t version, const ValueKnowledge& values, FreshNames& names,
                std::function<void(onnx::NodeProto)> made, std::string where)
      : node_(std::move(node)),
        version_(version),
        values_(values),
        names_(names),
        made_(std::move(made)),
        where_(std::move(where)) {}

  onnx::NodeProto& node() { return node_; }
  int64_t version() const { return version_; }
  const ValueKnowledge& values() const { return values_; }
  bool has_input(int index) const { return index < node_.input_size() && !node_.input(index).empty(); }
  const std::string& input(int index) const;
  DataType input_type(int index) const {
    return has_input(index) ? values_.type(node_.input(index)) : DataType::kUndefined;
  }
  /// The elements of an operand that is there; UnsupportedError if they aren't known before the model runs.
  std::vector<int64_t> integers(int index) const;

  /// Attributes; UnsupportedError for a parameter of a function.
  bool has(const char* name) const { return attribute(name) != nullptr; }
  int64_t integer(const char* name, int64_t absent) const;
  std::string text(const char* name, const char* absent) const;
  std::optional<std::vector<int64_t>> integers(const char* name) const;
  void remove(const char* name) { remove_attribute(node_, name); }

  /// The node as it is now.
  void keep() { made_(node_); }
  /// Adds a node; its value has a new name, which is returned.
  std::string add(const char* op, const std::vector<std::string>& inputs, const Attributes& attributes = {});
  /// Adds the node that makes the first output.
  void finish(const char* op, const std::vector<std::string>& inputs, const Attributes& attributes = {});
  std::string constant(const Tensor& tensor);
  std::string integers_constant(const std::vector<int64_t>& values);
  std::string integer_constant(int64_t value);
  std::string number(double value);
  /// A number of the element type of `like`.
  std::string number_like(double value, const std::string& like);

  /// UnsupportedError: what can't be expressed, and what to do instead.
  [[noreturn]] void refuse(const std::string& what, const std::string& instead) const;
  /// UserError.
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    if (!condition) throw isa::UserError(place() + ": " + fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::string place() const { return where_ + ": " + describe_node(node_); }
  const onnx::AttributeProto* attribute(const char* name) const;
  std::string constant_of(const onnx::TensorProto& tensor);
  onnx::NodeProto make(const char* op, const std::vector<std::string>& inputs, const Attributes& attributes);

  onnx::NodeProto node_;
  const int64_t version_;
  const ValueKnowledge& values_;
  FreshNames& names_;
  std::function<void(onnx::NodeProto)> made_;
  std::string where_;
};

struct ChangeRow {
  const char* op;
  const char* versions;  ///< those after 17 in which the operator changed
  const char* change;    ///< what changed, and what becomes of it
  void (*rule)(NodeDowngrade&);
};
/// A row per operator that changed between opset 17 and 21, by name.
const std::vector<ChangeRow>& operator_changes();
/// The rule of operators that opset 17 has no equal of.
void refuse_operator(NodeDowngrade& n);

// The larger rules, in downgrade_windows.cpp and downgrade_quantize.cpp.
void average_pool(NodeDowngrade& n);
void lp_pool(NodeDowngrade& n);
void col2im(NodeDowngrade& n);
void affine_grid(NodeDowngrade& n);
void resize(NodeDowngrade& n);
void pad(NodeDowngrade& n);
void center_crop_pad(NodeDowngrade& n);
void quantize(NodeDowngrade& n);
void dequantize(NodeDowngrade& n);
void qlinear_matmul(NodeDowngrade& n);

}  // namespace kodama::compiler::downgrade
