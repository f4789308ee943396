#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/costs.h"
#include "isa/program.h"
#include "scheduler/optimizer/optimize.h"
#include "scheduler/optimizer/stream_operation.h"

/// The optimizer's scheduler: operations of a finished program, some of them tied to others at a fixed
/// distance. Internal to scheduler/.
namespace kodama::scheduler {

/// What issued shortly before a segment.
struct RecentOperation {
  int64_t time = 0;  ///< relative to the segment's first step: negative, or 0 for an MV
  bool is_mv = false;
  std::vector<isa::Access> accesses;
};
/// Steps that must lie between an earlier and a later operation, as a difference of times; negative when
/// there is no need. The earlier one may be an MV, which issues just before the step of its time.
int64_t least_time_difference(const std::vector<isa::Access>& first, bool first_is_mv,
                              const std::vector<isa::Access>& second, bool second_is_mv,
                              const isa::Chip& chip);
/// Steps by which all of `operations` must issue later than their times say, because of those before them.
int64_t delay_behind(const std::vector<RecentOperation>& before,
                     const std::vector<RecentOperation>& operations, const isa::Chip& chip);

struct StreamSegment {
  std::vector<StreamOperation> operations;  ///< in program order
  std::vector<ForwardLink> links;
  bool has_block_mask = false;
};

/// Finds issue times. Operations tied by links form clusters that issue as one.
class ClusterScheduler {
 public:
  /// `keep_distances`: tied operations keep the distance they had in the input; otherwise they come as close
  /// as their other dependences allow.
  ClusterScheduler(const StreamSegment& segment, const std::vector<RecentOperation>& before,
                   const isa::Chip& chip, bool keep_distances);

  /// False when the ties contradict each other or the dependences.
  bool is_consistent() const { return consistent_; }

  using Times = std::vector<int64_t>;
  /// List scheduling; `variant` 0 goes by the longest path to the end, 1 by program order, others by the
  /// longest path with random changes. Nothing when it needs more than `limit` steps, or doesn't get through.
  /// `late_waits`: a wait issues behind everything that doesn't need it, whose steps go by while the transfer
  /// is under way.
  std::optional<Times> list(int variant, int64_t limit, bool late_waits = false) const;
  /// In program order, a cluster at a time.
  std::optional<Times> plain() const;

  int64_t length(const Times& times) const;
  int64_t critical_path() const { return critical_path_; }
  StepBounds bounds() const;

 private:
  struct Edge {
    int to = 0;
    int64_t distance = 0;
  };
  /// Two operations in any order, but apart.
  struct Apart {
    int other = 0;
    int64_t after_other = 0;   ///< when the other one issues first
    int64_t before_other = 0;  ///< when this one does
  };
  struct Cluster {
    std::vector<int> members;      ///< in program order
    std::vector<int64_t> offsets;  ///< of the members' times
    std::vector<int64_t> empty;    ///< offsets of steps in which nothing may issue
    int64_t first = 0;             ///< key of program order
    int64_t height = 0;
  };
  struct Filling;

  void find_dependences();
  void find_clusters(bool keep_distances);
  void find_heights();
  bool compatible(int a, int b) const;
  bool fits(const Filling& filling, const Cluster& cluster, int64_t start, bool alone) const;
  void place(Filling& filling, int cluster, int64_t start) const;
  int64_t earliest_start(const Filling& filling, const Cluster& cluster) const;
  /// By cluster: how many waits must issue before it; of a wait: itself too.
  std::vector<int> waits_before() const;

  const StreamSegment& segment_;
  const isa::Chip& chip_;
  int n_ = 0;
  bool consistent_ = true;
  std::vector<std::vector<Edge>> successors_;
  std::vector<std::vector<Edge>> predecessors_;
  std::vector<std::vector<Apart>> apart_;
  std::vector<std::pair<int, int>> bundled_;  ///< must issue in one step
  std::vector<int64_t> earliest_;
  std::vector<int64_t> height_;
  std::vector<isa::IssueGroup> groups_;
  std::vector<int> cluster_of_;
  std::vector<Cluster> clusters_;
  int64_t critical_path_ = 0;
  mutable std::vector<int8_t> compatible_;  ///< -1 = not yet known
};

}  // namespace kodama::scheduler
