#pragma once

#include <nlohmann/json.hpp>

#include "compiler/package/compiled_model.h"

/// The network of a compiled model as edges between its stages, for run_to_json.
namespace kodama::compiler {

/// Sets of `run`:
///
///     model_inputs, model_outputs  name, type, shape
///     moves    what goes from one stage to another, or to and from the host:
///       from, to       stages; null: the host, or a constant that is there before the first run
///       tensor, type, shape, constant
///       way            "DRAM", "stays on the chip", "host link", "before the first run", "host"
///       layout         of the image that is read, in `layouts`; null on the host
///       transport, lw_per_group, groups, bytes, dram_address
///       host_relayout  the host changes the layout on the way
///     layouts  each once: text, memory, padding, drawing (a sample), and
///       levels         of the tree: level, instances of it below the next one up, those `used`, how often
///       what
///                      is there is `replicated`, and the `axes` that are spread over it
///     tree     instances per level of the chip, memories in LW, clock_hz
///     peaks    products_per_cycle, dram_bytes_per_cycle
void add_network(const CompiledModel& model, nlohmann::ordered_json& run);

}  // namespace kodama::compiler
