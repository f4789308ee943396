#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/graph/node_operands.h"

/// The words in which the rules of operators are written, and the table that they make.
namespace kodama::compiler::rules {

/// UserError if the node breaks the rule; what isn't known yet is allowed.
using Check = std::function<void(const NodeOperands&)>;

/// All that is said of one operator.
struct OperatorRule {
  std::vector<Check> checks;
  /// The operands from whose elements the outputs' extents are read; 0 may be the data itself.
  std::vector<int> shape_inputs = {};
  /// The shapes of outputs, by number, that libonnx doesn't infer though the operands' shapes decide them, or
  /// infers wrongly.
  std::function<std::map<int, Shape>(const NodeOperands&)> infer_own = nullptr;
  /// False where libonnx makes wrong shapes of the elements of operands; infer_own then makes the right
  /// ones.
  bool library_reads_elements = true;
  /// Whether output k is of the type of operand k; libonnx infers nothing then.
  bool results_are_like_operands = false;
};
inline constexpr bool kNotByLibrary = false;  ///< for library_reads_elements
/// By operator; those outside ai.onnx with their domain and a dot.
using RuleTable = std::unordered_map<std::string, OperatorRule>;

void add_element_rules(RuleTable& rules);
void add_index_rules(RuleTable& rules);
void add_matrix_rules(RuleTable& rules);
void add_recurrent_rules(RuleTable& rules);
void add_reduction_rules(RuleTable& rules);
void add_region_rules(RuleTable& rules);
void add_shape_rules(RuleTable& rules);
void add_signal_rules(RuleTable& rules);
void add_source_rules(RuleTable& rules);
void add_text_rules(RuleTable& rules);
void add_training_rules(RuleTable& rules);
void add_window_rules(RuleTable& rules);

/// Keeps products and sums of window parameters far from overflow.
inline constexpr int64_t kLargestParameter = int64_t{1} << 31;

// Rules for operands, by number.

Check rank_between(int input, int64_t lowest, int64_t highest);
Check rank_of(int input, int64_t rank);
Check rank_at_least(int input, int64_t lowest);
Check same_rank(int input, int other);
/// `wanted` elements along an axis; `what` says why.
Check extent_is(int input, int64_t axis, int64_t wanted, const char* what);
/// As many elements along an axis as `other` has along another, "the batch", for example.
Check same_extent(int input, int64_t axis, int other, int64_t other_axis, const char* what);
/// A scalar, or a list of one.
Check one_element(int input);
/// A list of integers, or a scalar.
Check list_of_integers(int input);
/// A vector with as many elements as `other` has along `axis`.
Check vector_along(int input, int other, int64_t axis);
/// A shape.
Check extents_operand(int input);
Check broadcasts_to_input(int input, int other);
/// All operands broadcast against each other (since opset 7, in the operators that broadcast differently
/// before).
void check_broadcast(const NodeOperands& o);

// Rules for attributes.

Check one_of(const char* name, std::vector<std::string> allowed);
Check integer_between(const char* name, int64_t lowest, int64_t highest);
Check positive(const char* name);
Check flag(const char* name);
/// An element type.
Check element_type(const char* name);
/// An axis of `input`, counted from either end; `beyond` more are allowed.
Check axis(const char* name, int input = 0, int64_t beyond = 0);
/// The axes of a Reduce and the like: an attribute, or a constant operand since some opset (-1: in none).
Check axes(int input = 1);
/// A list of extents.
Check extents_attribute(const char* name);

// What rules of one operator are made of. `what` names the values in messages.

/// A list that is an attribute up to some opset and an operand since.
struct IntegerList {
  std::optional<std::vector<int64_t>> values;  ///< nullopt if it is left out or isn't known
  std::string what;
};
/// The operand if the node has it; it must be a list of integers.
IntegerList list_of(const NodeOperands& o, const char* attribute, int input);

/// The extent along an axis that is counted from either end.
std::optional<int64_t> extent_along(const NodeOperands& o, int input, int64_t axis);

/// Broadcasting that must not make `to` larger.
bool broadcasts_to(const Shape& from, const Shape& to);

/// Axes of a tensor of this rank, each at most once.
void check_axes(const NodeOperands& o, const std::vector<int64_t>& values, int64_t rank,
                const std::string& what);
/// Extents of a tensor.
void check_extents(const NodeOperands& o, const std::vector<int64_t>& values, int64_t lowest,
                   const std::string& what);
/// `count` values for the axes of `input`.
void check_one_per_axis(const NodeOperands& o, std::optional<int64_t> count, int input,
                        const std::string& what);
void check_same_shape(const NodeOperands& o, int input, int other);

}  // namespace kodama::compiler::rules
