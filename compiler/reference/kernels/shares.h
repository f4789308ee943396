#pragma once

#include <string>

/// The node with which a model waits for the other shares of its batch (compiler/graph/shares.h).
namespace kodama::compiler {

inline constexpr const char* kSharesDomain = "kodama";
inline constexpr const char* kMeanOfShares = "MeanOfShares";

inline bool is_mean_of_shares(const std::string& domain, const std::string& op_type) {
  return domain == kSharesDomain && op_type == kMeanOfShares;
}

}  // namespace kodama::compiler
