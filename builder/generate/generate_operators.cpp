// generate_operators DIR: writes the functions of all operators, from libonnx's schemas.
//
//   DIR/operators.h           a struct of attributes and a function for each, which programs include
//   DIR/operators.cpp         their bodies
//   DIR/operator_calls.cpp    for tests: calls every function, by the name of the operator
//
// Operators are those of ONNX's opset 17 and of its training domain.

#include <fmt/format.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

using onnx::AttributeProto;
using onnx::OpSchema;

constexpr int kOpset = 17;
constexpr const char* kTrainingDomain = "ai.onnx.preview.training";

/// A name that C++ allows.
std::string identifier(const std::string& name) {
  static const std::set<std::string> kKeywords = {
      "and",     "auto",     "bool",     "break",      "case",    "char",    "class",    "const",  "default",
      "delete",  "do",       "double",   "else",       "enum",    "export",  "extern",   "false",  "float",
      "for",     "if",       "inline",   "int",        "long",    "mutable", "new",      "not",    "or",
      "private", "public",   "register", "return",     "short",   "signed",  "sizeof",   "static", "struct",
      "switch",  "template", "this",     "true",       "typedef", "union",   "unsigned", "using",  "void",
      "while",   "xor",      "here",     "attributes", "outputs"};
  return kKeywords.contains(name) ? name + "_" : name;
}

struct AttributeForm {
  const char* type;  ///< of its elements, in C++
  bool is_list;
};

AttributeForm form_of(AttributeProto::AttributeType type) {
  switch (type) {
    case AttributeProto::INT:
      return {"int64_t", false};
    case AttributeProto::FLOAT:
      return {"float", false};
    case AttributeProto::STRING:
      return {"std::string", false};
    case AttributeProto::INTS:
      return {"int64_t", true};
    case AttributeProto::FLOATS:
      return {"float", true};
    case AttributeProto::STRINGS:
      return {"std::string", true};
    case AttributeProto::TENSOR:
      return {"Tensor", false};
    case AttributeProto::SPARSE_TENSOR:
      return {"onnx::SparseTensorProto", false};
    case AttributeProto::TYPE_PROTO:
      return {"onnx::TypeProto", false};
    case AttributeProto::GRAPH:
      return {"Body", false};
    default:
      fmt::print(stderr, "generate_operators: an attribute of type {}, which isn't known here\n",
                 static_cast<int>(type));
      std::exit(1);
  }
}

std::string default_text(const AttributeProto& value) {
  switch (value.type()) {
    case AttributeProto::INT:
      return std::to_string(value.i());
    case AttributeProto::FLOAT:
      return fmt::format("{}", value.f());
    case AttributeProto::STRING:
      return value.s();
    case AttributeProto::INTS:
      return fmt::format("{} integers", value.ints_size());
    case AttributeProto::STRINGS:
      return fmt::format("{} strings", value.strings_size());
    default:
      return "";
  }
}

