#pragma once

#include <iosfwd>
#include <string>

#include "compiler/driver/session.h"
#include "compiler/graph/gradient/gradient.h"

namespace kodama::compiler {

struct GradRequest {
  SessionOptions common;  ///< dims and bind matter
  std::string model_file;
  std::string output_file;
  GradientRequest gradient;
};

/// Writes a model that computes what the given one computes and, as further outputs, the gradients of a
/// value; says which there are. Errors are those of import_model() and add_gradients().
int grad_command(const GradRequest& request, std::ostream& out);

}  // namespace kodama::compiler
