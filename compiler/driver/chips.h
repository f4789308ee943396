#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/tensor/tensor.h"

/// Several chips that train together: each is simulated by a process of its own, and MPI carries what they
/// exchange. Without MPI at build time everything here but make_chips() and start_on_chips() is there.
namespace kodama::compiler {

/// This process among those that simulate the chips. Processes that end without an end of this object (by an
/// exception that leaves its scope, or a signal) make mpirun end the others.
class Chips {
 public:
  virtual ~Chips() = default;
  virtual int number() const = 0;  ///< of this chip, from 0
  virtual int count() const = 0;
  virtual int count_here() const = 0;  ///< processes on this machine

  /// Block k of `sent` goes to chip k; the result has the blocks that the chips sent to this one, in their
  /// order. Blocks are of equal size.
  virtual std::vector<std::byte> exchange(const std::vector<std::byte>& sent) = 0;
  /// What all chips give, in their order; all give the same number of bytes.
  virtual std::vector<std::byte> gather(const std::vector<std::byte>& given) = 0;
  /// Whether any chip says so.
  virtual bool any(bool own) = 0;
};

/// This process as one of `count` that mpirun has started. UserError if mpirun has started another number,
/// UnsupportedError without MPI.
std::unique_ptr<Chips> make_chips(int count);
/// Whether mpirun has started this process, and as one of how many.
std::optional<int> started_as_one_of();
/// Has mpirun run the command (a program and its arguments) in `count` processes, and waits for their end.
/// Ctrl-C becomes SIGUSR1 in them. Returns their exit code. UnsupportedError without MPI or without mpirun.
int start_on_chips(int count, const std::vector<std::string>& command);

/// A link from every chip to the next one, in a ring.
struct Interconnect {
  double bandwidth = 0;  ///< of a link: bytes per second in either direction
  double latency = 0;    ///< of a message: seconds
  /// That an all-reduce of so many bytes takes: in count - 1 rounds every chip adds its own to a part of
  /// 1 / count that it receives, and passes it on; in as many rounds the sums go around.
  double seconds(int count, int64_t bytes) const;
};

/// Adds the tensors of shares in a fixed order, whatever their number: a tree whose left branches are as
/// large powers of two as can be, ((s0 + s1) + (s2 + s3)) + s4. So the sum of 2^k shares of each chip, added
/// over the chips, is to the bit that of all shares of one chip. Floats and doubles are added in their type.
class SumOfShares {
 public:
  void add(std::vector<Tensor> share);
  int64_t count() const;
  /// The sum of those that were added, of which there is one at least; none are left.
  std::vector<Tensor> take();

 private:
  void merge_last();
  std::vector<std::pair<int64_t, std::vector<Tensor>>> parts_;  ///< by size, largest first
};

/// The sum over all chips of tensors that each of them has: chip k adds the k-th part of all elements, in the
/// order of SumOfShares, and the sums are gathered.
std::vector<Tensor> sum_over_chips(Chips& chips, std::vector<Tensor> own);
/// Bytes of the elements that are added.
int64_t bytes_of(const std::vector<Tensor>& tensors);

}  // namespace kodama::compiler
