#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"

/// Finds the hazards of a program: places where it relies on something that the hardware doesn't promise.
///
/// The sequencer doesn't hold a step whose operands are not there yet; keeping the distances of section 9 of
/// the ISA page (isa/costs.h: required_gap) is the programmer's duty. The checker walks through the program
/// as it runs, loops unrolled, and looks at
///
///   - every access of a step or MV against those of the steps before it: the distance found and needed;
///   - forwarding registers that no unit has written, or that a step without the unit has made undefined;
///   - transfers: what a transfer reads or writes must be left alone until a `wait` for its tag; a `wait` for
///   a tag
///     never used; a tag used again while its transfer is under way.
///
/// Example, two violations on mncore2:
///
///     linc $lm0v $lm0v
///     lpassa $lm0v $ln0v         # LM0: 0 steps between, 2 needed
///     mvp/n64i01 $lc0@0.0 $d0@0
///     l2bmd $lb0 $lc0            # overwrites what the transfer reads: no wait for i01 in between
///
/// Distances are counted in steps, as the vendor's assembler does; time that a `wait` adds doesn't count.
/// Addresses known at run time only (T-indirect, DAR) count as any address.
namespace kodama::isa {

struct HazardViolation {
  enum class Kind : uint8_t {
    kDistance,      ///< too few steps between two accesses
    kForward,       ///< a forwarding register holds nothing defined
    kNotWaited,     ///< a transfer under way and another access
    kTagNeverUsed,  ///< wait for a tag of no transfer
    kTagUnderWay,   ///< the tag of a transfer that nobody has waited for
  };
  Kind kind = Kind::kDistance;
  int32_t first_line = 0;   ///< of the earlier statement; 0 = it has none
  int32_t second_line = 0;  ///< of the later one, where the rule is broken
  int64_t found = 0;        ///< kDistance: steps between
  int64_t needed = 0;
  std::string text;   ///< one line: both statements, the memory and address, found and needed
  int64_t count = 1;  ///< times that these two statements broke the rule
};

class HazardChecker {
 public:
  /// `stalls`: as on a chip that holds a statement until the distances to those before it are long enough.
  explicit HazardChecker(const Chip& chip, bool stalls = false);
  ~HazardChecker();

  /// The next statement that is executed (no loop), with the counters of the loops around it. The object must
  /// live as long as the checker. Returns the steps that it is held; 0 unless the checker stalls.
  int64_t statement(const Statement& statement, const std::vector<int64_t>& counters);

  /// By the line of the later statement.
  std::vector<HazardViolation> violations() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// All violations of a program. `progress` is called now and then with the number of statements done.
std::vector<HazardViolation> find_hazards(const Program& program, const Chip& chip,
                                          const std::function<void(int64_t)>& progress = {});

}  // namespace kodama::isa
