#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/dynamic/region.h"

/// Buckets: a dimension that is found at run time is padded to the next of a few extents, so that one program
/// serves many shapes (`--bucket seq=16,32,64`).
///
/// Results are those of the data alone: rules for every operator (bucket_rules.h) show that what is padded
/// has no part in what isn't, with masks where an operator sums along such an axis. Where they can't, the
/// region has no bucket. What depends on the data's lengths is given in every run: masks, numbers of elements
/// of means, places that count from the end of an axis, constants computed from lengths. Everything else is
/// the same for all lengths of a bucket, and so is the program.
namespace kodama::compiler {

struct Bucket {
  std::string dimension;         ///< a dimension's name, or "x:0": axis 0 of the value x
  std::vector<int64_t> extents;  ///< in rising order
};
/// From DIM=N,N,N; UserError for anything else.
Bucket parse_bucket(const std::string& text);

/// An axis of a value that is of a dimension with buckets, and that dimension.
using BucketAxes = std::map<int, std::string>;

/// Which values of a model's graph have axes of these dimensions: inputs that call them so, and values that
/// the bucket names. UserError for a dimension that the graph doesn't have, or has twice in `buckets`.
std::map<std::string, BucketAxes> find_bucket_axes(const onnx::GraphProto& graph,
                                                   const std::vector<Bucket>& buckets);

/// A region at its bucket's extents, and what this run's lengths make of it.
struct PaddedRegion {
  onnx::ModelProto model;  ///< the same for all lengths of the bucket
  /// Inputs of the region that have to be padded, with their shapes in the model.
  std::map<std::string, Shape> input_shapes;
  /// Inputs that the model has besides the region's, for this run's lengths.
  TensorMap given;
  /// Outputs' shapes without padding.
  std::map<std::string, Shape> output_shapes;
  /// Axes of outputs that are of a dimension with buckets again.
  std::map<std::string, BucketAxes> output_axes;
  std::string text;  ///< "seq 37 in 64"
};

/// The region padded, in as many of the dimensions that `axes` (of its inputs) names as can be together, the
/// first of `buckets` before the others.
struct BucketChoice {
  std::optional<PaddedRegion> padded;
  std::string reason;  ///< why not in all of them; empty: it is, or none is there
};
BucketChoice choose_bucket(const Region& region, const std::map<std::string, BucketAxes>& axes,
                           const std::vector<Bucket>& buckets);

/// With zeros behind the elements of every axis.
Tensor padded_to(const Tensor& tensor, const Shape& shape);
/// The first elements of every axis.
Tensor cut_to(const Tensor& tensor, const Shape& shape);

}  // namespace kodama::compiler
