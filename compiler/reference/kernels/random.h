#pragma once

#include "compiler/reference/kernels/kernel.h"
#include "compiler/reference/kernels/threefry.h"

/// What random operators draw. ONNX says nothing of their generator; ours is threefry.h, and a run of a model
/// always gives the same numbers:
///
/// - The key is the node's attribute `seed`: as a float its bits and a zero, as Dropout's integer its low and
///   high half. Equal seeds give equal numbers.
/// - Without the attribute the key is the FNV-1a hash (64 bits, low and high half) of the node's name, or of
///   its first output's if it has none. The iterations of a loop then draw the same numbers, too.
/// - The counter is the element's index (row major): low word, high word.
namespace kodama::compiler::reference {

/// The key of a node.
ThreefryWords random_key(const Node& node);

class RandomStream {
 public:
  explicit RandomStream(const NodeContext& context);

  /// Both words of an element.
  ThreefryWords words(size_t element) const;
  /// In [0, 1): the upper 24 bits of the first word, which a float holds exactly.
  float uniform(size_t element) const;
  /// In [0, 1) with the 53 bits of a double: first word, then second. It begins with uniform()'s bits.
  double uniform_double(size_t element) const;
  /// Of mean 0 and deviation 1, after Box and Muller: sqrt(-2 ln u) cos(2 pi v), where u in (0, 1] is made of
  /// the first word and v in [0, 1) of the second.
  double normal(size_t element) const;

 private:
  ThreefryWords key_;
};

}  // namespace kodama::compiler::reference
