#pragma once

#include <iosfwd>
#include <string>

#include "compiler/driver/session.h"

namespace kodama::compiler {

struct InspectRequest {
  SessionOptions common;  ///< dims, bind, json_file and passes matter
  std::string model_file;
};
/// Says what a model is and where each of its operators will run, before it is compiled: inputs, outputs,
/// parameters, multiply-adds, and per operator how many nodes the chip computes, how many the host, which are
/// refused and why. The model is imported and lowered to layers, no plan is made. Open dimensions that --dim
/// doesn't set count as 1, which the page says; where the shapes can't be known at all, operators are judged
/// by their names, and the page says why the model is compiled in parts while it runs, or what is refused.
/// Prints at most 80 columns, and JSON into a file if one is named. Throws as import_model() for wrong
/// models.
int inspect_command(const InspectRequest& request, std::ostream& out);

}  // namespace kodama::compiler