/// An operator, and how its function is called.
class Operator {
 public:
  explicit Operator(const OpSchema& schema) : schema_(schema), name_(schema.Name()) {
    for (const auto& [name, attribute] : schema.attributes()) {
      needs_attributes_ |= attribute.required;
      has_body_ |= attribute.type == AttributeProto::GRAPH;
    }
    const auto& inputs = schema.inputs();
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (inputs[k].GetOption() != OpSchema::Optional) needed_ = k + 1;
    }
    needs_graph_ = needed_ == 0;
    asks_count_ =
        !schema.outputs().empty() && schema.outputs().back().GetOption() == OpSchema::Variadic && !has_body_;
  }

  const std::string& name() const { return name_; }
  bool has_attributes() const { return !schema_.attributes().empty(); }
  /// With attributes and optional operands there are two forms: without the latter, and with all of them.
  bool has_short_form() const { return has_attributes() && needed_ < schema_.inputs().size(); }

  std::string attributes_struct() const {
    if (!has_attributes()) return "";
    std::string text = fmt::format("/// Of {}.\nstruct {}Attributes {{\n", name_, name_);
    for (const auto& [name, attribute] : schema_.attributes()) {
      const AttributeForm form = form_of(attribute.type);
      std::string type;
      if (attribute.required) {
        type = form.is_list ? fmt::format("Required<std::vector<{}>>", form.type)
                            : fmt::format("Required<{}>", form.type);
      } else {
        type = fmt::format("{}<{}>", form.is_list ? "List" : "std::optional", form.type);
      }
      const std::string standard = default_text(attribute.default_value);
      text += fmt::format("  {} {}{};{}\n", type, identifier(name), attribute.required ? "" : " = {}",
                          standard.empty() ? "" : "  ///< else " + standard);
    }
    return text + "};\n";
  }

  std::string results_struct() const {
    if (!has_results()) return "";
    std::string text = fmt::format("/// Of {}.\nstruct {}Results : Results {{\n", name_, name_);
    for (const auto& output : schema_.outputs())
      text += fmt::format("  Value {};\n", identifier(output.GetName()));
    if (is_first_alone())
      text += fmt::format("  operator const Value&() const {{ return {}; }}\n",
                          identifier(schema_.outputs()[0].GetName()));
    return text + "};\n";
  }

  std::string declarations() const {
    std::string text = documentation();
    if (has_short_form()) {
      text += fmt::format("{};\n", signature(needed_, true));
      text += "template <int = 0>\n";  // see the header's head
    }
    return text + fmt::format("{};\n", signature(schema_.inputs().size(), true));
  }

  std::string definitions() const {
    std::string text;
    if (has_short_form()) {
      text += fmt::format("{} {{\n  return {}<0>({});\n}}\n", signature(needed_, false), name_, forwarded());
    }
    std::string body = fmt::format("  NodeDraft draft(\"{}\", \"{}\", here{});\n", name_, schema_.domain(),
                                   needs_graph_ ? ", &graph" : "");
    for (const auto& input : schema_.inputs()) {
      body += fmt::format("  draft.{}({});\n", is_variadic(input) ? "operands" : "operand",
                          identifier(input.GetName()));
    }
    if (asks_count_) body += "  draft.outputs(outputs);\n";
    for (const auto& [name, attribute] : schema_.attributes())
      body += fmt::format("  draft.attribute(\"{}\", attributes.{});\n", name, identifier(name));
    if (is_list()) {
      body += "  return draft.record();\n";
    } else if (!has_results()) {
      body += "  return draft.record().front();\n";
    } else {
      body += "  const std::vector<Value> results = draft.record();\n  return {{}";
      for (size_t k = 0; k < schema_.outputs().size(); ++k) body += fmt::format(", results[{}]", k);
      body += "};\n";
    }
    const std::string full = signature(schema_.inputs().size(), false);
    if (!has_short_form()) return text + fmt::format("{} {{\n{}}}\n", full, body);
    // The short form above uses it.
    return fmt::format("template <int>\n{} {{\n{}}}\ntemplate {};\n", full, body,
                       signature(schema_.inputs().size(), false, "<0>")) +
           text;
  }

  /// A branch of a function that calls operators by name.
  std::string call() const {
    std::string text = fmt::format("  if (call.is(\"{}\", \"{}\")) {{\n", schema_.domain(), name_);
    if (has_attributes()) {
      text += fmt::format("    const op::{}Attributes attributes{{", qualified());
      for (const auto& [name, attribute] : schema_.attributes()) {
        const AttributeForm form = form_of(attribute.type);
        const std::string kind = form.is_list ? fmt::format("std::vector<{}>", form.type) : form.type;
        text += fmt::format("call.{}<{}>(\"{}\"), ", attribute.required ? "required" : "given", kind, name);
      }
      text += "};\n";
    }
    for (const bool is_short : {true, false}) {
      if (is_short && !has_short_form()) continue;
      const size_t count = is_short ? needed_ : schema_.inputs().size();
      std::vector<std::string> arguments;
      if (needs_graph_) arguments.push_back("call.graph()");
      for (size_t k = 0; k < count; ++k)
        arguments.push_back(
            fmt::format("call.{}({})", is_variadic(schema_.inputs()[k]) ? "operands" : "operand", k));
      if (asks_count_) arguments.push_back("call.outputs()");
      if (has_attributes()) arguments.push_back("attributes");
      const std::string called = fmt::format("op::{}({})", qualified(), fmt::join(arguments, ", "));
      const std::string condition = is_short ? fmt::format("if (call.operand_count() <= {}) ", needed_) : "";
      std::string made = fmt::format("return {{{}}};", called);
      if (is_list()) made = fmt::format("return {};", called);
      if (has_results()) {
        std::vector<std::string> members;
        for (const auto& output : schema_.outputs())
          members.push_back("results." + identifier(output.GetName()));
        made = fmt::format("{{\n      const auto results = {};\n      return {{{}}};\n    }}", called,
                           fmt::join(members, ", "));
      }
      text += "    " + condition + made + "\n";
    }
    return text + "  }\n";
  }

 private:
  static bool is_variadic(const OpSchema::FormalParameter& formal) {
    return formal.GetOption() == OpSchema::Variadic;
  }
  bool is_list() const { return !schema_.outputs().empty() && is_variadic(schema_.outputs().back()); }
  bool has_results() const { return !is_list() && schema_.outputs().size() > 1; }
  /// Whether all outputs but the first may be left out: then the results stand for the first.
  bool is_first_alone() const {
    const auto& outputs = schema_.outputs();
    return outputs[0].GetOption() == OpSchema::Single &&
           std::all_of(outputs.begin() + 1, outputs.end(),
                       [](const auto& output) { return output.GetOption() == OpSchema::Optional; });
  }
  std::string qualified() const { return (schema_.domain().empty() ? "" : "training::") + name_; }

  std::string documentation() const {
    std::vector<std::string> inputs, outputs;
    const auto mark = [](const auto& formal) {
      return formal.GetName() + (formal.GetOption() == OpSchema::Optional   ? "?"
                                 : formal.GetOption() == OpSchema::Variadic ? "..."
                                                                            : "");
    };
    for (const auto& input : schema_.inputs()) inputs.push_back(mark(input));
    for (const auto& output : schema_.outputs()) outputs.push_back(mark(output));
    return fmt::format("/// {}({}) -> {}, as of opset {}.\n", name_, fmt::join(inputs, ", "),
                       fmt::join(outputs, ", "), schema_.since_version());
  }

  /// `inputs` operands; with the defaults of a declaration or without.
  std::string signature(size_t inputs, bool declares, const std::string& arguments = "") const {
    const std::string result = is_list() ? "std::vector<Value>" : has_results() ? name_ + "Results" : "Value";
    std::vector<std::string> parameters;
    if (needs_graph_) parameters.push_back("Graph& graph");
    for (size_t k = 0; k < inputs; ++k) {
      const auto& input = schema_.inputs()[k];
      parameters.push_back(fmt::format("const {}& {}{}", is_variadic(input) ? "Operands" : "Operand",
                                       identifier(input.GetName()),
                                       declares && k >= needed_ && !has_attributes() ? " = {}" : ""));
    }
    if (asks_count_) parameters.push_back("int64_t outputs");
    if (has_attributes())
      parameters.push_back(fmt::format("const {}Attributes& attributes{}", name_,
                                       declares && !needs_attributes_ ? " = {}" : ""));
    parameters.push_back(declares ? "Here here = Here::line()" : "Here here");
    return fmt::format("{} {}{}({})", result, name_, arguments, fmt::join(parameters, ", "));
  }

  std::string forwarded() const {
    std::vector<std::string> values;
    if (needs_graph_) values.push_back("graph");
    for (size_t k = 0; k < schema_.inputs().size(); ++k)
      values.push_back(k < needed_ ? identifier(schema_.inputs()[k].GetName()) : "{}");
    if (asks_count_) values.push_back("outputs");
    values.push_back("attributes");
    values.push_back("here");
    return fmt::format("{}", fmt::join(values, ", "));
  }

  const OpSchema& schema_;
  std::string name_;
  size_t needed_ = 0;  ///< operands up to the last that can't be left out
  bool needs_attributes_ = false;
  bool has_body_ = false;
  bool needs_graph_ = false;
  bool asks_count_ = false;  ///< how many outputs it has
};

