#pragma once

#include <onnx/onnx_pb.h>

#include <compare>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/tensor/tensor.h"

/// What padding does to results, operator by operator.
///
/// The same graph is there twice: *exact*, with the extents that the data have, and *padded*, with those of
/// the buckets. A value's *box* are the indices that it has in the exact graph. What holds of every value of
/// the padded graph, and what each rule proves for its operator's results from its operands: inside of the
/// box are the elements of the exact graph; outside may be anything.
///
/// Where an operator takes more than one element of an axis together (products, sums, maxima), what is
/// outside must not take part: the rule asks for a mask, which puts the neutral element there.
namespace kodama::compiler {

/// What a mask puts outside of the box.
enum class PadFill : uint8_t { kZero, kOne, kLowest, kHighest };

/// What has to be done so that every box is right.
struct PadNeeds {
  struct Mask {
    int node = 0;
    int input = 0;
    int axis = 0;
    PadFill fill = PadFill::kZero;
    auto operator<=>(const Mask&) const = default;
  };
  std::set<Mask> masks;
  /// Means, by node, over these axes: they are sums over the number of elements in the box.
  std::map<int, std::vector<int>> means;
  /// Gather and Slice at places that depend on lengths, as those that count from the end: they are given.
  std::set<int> given_places;
  /// Constants that aren't the same in the box, or of the same shape: they are given in every run.
  std::set<std::string> constants;

  /// Whether this has all that `other` needs.
  bool covers(const PadNeeds& other) const;
};

/// A graph with types and constants at hand; refers to it.
class TypedGraph {
 public:
  explicit TypedGraph(const onnx::GraphProto& graph);
  const onnx::GraphProto& proto() const { return graph_; }
  /// Of a value that is there.
  const Shape& shape(const std::string& name) const { return shapes_.at(name); }
  DataType type(const std::string& name) const { return types_.at(name); }
  bool has(const std::string& name) const { return shapes_.contains(name); }
  /// Null if it isn't constant.
  const onnx::TensorProto* constant(const std::string& name) const;

 private:
  const onnx::GraphProto& graph_;
  std::unordered_map<std::string, Shape> shapes_;
  std::unordered_map<std::string, DataType> types_;
  std::unordered_map<std::string, const onnx::TensorProto*> constants_;
};

/// Goes through both graphs; returns why the boxes can't be shown to be right, naming the node, or nothing.
std::string find_pad_needs(const TypedGraph& exact, const TypedGraph& padded, PadNeeds& needs);

}  // namespace kodama::compiler
