#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "builder/here.h"
#include "compiler/tensor/tensor.h"

namespace kodama::builder {

using compiler::DataType;
using compiler::Shape;
using compiler::Tensor;

inline constexpr DataType kFloat16 = DataType::kFloat16;
inline constexpr DataType kBFloat16 = DataType::kBfloat16;
inline constexpr DataType kFloat32 = DataType::kFloat32;
inline constexpr DataType kFloat64 = DataType::kFloat64;
inline constexpr DataType kInt8 = DataType::kInt8;
inline constexpr DataType kInt16 = DataType::kInt16;
inline constexpr DataType kInt32 = DataType::kInt32;
inline constexpr DataType kInt64 = DataType::kInt64;
inline constexpr DataType kUInt8 = DataType::kUint8;
inline constexpr DataType kUInt16 = DataType::kUint16;
inline constexpr DataType kUInt32 = DataType::kUint32;
inline constexpr DataType kUInt64 = DataType::kUint64;
inline constexpr DataType kBool = DataType::kBool;
inline constexpr DataType kString = DataType::kString;

class Operand;
class Recorder;

/// A value of a Graph: an input, a parameter, a constant, or what a node will compute. It is a handle, cheap
/// to copy, and has a type and a shape but no elements. A default one is no value: what an operand that is
/// left out looks like.
///
/// Errors of all members: UserError that begins with the line of the call.
class Value {
 public:
  Value() = default;

  /// False for a default one.
  bool has_value() const { return recorder_ != nullptr; }
  /// What it is called in the model. Empty if it is no value.
  std::string name() const;
  /// As ONNX describes it; dimensions that aren't known have no extent, or a name. Nothing may be known.
  onnx::TypeProto type(Here here = Here::line()) const;
  /// UserError unless it is a tensor of which this is known.
  DataType element_type(Here here = Here::line()) const;
  int64_t rank(Here here = Here::line()) const;
  /// UserError if an extent is open: it has a name, or depends on data.
  Shape shape(Here here = Here::line()) const;
  /// Of one axis, which may count from the end.
  int64_t extent(int64_t axis, Here here = Here::line()) const;
  bool has_extent(int64_t axis, Here here = Here::line()) const;

  /// Records the derivatives of this value (of the sum of its elements, if it has several) by every parameter
  /// that trains and that it depends on, and returns them in the order of the parameters. Each parameter then
  /// has its gradient(); of several backward() it is the sum.
  ///
  /// UserError for a value that isn't floating point or depends on no parameter, UnsupportedError for an
  /// operator that isn't differentiable, with the path to it.
  std::vector<Value> backward(Here here = Here::line()) const;
  /// Of a parameter. UserError before a backward() that reaches it.
  Value gradient(Here here = Here::line()) const;

  /// The element, row, ... at a place of the first axis, which may count from the end: Gather. A list or an
  /// integer tensor gives as many.
  Value operator[](const Operand& place) const;

 private:
  friend class Recorder;
  Value(std::shared_ptr<Recorder> recorder, int id) : recorder_(std::move(recorder)), id_(id) {}
  Recorder& recorder(Here here) const;

  std::shared_ptr<Recorder> recorder_;
  int id_ = -1;
};

}  // namespace kodama::builder
