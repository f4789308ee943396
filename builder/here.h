#pragma once

#include <string>

#include "isa/error.h"

namespace kodama::builder {

/// A line of the user's program. Every function that records something has it as its last parameter, with a
/// default that is the line of the call; messages begin with it. Who writes functions of layers may do the
/// same and hand it on, so that messages name the line that uses the layer:
///
///     Value block(const Value& x, Here here = Here::line()) { return F::relu(op::Neg(x, here), here); }
///
/// A call that spans lines counts as its first one. (std::source_location does the same, but clang 14 hasn't
/// what libstdc++ needs for it.)
class Here {
 public:
  static constexpr Here line(const char* file = __builtin_FILE(), int number = __builtin_LINE()) {
    return Here(file, number);
  }

  constexpr const char* file() const { return file_; }
  constexpr int number() const { return number_; }
  isa::SourceLocation location() const { return {file_, number_, 0}; }

 private:
  constexpr Here(const char* file, int number) : file_(file), number_(number) {}

  const char* file_;
  int number_;
};

}  // namespace kodama::builder
