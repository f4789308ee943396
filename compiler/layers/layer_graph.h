#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/layers/affine_map.h"
#include "compiler/layers/scalar_expr.h"
#include "compiler/reference/kernels/node.h"
#include "compiler/tensor/tensor.h"

/// The layer graph (l3): few kinds of layers, many ONNX operators.
///
/// Every layer computes one tensor (Host layers: several) from tensors that earlier layers, graph inputs
/// or constants provide. Loop extents are explicit and operand accesses are affine, so that one Contract
/// describes MatMul, Gemm and Conv of any rank alike. Example, Conv 3x3, stride 2, pad 1, of
/// X [1,8,28,28] with W [16,8,3,3]:
///
///     Contract  dims  oc:16 (M)  b:1 oh:14 ow:14 (N)  ic:8 kh:3 kw:3 (K)
///               a = W(oc, ic, kh, kw)
///               b = X(b, ic, 2*oh + kh - 1, 2*ow + kw - 1), fill 0
///               out = Y(b, oc, oh, ow)
namespace kodama::compiler {

using TensorId = int;

/// What a constant's elements are, or nothing of tensors that are none. They never change, so copies share
/// them.
class ConstantValue {
 public:
  ConstantValue() = default;
  ConstantValue(std::nullopt_t) {}
  ConstantValue(Tensor value) : value_(std::make_shared<const Tensor>(std::move(value))) {}
  ConstantValue(std::shared_ptr<const Tensor> value) : value_(std::move(value)) {}

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  const Tensor& operator*() const { return *value_; }
  const Tensor* operator->() const { return value_.get(); }
  void reset() { value_.reset(); }

