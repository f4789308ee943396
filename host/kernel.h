#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"

/// A kernel: a program, and where it may have to wait for the host.
namespace kodama::host {

/// A set of tags 1 to 63; bit t is tag t.
using Tags = uint64_t;
inline constexpr int kTags = isa::kMaxTransferTag + 1;
constexpr Tags tag_bit(int tag) {
  return Tags{1} << tag;
}
/// The tag of a statement that waits, else 0.
int wait_tag(const isa::Statement& statement);

class Kernel {
 public:
  /// Reads a file, or what stands for it: load_kernel of host/include/mnc2.h. UserError when that can't be.
  Kernel(const std::string& path, const isa::Chip& chip);
  Kernel(isa::Program program, std::string name);

  const std::string& name() const { return name_; }
  const isa::Program& program() const { return program_; }
  /// A `wait` whose tag no MV before it in this kernel carries: one that waits twice for a transfer of its
  /// own wants nothing of the host.
  struct HostWait {
    size_t statement = 0;
    int tag = 0;
  };
  const std::vector<HostWait>& host_waits() const { return host_waits_; }
  /// Two of them are for the same tag: the second wants an arrival behind the first.
  bool waits_again() const { return waits_again_; }
  Tags waited() const { return waited_; }
  Tags carried() const { return carried_; }  ///< by MVs

  size_t size() const { return program_.statements.size(); }
  /// The statements [from, to) as a program that goes on where one that ended at `from` was.
  isa::Program part(size_t from, size_t to) const;

  /// What statements [from, to) leave of arrivals: tags that their last MV has brought, tags whose last one a
  /// wait has taken; and the bytes that MVs moved.
  struct TagEvents {
    Tags brought = 0;
    Tags taken = 0;
    std::array<uint64_t, kTags> bytes{};
  };
  TagEvents tag_events(size_t from, size_t to) const;

 private:
  void find_waits();

  std::string name_;
  isa::Program program_;
  std::vector<HostWait> host_waits_;
  bool waits_again_ = false;
  Tags waited_ = 0;
  Tags carried_ = 0;
};

/// The file that is meant: `path` if it is there, else the first of the names that may stand for it.
/// UserError when none is there, or it is no regular file.
std::string find_kernel_file(const std::string& path);

}  // namespace kodama::host
