#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "isa/error.h"

namespace kodama::isa {

/// Several errors of one input, in its order; what() has a line for each.
class UserErrors : public UserError {
 public:
  explicit UserErrors(std::vector<std::string> messages)
      : UserError(fmt::format("{}", fmt::join(messages, "\n"))), messages_(std::move(messages)) {}
  const std::vector<std::string>& messages() const { return messages_; }

 private:
  std::vector<std::string> messages_;
};

}  // namespace kodama::isa
