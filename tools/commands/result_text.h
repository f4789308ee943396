#pragma once

#include <kodama/kodama.h>

#include <iosfwd>
#include <string>

/// What run and sim print of results.
namespace kodama::tools {

struct ResultView {
  bool images = false;   ///< inputs that look like pictures, as text art
  bool classes = false;  ///< the index of the largest output of each row
};
/// All of a result: its data set, tables, outputs, and what comparisons say. `inputs` for images; `repeat`:
/// how many runs there were.
void print_result(const Result& result, const Program& program, const Values& inputs, int64_t repeat,
                  const ResultView& view, std::ostream& out);
/// The first elements of each output.
void print_outputs(const Values& outputs, bool classes, std::ostream& out);
/// A sentence about what is right or wrong; what is wrong is said with --quiet, too.
void print_verdict(const std::string& sentence, bool is_right, std::ostream& out);

}  // namespace kodama::tools
