#pragma once

#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/kernels/kernel.h"

/// Images, known by where their words are and not by how a kernel describes that.
namespace kodama::compiler {

/// Two placements of a tensor with one key are the same words at the same places.
std::string key_of(const StreamPlacement& placement);

/// Without the dims of the iteration space that say nothing of the image, such as the columns of the other
/// factor of a product: what is left is the same for every product with this operand in this place.
StreamPlacement essential(const StreamPlacement& placement);

/// Whether an image is over all of its tensor, of this shape, as it is.
bool is_whole(const StreamPlacement& image, const Shape& shape);
/// Whether whole images of tensors that are the same elements in two shapes are the same words but for what
/// pads them, as far as axes of the shapes that stand on one axis of a layout tell. Example: rows [56, 2] of
/// one are the 112 rows of the other.
bool are_alike(const StreamPlacement& a, const StreamPlacement& b);

/// Placements by number: those of a tensor with one key have one number.
class NumberedPlacements {
 public:
  /// Works out keys side by side, for whoever asks for the numbers of the candidates' placements. These stay
  /// where they are.
  void expect(const std::vector<std::vector<Candidate>>& candidates);
  int number_of(const StreamPlacement& placement);

  const StreamPlacement& operator[](int number) const { return placements_[static_cast<size_t>(number)]; }
  const std::string& key(int number) const { return *keys_[static_cast<size_t>(number)]; }
  /// What the key is with another padding or in the other role; of its essential() with `is_essential`.
  const std::string& key_as(int number, layout::Padding padding, bool is_output, bool is_essential);
  const std::map<std::pair<TensorId, std::string>, int>& numbers() const { return numbers_; }

 private:
  std::map<std::pair<TensorId, std::string>, int> numbers_;
  std::deque<StreamPlacement> placements_;  // references stay valid
  std::vector<const std::string*> keys_;    ///< as placements_
  std::unordered_map<const StreamPlacement*, std::string> expected_;
  std::map<std::tuple<int, layout::Padding, bool, bool>, std::string> keys_as_;
};

}  // namespace kodama::compiler
