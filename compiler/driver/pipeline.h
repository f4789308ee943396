#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <iosfwd>

#include "compiler/driver/session_parts.h"
#include "compiler/package/compiled_model.h"

/// `kodama run --pipeline`: inferences in a row, some in flight at a time, on a Device
/// (compiler/runtime/device.h).
namespace kodama::compiler {

/// What a row of inferences took, in cycles.
struct PipelineFigures {
  int64_t runs = 0;
  int64_t in_flight = 0;
  int64_t latency_alone = 0;  ///< from the host's inputs to its outputs, with nothing else on the way
  int64_t latency = 0;        ///< the longest, in the row
  double interval = 0;  ///< from one inference's outputs to those of the next: the mean behind the first
                        ///< `in_flight`, while the pipeline fills
  // What one inference takes of each.
  int64_t chip = 0;      ///< its programs alone
  int64_t link_in = 0;   ///< inputs and instruction words
  int64_t link_out = 0;  ///< outputs
  int64_t host = 0;      ///< layers that the host computes; nothing comes beside them
  double per_second(const isa::Chip& chip) const { return interval > 0 ? chip.clock_hz / interval : 0; }
  int64_t link() const { return link_in > link_out ? link_in : link_out; }
  /// The slower of link and chip: less can't be between two inferences.
  int64_t bound() const { return chip > link() ? chip : link(); }
  double share() const { return interval > 0 ? static_cast<double>(bound()) / interval : 1; }
};

/// Refuses options that say nothing here.
void check_pipeline_options(const RunRequest& request);

/// Runs the model request.repeat times, each with inputs of its own where they are random, request.in_flight
/// at a time and then one by one, and compares the bits; the first with the CPU reference, `imported`.
/// Returns an exit code.
int run_pipeline(const RunRequest& request, const CompiledModel& model, const onnx::ModelProto& imported,
                 WallTimes& times, std::ostream& out);

}  // namespace kodama::compiler
