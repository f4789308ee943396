#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/tensor/tensor.h"

namespace kodama::compiler {

/// Examples to train with: tensors whose first axis counts them.
class TrainingData {
 public:
  /// `sources`: a .npy or .pb file per input of a step, in the order of the inputs; or "mnist:DIR", a
  /// directory with the idx files of MNIST (t10k- or train-, as they are or .gz), which gives pictures [N, 1,
  /// 28, 28] from 0 to 1 and labels [N]. UserError for files that aren't such.
  explicit TrainingData(const std::vector<std::string>& sources);

  int64_t size() const { return count_; }
  size_t tensors() const { return tensors_.size(); }

  /// UserError unless tensor `number` can be given to an input of this type and of this shape, whose first
  /// axis is the batch: same type and extents, no NaN and no infinities. Labels of narrower integers become
  /// int64.
  void fit(size_t number, const std::string& input, DataType type, const Shape& shape);
  /// UserError unless all elements of tensor `number` are from 0 to classes - 1.
  void check_labels(size_t number, int64_t classes) const;

  /// Of tensor `number` these examples.
  Tensor batch(size_t number, const std::vector<int64_t>& examples) const;

 private:
  struct Source {
    std::string name;
    Tensor tensor;
  };
  int64_t count_ = 0;
  std::vector<Source> tensors_;
};

/// The order of the examples in an epoch, which is counted from 0: a function of seed and epoch alone.
std::vector<int64_t> shuffled(int64_t count, uint64_t seed, int64_t epoch);

}  // namespace kodama::compiler
