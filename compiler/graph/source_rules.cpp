#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

void check_constant(const NodeOperands& o) {
  o.require(o.node().attribute_size() == 1, "{} attributes; one, the value, is allowed",
            o.node().attribute_size());
}

void check_constant_of_shape(const NodeOperands& o) {
  extents_operand(0)(o);
  const auto* value = find_attribute(o.node(), "value");
  if (value == nullptr) return;
  int64_t size = 1;
  for (int64_t extent : value->t().dims()) size *= extent == 1 ? 1 : 0;
  o.require(size == 1, "attribute value has shape {}; one element is allowed",
            shape_to_string(Shape(value->t().dims().begin(), value->t().dims().end())));
}

void check_range(const NodeOperands& o) {
  for (int i = 0; i < 3; ++i) one_element(i)(o);
  double values[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor* tensor = o.constant(i);
    if (tensor == nullptr || tensor->size() != 1 || element_size(tensor->type()) == 0) return;
    values[i] = element_as_double(*tensor, 0);
  }
  o.require(values[2] != 0, "{} is 0; a step other than 0 is allowed", o.describe(2));
  const double count = (values[1] - values[0]) / values[2];
  o.require(count <= static_cast<double>(kMaxTensorElements),
            "from {} to {} in steps of {} are {:.0f} elements; at most {} are allowed", values[0], values[1],
            values[2], count, kMaxTensorElements);
}

}  // namespace

void add_source_rules(RuleTable& rules) {
  rules["Constant"] = {{check_constant}};
  rules["ConstantOfShape"] = {{check_constant_of_shape}, {0}};
  rules["Range"] = {{check_range}, {0, 1, 2}};
  rules["EyeLike"] = {{rank_of(0, 2), element_type("dtype")}};
  rules["Bernoulli"] = {{element_type("dtype")}};
  rules["Multinomial"] = {{rank_of(0, 2), positive("sample_size"), element_type("dtype")}};
  for (const char* op : {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"}) {
    rules[op] = {{extents_attribute("shape"), element_type("dtype")}};
  }
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    rules[op] = {{one_element(0), element_type("output_datatype")}, {0}};
  }
}

}  // namespace kodama::compiler::rules