 private:
  std::shared_ptr<const Tensor> value_;
};

struct LayerTensor {
  std::string name;  ///< of the ONNX value where there is one
  DataType type = DataType::kFloat32;
  Shape shape;
  ConstantValue constant;
  /// The tensor whose row-major elements this one shares (Reshape, Squeeze, …); -1 = its own. An element of
  /// 64 bits is no word of the chip: such tensors, unless they are constants, are other names of an int32
  /// tensor with one axis more, of the lower and the upper word.
  TensorId alias_of = -1;
};
/// Whether elements of this type are two integer words, the lower one first.
bool is_long(DataType type);
/// Of a tensor of such elements, that of their words.
Shape words_shape(Shape shape);
/// Whether a type is one of indices: int32 or int64.
bool is_index_type(DataType type);
/// Whether one tensor's elements can be the other's.
bool is_alias(const LayerTensor& tensor, const LayerTensor& other);

/// How a layer reads one operand over its iteration space.
struct TensorAccess {
  TensorId tensor = -1;
  AffineMap map;    ///< iteration point -> tensor index
  double fill = 0;  ///< read outside the tensor (may be an infinity)
  bool operator==(const TensorAccess&) const = default;
};

/// out[d] = expr(inputs at d) for every point d of `extents`, which is the output's shape.
struct MapLayer {
  Shape extents;
  std::vector<TensorAccess> inputs;
  ScalarExpr expr;
};

/// out[d] = epilogue(reduction over r of expr(inputs at (d, r)), epilogue_inputs at d).
/// The iteration space is output extents followed by reduction extents. Where `expr` makes doubles, these are
/// reduced, and the epilogue's input 0 is one (ScalarOp::kDoubleInput).
struct ReduceLayer {
  enum class Op : uint8_t { kSum, kMax, kMin, kProd, kIntSum, kIntMax, kIntMin };
  Op op = Op::kSum;
  Shape output_extents;
  Shape reduction_extents;
  std::vector<TensorAccess> inputs;
  ScalarExpr expr;
  ScalarExpr epilogue;  ///< input 0 = the reduced value, input 1 + i = epilogue_inputs[i]
  std::vector<TensorAccess> epilogue_inputs;  ///< over output_extents
};

/// out[output dims] = epilogue(sum over K dims of a * b, epilogue_inputs). Dims of role kBatch appear in
/// both operands and the output, kM in a and the output, kN in b and the output, kK only in operands.
struct ContractLayer {
  enum class Role : uint8_t { kBatch, kM, kN, kK };
  struct Dim {
    std::string name;
    int64_t extent = 1;
    Role role = Role::kK;
  };
  std::vector<Dim> dims;
  TensorAccess a, b;  ///< over all dims
  /// The output's shape: one entry per output axis is an affine combination of dims; for all current
  /// operators each output axis is covered exactly once. Maps an iteration point to the output index.
  AffineMap output;
  Shape output_shape;
  ScalarExpr epilogue;                        ///< input 0 = the sum, input 1 + i = epilogue_inputs[i]
  std::vector<TensorAccess> epilogue_inputs;  ///< over all dims (coefficient 0 on K)
};

/// Rows of elements, each mapped with what it was reduced to: softmax, layer normalization. Every step has a
/// value for each point of `extents`, made of the inputs there and of the values of earlier steps; a step
/// with `op` reduces over the axes in `reduced`, so that all points of a row have the same value. The last
/// step, which reduces nothing, is the output. Example, softmax over the last axis of [128, 64]:
///
///     inputs  x        steps  max of x0;  exp(sub(x0, x1));  sum of x2;  div(x2, x3)
struct NormalizeLayer {
  struct Step {
    std::optional<ReduceLayer::Op> op = {};
    ScalarExpr expr;  ///< inputs: those of the layer, then the values of earlier steps
    bool operator==(const Step&) const = default;
  };
  Shape extents;
  std::vector<bool> reduced;  ///< by axis
  std::vector<TensorAccess> inputs;
  std::vector<Step> steps;
};
/// Of each step, whether it has one value for a row: it reduces, or depends on nothing but such steps.
std::vector<bool> steps_of_rows(const std::vector<NormalizeLayer::Step>& steps, size_t inputs);

/// out[d] = epilogue(data at (d, index at d), epilogue_inputs at d): indices that are data. `index` of
/// `index_inputs` at d is a place from 0 to places - 1, or anything else, which finds a word of zeros.
/// Example, rows of a table [10000, 64] by 16 indices (Gather):
///
///     extents  16 64   places 10000   index  list(d0)   data  table(place, d1)
struct GatherLayer {
  Shape extents;
  int64_t places = 1;
  std::vector<TensorAccess> index_inputs;     ///< over extents
  ScalarExpr index;                           ///< an integer
  TensorAccess data;                          ///< over extents, then the place
  ScalarExpr epilogue;                        ///< input 0 = what was found, input 1 + i = epilogue_inputs[i]
  std::vector<TensorAccess> epilogue_inputs;  ///< over extents
};

/// out = fill everywhere, then for each piece, out[d] = input at d for every d in the piece's box.
struct RearrangeLayer {
  struct Piece {
    TensorAccess input;          ///< over the output's index space (absolute output index)
    std::vector<int64_t> begin;  ///< box [begin, end) of output indices
    std::vector<int64_t> end;
  };
  Shape extents;
  double fill = 0;
  std::vector<Piece> pieces;
};

/// A node that the CPU reference executes.
struct HostLayer {
  reference::Node node;
  std::string reason;  ///< why it is not on the chip
};

enum class LayerKind : uint8_t { kMap, kReduce, kContract, kNormalize, kGather, kRearrange, kHost };
/// In the order of the kinds.
inline constexpr std::array<const char*, 7> kLayerKindNames = {"Map",    "Reduce",    "Contract", "Normalize",
                                                               "Gather", "Rearrange", "Host"};
std::string layer_kind_name(LayerKind kind);  ///< "Map", …

struct Layer {
  std::string name;                     ///< unique; of the ONNX node it came from
  std::vector<std::string> onnx_ops;    ///< operators fused into it, in order: {"Conv", "Relu"}
  std::vector<std::string> onnx_nodes;  ///< their node names
  std::variant<MapLayer, ReduceLayer, ContractLayer, NormalizeLayer, GatherLayer, RearrangeLayer, HostLayer>
      body;
  std::vector<TensorId> host_inputs;  ///< kHost: the node's inputs in order (-1 = omitted); else empty
  std::vector<TensorId> outputs;      ///< one; kHost: the node's outputs in order (-1 = omitted)

  LayerKind kind() const { return static_cast<LayerKind>(body.index()); }
};

/// A tensor of integers that says whether the model's data were wrong: an element that isn't from `lowest` to
/// `highest` is an error of the user's. Indices can be out of range: the host looks at those that it sends,
/// layers make flags of others.
struct Check {
  TensorId tensor = -1;
  std::string message;
  int64_t lowest = 0, highest = 0;
  bool operator==(const Check&) const = default;
};

struct LayerGraph {
  std::string name;
  std::vector<LayerTensor> tensors;
  std::vector<Layer> layers;  ///< in execution order
  std::vector<TensorId> inputs;
  /// Those of the model, then the tensors of `checks`.
  std::vector<TensorId> outputs;
  std::vector<Check> checks;