using Operators = std::map<std::string, Operator>;

Operators operators_of(const std::string& domain) {
  Operators operators;
  for (const OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (schema.domain() != domain) continue;
    const OpSchema* current =
        onnx::OpSchemaRegistry::Schema(schema.Name(), domain.empty() ? kOpset : 1, domain);
    if (current != nullptr && !current->deprecated()) operators.emplace(schema.Name(), Operator(*current));
  }
  return operators;
}

std::string header(const Operators& standard, const Operators& training) {
  std::string text =
      "#pragma once\n\n// Made by generate_operators from the schemas of ONNX.\n\n"
      "#include \"builder/graph.h\"\n";
  text += R"(
/// Every operator of ONNX's opset 17, by its name. Attributes are given by name in the order of the alphabet;
/// what isn't given isn't in the node. An operand that is left out is {}; operators with attributes can be
/// called without all of their optional operands, or with all:
///
///     op::Conv(x, w, {.strides = {2, 2}})        op::Conv(x, w, bias, {.strides = {2, 2}})
///
/// Operators that may have no operand take the graph first. Where an operator makes as many outputs as the
/// caller asks for (Split), their number comes behind the operands.
///
/// UserError that begins with the line of the call: operands, types, shapes or attributes that don't fit.
namespace kodama::builder::op {

// The forms with all operands are templates so that the others come first where g++ 12 takes {.name = ...}
// for an operand, too.

)";
  const auto add = [&](const Operators& operators) {
    for (const auto& [name, each] : operators) {
      text += each.attributes_struct() + each.results_struct() + each.declarations() + "\n";
    }
  };
  add(standard);
  text +=
      "}  // namespace kodama::builder::op\n\n/// Those of ai.onnx.preview.training.\n"
      "namespace kodama::builder::op::training {\n\n";
  add(training);
  return text + "}  // namespace kodama::builder::op::training\n";
}

