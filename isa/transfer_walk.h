#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "isa/program.h"

namespace kodama::isa {

/// A program's transfers and waits in the order in which they are executed, with the loop counters in the
/// addresses. Loops of steps alone cost nothing.
class TransferWalk {
 public:
  std::function<void(const Instruction& mv)> mv;
  std::function<void(int tag)> wait;

  void walk(const Program& program) {
    stopped_ = false;
    walk(program.statements);
  }

 private:
  void walk(const std::vector<Statement>& statements);

  std::vector<int64_t> counters_;
  bool stopped_ = false;
};

}  // namespace kodama::isa
