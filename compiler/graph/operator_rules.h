#pragma once

#include <map>
#include <vector>

#include "compiler/graph/node_operands.h"

/// What operands and attributes an operator allows. One table for all operators: its rows stand in the
/// *_rules.cpp of their families, in the words of operator_checks.h.
namespace kodama::compiler {

/// Checks a node before libonnx infers its types, which crashes on much that these rules refuse: numbers of
/// inputs, types of operands and attributes against the schema, then ranks, values and relations by the
/// table. What isn't known yet is allowed. UserError: node, operand or attribute, what was found, what is
/// allowed.
void check_operands(const NodeOperands& operands);

/// Whether the table has this operator.
bool has_operator_rules(const onnx::NodeProto& node);

/// The shapes of outputs, by number, that libonnx doesn't infer though the operands' shapes decide them, or
/// infers wrongly.
std::map<int, Shape> own_inference(const NodeOperands& operands);

/// Whether libonnx may see the elements of constant operands when it infers shapes.
bool library_reads_elements(const onnx::NodeProto& node);

/// Whether output k has the type of operand k, which libonnx doesn't say.
bool results_are_like_operands(const onnx::NodeProto& node);

/// Which operand's elements decide the shape of the outputs and aren't known; -1 if that isn't the reason why
/// a shape is unknown. An operator whose result depends on its data itself names input 0.
int shape_deciding_input(const NodeOperands& operands);

/// The operands from whose elements the outputs' extents are read, in any node of this operator.
std::vector<int> shape_inputs(const onnx::NodeProto& node);
/// Whether these are the data that the operator works on, so that only its results say how large they are:
/// NonZero, Compress.
bool shape_depends_on_data(const onnx::NodeProto& node);

}  // namespace kodama::compiler
