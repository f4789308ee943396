#pragma once

#include <onnx/onnx_pb.h>

/// The node with which a model waits for the other shares of its batch (compiler/graph/shares.h).
namespace kodama::compiler {

inline constexpr const char* kSharesDomain = "kodama";
inline constexpr const char* kMeanOfShares = "MeanOfShares";

inline bool is_mean_of_shares(const onnx::NodeProto& node) {
  return node.domain() == kSharesDomain && node.op_type() == kMeanOfShares;
}

}  // namespace kodama::compiler
