#include "compiler/driver/random_rows.h"

#include <algorithm>

namespace kodama::compiler {

const std::vector<RandomRow>& random_rows() {
  static const std::vector<RandomRow> rows = [] {
    std::vector<RandomRow> all;
    for (const auto& kind : {element_wise_rows(), movement_rows(), indexing_rows(), reduction_rows(),
                             window_rows(), product_rows(), other_rows(), control_rows()})
      all.insert(all.end(), kind.begin(), kind.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return all;
  }();
  return rows;
}

const RandomRow& random_row(const std::string& op) {
  for (const RandomRow& row : random_rows()) {
    const size_t dot = row.name.rfind('.');
    if ((dot == std::string::npos ? row.name : row.name.substr(dot + 1)) == op) return row;
  }
  throw isa::InternalError("random_row: no row of " + op);
}

bool takes_steps(const onnx::NodeProto& node) {
  const RandomRow& row = random_row(node.op_type());
  return row.steps && node.output_size() > row.first_step;
}

const std::map<std::string, std::string>& operators_without_row() {
  static const std::map<std::string, std::string> reasons = {
      {"ai.onnx.preview.training.Gradient",
       "is replaced by other nodes when a model is read: it says what to differentiate, and computes "
       "nothing"},
  };
  return reasons;
}

}  // namespace kodama::compiler
