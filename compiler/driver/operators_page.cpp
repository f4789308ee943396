#include "compiler/driver/operators_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <vector>

#include "compiler/graph/downgrade.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/layers/layer_graph.h"
#include "compiler/lowering/lowering.h"
#include "compiler/reference/executor.h"

namespace kodama::compiler {
namespace {

constexpr const char* kHead = R"(# Operators

This page is made from the tables in the code by `kodama inspect --operators > docs/operators.md`; a test holds page and code together. For a model,
`kodama inspect MODEL` says where each of its nodes will run, and why.

| column | |
| --- | --- |
| types | what ONNX allows as elements of the first operand (without one: of the result) |
| chip | elements of which the chip computes it, wherever the condition holds: *all* are operators that only move elements, which the host permutes unless they are floats; *by its body*: ONNX defines it by other operators, which are in this table; *by its gradient*: the nodes that compute the derivatives it asks for take its place when a model is read ([training](training.md)) |
| host | *yes*: the CPU reference has it, and computes it in a run whatever the chip can't; *by its body*, *by its gradient*, as before; *no*: it can't be run |
| condition | what the chip asks for besides |

)";

/// In the order of the page; runs of types of which all are there have one name.
struct TypeRun {
  const char* name;
  std::vector<std::string> members;
};
const std::vector<TypeRun>& type_runs() {
  static const std::vector<TypeRun> runs = {
      {"float16–64", {"float16", "float", "double"}},
      {"bfloat16", {"bfloat16"}},
      {"int8–64", {"int8", "int16", "int32", "int64"}},
      {"uint8–64", {"uint8", "uint16", "uint32", "uint64"}},
      {"bool", {"bool"}},
      {"string", {"string"}},
      {"complex64–128", {"complex64", "complex128"}},
  };
  return runs;
}

std::string shown_type(const std::string& name) {
  return name == "float" ? "float32" : name == "double" ? "float64" : name;
}

/// The types of tensors, and what kinds of containers, in the words of ONNX's schemas: "tensor(float)".
std::string describe_types(const std::set<std::string>& types) {
  std::set<std::string> left;
  std::vector<std::string> containers;
  for (const std::string& type : types) {
    if (type.rfind("tensor(", 0) == 0) left.insert(type.substr(7, type.size() - 8));
    for (const auto& [prefix, name] :
         {std::pair("seq(", "sequences"), std::pair("optional(", "optionals"), std::pair("map(", "maps")}) {
      if (type.rfind(prefix, 0) == 0 && std::ranges::find(containers, name) == containers.end())
        containers.emplace_back(name);
    }
  }
  std::vector<std::string> words;
  for (const TypeRun& run : type_runs()) {
    const bool has_all =
        std::ranges::all_of(run.members, [&](const auto& type) { return left.contains(type); });
    if (has_all) {
      words.emplace_back(run.name);
    } else {
      for (const std::string& type : run.members) {
        if (left.contains(type)) words.push_back(shown_type(type));
      }
    }
  }
  std::ranges::sort(containers);
  words.insert(words.end(), containers.begin(), containers.end());
  return fmt::format("{}", fmt::join(words, ", "));
}

std::set<std::string> types_of(const onnx::OpSchema& schema) {
  const auto& formals = schema.inputs().empty() ? schema.outputs() : schema.inputs();
  std::set<std::string> types;
  if (formals.empty()) return types;
  for (const auto* type : formals[0].GetTypes()) types.insert(*type);
  return types;
}

/// Of these types, those that the chip computes on.
std::string chip_types(const ChipOperator& computed, const std::set<std::string>& allowed) {
  std::set<std::string> types;
  for (int type = 1; is_data_type(type); ++type) {
    const auto element = static_cast<DataType>(type);
    const bool is_double = element == DataType::kFloat64;
    const bool is_integer = !is_double && (word_kind(element) == ScalarKind::kInteger || is_long(element));
    if (!has_float_arithmetic(element) && !(computed.takes_integers && is_integer) &&
        !(computed.takes_doubles && is_double))
      continue;
    onnx::TypeProto proto;
    proto.mutable_tensor_type()->set_elem_type(type);
    const std::string text = *onnx::Utils::DataTypeUtils::ToType(proto);
    if (allowed.contains(text)) types.insert(text);
  }
  return describe_types(types);
}

std::string operator_rows() {
  std::map<std::string, ChipOperator> chip;
  for (const ChipOperator& each : chip_operators()) chip[each.name] = each;
  std::set<std::pair<std::string, std::string>> kernels;
  for (const auto& name : reference_operators()) kernels.insert(name);
  std::map<std::pair<std::string, std::string>, const onnx::OpSchema*> schemas;
  for (const auto& latest : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (!latest.domain().empty() && latest.domain() != "ai.onnx.preview.training") continue;
    const int version = latest.domain().empty() ? static_cast<int>(kOpsetVersion) : latest.since_version();
    const auto* schema = onnx::OpSchemaRegistry::Schema(latest.Name(), version, latest.domain());
    if (schema != nullptr && !schema->deprecated()) schemas[{latest.domain(), latest.Name()}] = schema;
  }
  std::string rows = "| operator | types | chip | host | condition |\n| --- | --- | --- | --- | --- |\n";
  for (const auto& [name, schema] : schemas) {
    const std::string shown = name.first.empty() ? name.second : name.first + "." + name.second;
    const std::set<std::string> types = types_of(*schema);
    const bool has_body = schema->HasFunction() || schema->HasContextDependentFunction();
    std::string where = has_body ? "by its body" : "";
    std::string condition;
    const auto found = chip.find(shown);
    if (found != chip.end()) {
      where = found->second.only_moves ? "all" : chip_types(found->second, types);
      condition = found->second.condition;
    }
    const char* host = kernels.contains(name) ? "yes" : has_body ? "by its body" : "no";
    if (name.second == "Gradient") {
      where = host = "by its gradient";
      condition = "all shapes known before the model runs";
    }
    rows += fmt::format("| {} | {} | {} | {} | {} |\n", shown, describe_types(types), where, host, condition);
  }
  return rows;
}

std::string change_rows() {
  std::string rows = "| operator | opset | change |\n| --- | --- | --- |\n";
  for (const ChangedOperator& each : changed_operators())
    rows += fmt::format("| {} | {} | {}{} |\n", each.name, each.versions, each.change,
                        each.is_refused ? ": refused" : "");
  return rows;
}

}  // namespace

std::string operators_page() {
  return std::string(kHead) + operator_rows() +
         fmt::format(
             "\n## Opset {} to {}\n\nModels of newer opsets are rewritten to opset {} when they are read "
             "(`compiler/graph/downgrade.h`). What changed, and what becomes of it:\n\n",
             kOpsetVersion + 1, kNewestOpset, kOpsetVersion) +
         change_rows();
}

}  // namespace kodama::compiler
