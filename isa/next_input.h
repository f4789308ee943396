#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "isa/host_chunks.h"

/// The next program's data, on their way into the DRAMs while the present program runs (HostWork::next).
namespace kodama::isa {

class SequencerPorts;

/// Which tags the program itself has in use: from an MV until the wait for it.
struct TagUse {
  std::array<bool, kMaxTransferTag + 1> in_use{};
  std::array<int64_t, kMaxTransferTag + 1> last_wait{};  ///< number of the wait, 0: none
  int64_t waits = 0;
  void mv(int tag) { in_use[static_cast<size_t>(tag)] = true; }
  void wait(int tag) {
    in_use[static_cast<size_t>(tag)] = false;
    last_wait[static_cast<size_t>(tag)] = ++waits;
  }
};

/// The host writes the MVs of chunks between the words of the program, each behind the point at which its
/// chunk is in PDM 0 and its place in DRAM free, with a tag that the program doesn't use there. Few are under
/// way at a time, at the lowest priority, so that the program finds room for its own.
///
/// Words of the program pass the link first: all that the instruction buffer takes.
class NextInput {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  /// `began`: the cycle at which the program starts, and its words pass the link.
  NextInput(const HostWork& work, const Chip& chip, int64_t began);

  /// Issues what can be issued at `cycle`, when `words` of the program have been taken. Returns the cycle at
  /// which to ask again; kNever: behind the next wait. `cycle` moves on only where an MV found no room.
  int64_t advance(SequencerPorts& ports, const TagUse& tags, int64_t words, int64_t& cycle);
  /// The program and its results are over at `cycle`: the rest. Returns the cycle at which all is in DRAM;
  /// kNever if nothing has been sent, since the host hasn't it yet.
  int64_t finish(SequencerPorts& ports, const TagUse& tags, int64_t words, int64_t cycle);
  /// The cycle at which all is in DRAM; kNever until that is known.
  int64_t there() const { return there_; }

 private:
  struct Moving {
    int tag;
    size_t chunk;
  };
  bool all_issued() const { return next_ == chunks_.size(); }
  /// Lets chunks pass the link as far as they have places. False: the host doesn't have them yet.
  void send(int64_t words, int64_t cycle);
  /// Tag for an MV; nothing while the program uses all.
  std::optional<int> tag(const TagUse& tags) const;
  void issue(SequencerPorts& ports, int tag, int64_t& cycle);
  /// Forgets MVs that are done at `cycle`.
  void look(SequencerPorts& ports, int64_t cycle);

  Chip chip_;
  HostHalves halves_;
  std::vector<HostChunk> chunks_;
  HostRing ring_;
  std::vector<int64_t> free_after_;  ///< by image
  int64_t from_;                     ///< cycle at which the host has it
  int64_t program_words_;
  int64_t words_sent_ = 0;        ///< of the program, on the link before the data
  int64_t link_;                  ///< tick at which the link has brought the last chunk
  std::vector<int64_t> arrived_;  ///< cycle, of the chunks that pass or have passed the link
  size_t next_ = 0;               ///< chunk to be moved
  size_t next_group_ = 0;         ///< of its groups
  size_t moved_ = 0;              ///< chunks that are in DRAM
  std::deque<Moving> moving_;
  int64_t there_ = kNever;
};

}  // namespace kodama::isa