std::string source(const Operators& standard, const Operators& training) {
  std::string text =
      "#include \"builder/operators.h\"\n\n#include \"builder/node_draft.h\"\n\n"
      "namespace kodama::builder::op {\n\n";
  for (const auto& [name, each] : standard) text += each.definitions() + "\n";
  text += "}  // namespace kodama::builder::op\n\nnamespace kodama::builder::op::training {\n\n";
  for (const auto& [name, each] : training) text += each.definitions() + "\n";
  return text + "}  // namespace kodama::builder::op::training\n";
}

std::string calls(const Operators& standard, const Operators& training) {
  std::string text =
      "#include \"builder/operator_call_test.h\"\n\nnamespace kodama::builder::testing {\n\n"
      "const std::vector<std::pair<std::string, std::string>>& all_operators() {\n"
      "  static const std::vector<std::pair<std::string, std::string>> kOperators = {\n";
  for (const auto& [name, each] : standard) text += fmt::format("      {{\"\", \"{}\"}},\n", name);
  for (const auto& [name, each] : training)
    text += fmt::format("      {{\"{}\", \"{}\"}},\n", kTrainingDomain, name);
  text += "  };\n  return kOperators;\n}\n\nstd::vector<Value> call_operator(OperatorCall& call) {\n";
  for (const auto* operators : {&standard, &training}) {
    for (const auto& [name, each] : *operators) text += each.call();
  }
  return text + "  return {};\n}\n\n}  // namespace kodama::builder::testing\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: generate_operators DIR\n");
    return 2;
  }
  const Operators standard = operators_of("");
  const Operators training = operators_of(kTrainingDomain);
  for (const auto& [name, text] : {std::pair{"operators.h", header(standard, training)},
                                   {"operators.cpp", source(standard, training)},
                                   {"operator_calls.cpp", calls(standard, training)}}) {
    std::ofstream file(std::string(argv[1]) + "/" + name);
    file << text;
    if (!file.flush()) {
      fmt::print(stderr, "generate_operators: can't write {}/{}\n", argv[1], name);
      return 1;
    }
  }
  return 0;
}
