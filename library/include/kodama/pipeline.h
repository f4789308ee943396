#pragma once

#include <kodama/kodama.h>

/// Inferences in a row, some of which are in flight at a time: throughput against latency.
///
///     const kodama::PipelineResult row = kodama::run_pipeline(
///         program, [&](int64_t k) { return model.random_inputs(k + 1); }, {.runs = 16, .in_flight = 3});
///     row.per_second();
namespace kodama {

struct PipelineSettings {
  int64_t runs = 8;       ///< more than in_flight
  int64_t in_flight = 2;  ///< runs that the host has handed in at a time
  bool compare = false;   ///< the first with the CPU reference, as RunSettings::compare
  std::optional<double> tolerance = {};
  RunFiles files = {};           ///< json and outputs, of the first; no others
  WallTimes* times = nullptr;    ///< gets the parts of the call; they are in the JSON file, too
  SessionSettings session = {};  ///< with timing, and the host's overlaps; its progress has the phase, too

  /// UserError if run_pipeline can't take them; it calls this itself.
  void check() const;
};

/// What a row of inferences took, in cycles.
struct PipelineResult {
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
  double clock_hz = 0;   ///< of the chip
  double per_second() const { return interval > 0 ? clock_hz / interval : 0; }
  int64_t link() const { return link_in > link_out ? link_in : link_out; }
  /// The slower of link and chip: less can't be between two inferences.
  int64_t bound() const { return chip > link() ? chip : link(); }
  double share() const { return interval > 0 ? static_cast<double>(bound()) / interval : 1; }

  Tensors outputs;                       ///< of the first
  bool ok = true;                        ///< nothing of the following is wrong
  std::vector<std::string> differences;  ///< outputs with other bits than one by one, as sentences
  std::vector<Comparison> comparisons;   ///< of the first, with the CPU reference
  std::string json() const;              ///< what `kodama run --pipeline --json` writes
};

/// Runs the program `runs` times with the inputs of each, `in_flight` at a time and then one by one, and
/// compares the bits. `ready` gets the result before files are written. UnsupportedError for a program that
/// is compiled while it runs.
PipelineResult run_pipeline(const Program& program, const std::function<Tensors(int64_t run)>& inputs,
                            const PipelineSettings& settings = {},
                            const std::function<void(const PipelineResult&)>& ready = {});

}  // namespace kodama