  /// The tensor whose elements `id` really names (follows aliases).
  TensorId storage(TensorId id) const;
  /// Adds a tensor that is no alias. Of elements of two words, the tensor of these words, too.
  TensorId add(LayerTensor tensor);
  /// The words of a tensor of such elements; of others, itself.
  TensorId words_of(TensorId id);
  /// Whether its elements are known.
  bool is_constant(TensorId id) const;
  /// Whether nothing but the host has a tensor at first, as it has constants and inputs: it can pack images
  /// of it in any form.
  bool is_packed(TensorId id) const;
};

/// Operands a layer reads (aliases not followed), in access order, constants included.
std::vector<TensorId> layer_inputs(const Layer& layer);
/// All accesses of a layer (empty for Host), in the order of layer_inputs.
std::vector<const TensorAccess*> layer_accesses(const Layer& layer);
std::vector<TensorAccess*> layer_accesses(Layer& layer);

/// A Map, Reduce or Contract with more operands than this gets expensive in local memory.
inline constexpr size_t kMaxLayerInputs = 6;
/// Removes inputs that `expr` doesn't use and makes one of equal ones; numbers before `first` aren't in
/// `inputs` and stay (an epilogue's input 0).
void tidy_inputs(ScalarExpr& expr, std::vector<TensorAccess>& inputs, int first = 0);

/// The tensors that a tensor is concatenated of along an axis, in order, each of the same extents but along
/// that one: what a Rearrange layer, or several one after the other, makes it of. Itself where none does.
std::vector<TensorId> concatenated_of(const LayerGraph& graph, TensorId tensor, size_t axis);

/// The points [begin, end) at which an access is read.
struct AccessBox {
  std::vector<int64_t> begin;
  std::vector<int64_t> end;
};
/// One per access, in the order of layer_accesses: the whole iteration space, or a Rearrange's piece.
std::vector<AccessBox> layer_access_boxes(const Layer& layer);
/// Extents of a Contract's dims.
Shape contract_extents(const ContractLayer& contract);
std::string role_name(ContractLayer::Role role);  ///< "batch", "M", "N", "K"
std::string reduce_op_name(ReduceLayer::Op op);   ///< "sum", …
/// What it reduces: integers of 32 bits, which wrap, or floats.
ScalarKind reduce_kind(ReduceLayer::Op op);
/// The same, or doubles.
ScalarKind reduced_kind(const ReduceLayer& reduce);
/// What a reduction of no elements is.
double identity_of(ReduceLayer::Op op);

/// What an element of this type is in a word of the chip, if it is in one: 16-bit floats are floats of 32
/// bits there; bool is 0 or 1; smaller integers are extended by their sign or by zeros. An integer of 64
/// bits, or a double, is two elements (LayerGraph::words_of).
std::optional<ScalarKind> word_kind(DataType type);
/// A number as that word.
uint32_t word_of(double value, DataType type);
/// Whether Map, Reduce, Contract and Normalize layers compute on floats of this type: the chip's kernels
/// work in single precision, so 16-bit floats are computed wider and rounded once, when the layer's result is
/// stored. Doubles are formulas on their words (compiler/layers/doubles.h).
bool has_float_arithmetic(DataType type);
/// Whether a word has all that an element is, so that tensors of this type stay on the chip between layers.
bool is_exact_word(DataType type);

/// Checks everything the comments above promise; InternalError naming `pass` and the layer.
void verify_layer_graph(const LayerGraph& graph, const std::string& pass);
/// Readable and machine-readable text (JSON; infinities and NaN as strings, large constants without their
/// elements) for --dump-after, and a short one-line form per layer.
std::string to_json(const LayerGraph& graph);
std::string summary(const Layer& layer, const LayerGraph& graph);

/// UserError with the check's message if any element of its tensor isn't what is allowed.
void throw_if_failed(const Check& check, const Tensor& value);

/// Host execution of a Rearrange layer: the output from its inputs (by piece). Any element type; aliases
/// give the tensor another shape, so inputs are passed with the shape of the access' tensor. The result has
/// `type`, which all inputs have, and the shape `rearrange.extents`.
Tensor run_rearrange(const RearrangeLayer& rearrange, DataType type,
                     const std::vector<const Tensor*>& piece_inputs);

}  // namespace kodama::compiler
