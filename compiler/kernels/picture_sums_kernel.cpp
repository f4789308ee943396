#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/kernels/builtin_kernels.h"
#include "compiler/kernels/columns.h"
#include "compiler/kernels/fill_rows.h"
#include "compiler/kernels/picture_sums.h"
#include "compiler/kernels/predict.h"
#include "compiler/kernels/rows_division.h"
#include "isa/arithmetic.h"

/// "sum-pictures": sums over the places of pictures on images of rows (picture_sums.h). Every L2B sums what
/// it has, part by part; rows are dealt to the slots of its MABs (columns.h), and the program of a part is
///
///     sums = 0
///     for rows of a slot: load a row of every picture, sums += terms
///     add up the four columns of a step, the MABs of a quad (l1bmr4) and the L1Bs (l2bmr); store
namespace kodama::compiler {

using isa::ceil_div;
using isa::round_up;
using isa::Space;
using layout::Factor;
using layout::Level;

namespace {

constexpr const char* kSumKernel = "sum-pictures";

class PictureSummer {
 public:
  PictureSummer(PictureSums problem, RowsSplit split, const isa::Chip& chip)
      : problem_(std::move(problem)),
        chip_(chip),
        picture_(problem_.picture, split, chip),
        sums_(problem_.sums, split, chip),
        regions_(picture_.row_lw(), chip) {}

  bool fits() const {
    const auto [groups, chunks] = picture_.order();
    const int64_t width = picture_.order().width();
    const int64_t local = chip_.memory.lm_words / isa::kWordsPerLong - kRowsReserveLw;
    // Both rows that are in turn, values and sums, as if all were in one memory.
    const int64_t lw = 2 * problem_.pictures() * row_buffer_lw() +
                       (std::ssize(problem_.is_picture) - problem_.pictures() + isa::kCyclesPerStep) * chunks;
    const int64_t staged = chunks / width * round_up(groups * width, int64_t{isa::kCyclesPerStep});
    const bool has_parts = picture_.images() % problem_.part_size[0] == 0 &&
                           picture_.rows() % problem_.part_size[1] == 0 &&
                           sums_.images() == image_parts() * row_parts() &&
                           sums_.image_ways() == picture_.image_ways() * picture_.row_ways();
    return has_parts && picture_.is_nearly_even() && lw <= local && regions_.count() >= 4 &&
           staged * kColumnLw <= rows_staging(chip_).windows_lw &&
           sums_.row_lw() <= rows_staging(chip_).results_lw;
  }

  int64_t cycles() const {
    const auto [groups, chunks] = picture_.order();
    const int64_t turns = image_parts() * row_parts() * part_turns();
    const int64_t units = ceil_div(groups * picture_.order().width(), int64_t{isa::kCyclesPerStep}) * chunks /
                          picture_.order().width();
    // From L2BM for even and odd L1Bs, and to the PEs.
    const int64_t load = 3 * kBlocksPerChunk * units * problem_.pictures();
    const int64_t add =
        chunks * ceil_div(groups, int64_t{isa::kCyclesPerStep}) * (machine_operations(problem_.expr) + 1);
    const int64_t steps = turns * (load + add);
    const int64_t lw = image_parts() * row_parts() * part_rows() * problem_.pictures() * picture_.row_lw();
    return std::max(steps * isa::kCyclesPerStep, own_rows_cycles(lw, chip_)) +
           image_parts() * row_parts() * own_rows_cycles(sums_.row_lw(), chip_);
  }

  std::string describe() const {
    return fmt::format("{} pictures, {} parts of {} rows in {} slots of {}", problem_.pictures(),
                       image_parts() * row_parts(), part_rows(), kColumnSlots, part_turns());
  }

  /// In the layer's order of inputs, then zeros and sums.
  std::vector<StreamPlacement> placements(const ReduceLayer& reduce) const {
    Shape extents = reduce.output_extents;
    extents.insert(extents.end(), reduce.reduction_extents.begin(), reduce.reduction_extents.end());
    std::vector<StreamPlacement> list;
    for (size_t k = 0; k < reduce.inputs.size(); ++k) {
      std::string name = fmt::format("x{}", k);
      if (problem_.is_picture[k]) {
        list.push_back(picture_.placement(std::move(name)));
        list.back().access.tensor = reduce.inputs[k].tensor;
        continue;
      }
      StreamPlacement values;
      values.name = std::move(name);
      values.access = reduce.inputs[k];
      values.extents = extents;
      values.transport = layout::Transport(chip_, picture_.channel_mode(), layout::L1bMode::kBroadcast,
                                           layout::MabMode::kDistribute);
      std::vector<Factor> channels = picture_.channel_factors(), copies = picture_.row_way_factors();
      channels.insert(channels.end(), {{picture_.chunks(), Level::kAddress, 1},
                                       {kBlocksPerChunk, Level::kMab, kBlocksPerChunk},
                                       {isa::kPePerMab, Level::kPe, 1},
                                       {isa::kWordsPerLong, Level::kWord, 1}});
      copies.insert(copies.end(), {{chip_.l1b_per_l2b, Level::kL1b, 1}, {kBlocksPerChunk, Level::kMab, 1}});
      values.axis_dims = {{2}};
      values.layout = layout::Layout({channels}, layout::Memory::kLm0, copies);
      values.length_lw = round_up(values_lw(), values.transport.granule());
      place_single(values);
      list.push_back(std::move(values));
    }
    const auto first = std::ranges::find(problem_.is_picture, true) - problem_.is_picture.begin();
    list.push_back(fill_rows_placement("e0", reduce.epilogue_inputs.at(0), regions_.lw(),
                                       list[static_cast<size_t>(first)].transport, chip_));
    StreamPlacement sums = sums_.placement("y");
    sums.is_output = true;
    // Channels that fill a chunk up are sums of anything.
    sums.layout.set_padding(layout::Padding::kUndefined);
    list.push_back(std::move(sums));
    return list;
  }

  TileProgram program(const std::string& name, const std::vector<StreamPlacement>& placements,
                      const std::vector<int64_t>& dram_addresses) const;

 private:
  friend class PictureSumProgram;
  /// Parts of an L2B.
  int64_t image_parts() const { return picture_.images() / problem_.part_size[0]; }
  int64_t row_parts() const { return picture_.rows() / problem_.part_size[1]; }
  int64_t part_rows() const { return problem_.part_size[0] * problem_.part_size[1]; }
  /// Rows of a slot.
  int64_t part_turns() const { return ceil_div(part_rows(), kColumnSlots); }
  /// Columns of a lane in a buffer.
  int64_t pitch() const { return round_up(picture_.order().groups, int64_t{isa::kCyclesPerStep}); }
  int64_t row_buffer_lw() const { return picture_.chunks() * pitch(); }
  int64_t values_lw() const { return round_up(picture_.chunks(), int64_t{isa::kCyclesPerStep}); }

  PictureSums problem_;
  isa::Chip chip_;
  RowsImage picture_, sums_;
  RowRegions regions_;
};

/// What the program does, operation by operation.
class PictureSumProgram : SlotProgram {
 public:
  explicit PictureSumProgram(const PictureSummer& kernel) : k_(kernel), regions_(kernel.regions_) {}

  TileProgram run(const std::string& name, const std::vector<StreamPlacement>& placements,
                  const std::vector<int64_t>& dram_addresses) {
    begin(name, placements, dram_addresses);
    for (size_t input = 0; input < k_.problem_.is_picture.size(); ++input) add_input(input);
    const int64_t chunks = k_.picture_.chunks();
    sums_ = buffer("sums", chunks * isa::kCyclesPerStep,
                   isa::space_bit(Space::kLm0) | isa::space_bit(Space::kLm1));
    // Places outside the tensors stay 0.
    for (const auto& rows : rows_) {
      for (const RowsInput& input : rows) {
        if (input.of_rows) fill(input.buffer);
      }
    }
    for (int64_t image = 0; image < k_.image_parts(); ++image) {
      for (int64_t row = 0; row < k_.row_parts(); ++row)
        part(image * k_.problem_.part_size[0], row * k_.problem_.part_size[1], image * k_.row_parts() + row);
    }
    return std::move(program_);
  }

 private:
  /// Rows of a picture are in either of two buffers in turn: one is loaded while the other is read.
  void add_input(size_t input) {
    const std::string name = program_.streams[input].name;
    const bool is_picture = k_.problem_.is_picture[input];
    const scheduler::HomeSet home = isa::space_bit(pictures_ % 2 == 0 ? Space::kLm1 : Space::kLm0);
    if (is_picture) {
      for (size_t turn = 0; turn < rows_.size(); ++turn)
        rows_.at(turn).push_back({buffer(fmt::format("{} {}", name, turn), k_.row_buffer_lw(), home), true});
      ++pictures_;
      return;
    }
    const int values = buffer(name, k_.values_lw(), isa::space_bit(Space::kLm0));
    add(LoadTile{static_cast<int>(input), {}, values, {}, k_.values_lw()});
    for (auto& rows : rows_) rows.push_back({values, false});
  }

  /// The row of a slot: the L2B's image and row `first` are the part's first.
  std::optional<std::pair<int64_t, int64_t>> row_of(int l2b, int64_t first_image, int64_t first_row,
                                                    int64_t number) const {
    if (number >= k_.part_rows()) return std::nullopt;
    const auto [own_image, own_row] = k_.picture_.first_of(l2b);
    const int64_t image = own_image + first_image + number / k_.problem_.part_size[1];
    const int64_t row = own_row + first_row + number % k_.problem_.part_size[1];
    if (image >= k_.problem_.picture.images || row >= k_.problem_.picture.rows) return std::nullopt;
    return std::pair(image, row);
  }

  void part(int64_t first_image, int64_t first_row, int64_t number) {
    fill(sums_);
    RowsTransfer zeros;
    zeros.stream = static_cast<int>(k_.problem_.is_picture.size());
    zeros.group = 0;
    const int64_t turns = k_.part_turns();
    for (int64_t turn = 0; turn < turns; ++turn) {
      const std::vector<RowsInput>& rows = rows_.at(static_cast<size_t>(next_turn_++ % 2));
      // The last rows may not be enough for all slots: the others have none.
      const int64_t slots = std::min(kColumnSlots, k_.part_rows() - turn * kColumnSlots);
      for (size_t input = 0; input < rows.size(); ++input) {
        if (!rows[input].of_rows) continue;
        if (slots < kColumnSlots) fill(rows[input].buffer);
        std::vector<LoadColumns> loads;
        for (int64_t mab = 0; 2 * mab < slots; ++mab) {
          LoadColumns load;
          load.stream = static_cast<int>(input);
          load.mab = mab;
          for (int64_t odd = 0; odd < 2; ++odd) {
            bring_slot_row(
                load, odd, regions_.next(), k_.picture_, -1,
                [&](int l2b, int64_t slot) {
                  return row_of(l2b, first_image, first_row, turn * kColumnSlots + slot);
                },
                zeros, k_.chip_);
          }
          load.order = k_.picture_.order();
          load.columns = k_.problem_.columns();
          load.lane = load.count = load.order.groups;
          load.chunks = load.order.chunks;
          load.buffer = rows[input].buffer;
          load.pitch = k_.pitch();
          loads.push_back(std::move(load));
        }
        // The first brings the rows of all: what follows one another comes at once.
        std::vector<RowsTransfer> transfers;
        for (LoadColumns& load : loads) {
          transfers.insert(transfers.end(), load.transfers.begin(), load.transfers.end());
          load.transfers.clear();
        }
        loads[0].transfers = joined_transfers(std::move(transfers));
        for (LoadColumns& load : loads) add(std::move(load));
      }
      add(AddColumns{k_.problem_.expr, rows, k_.picture_.order(), k_.pitch(), sums_, turn + 1 == turns});
    }
    finish(number);
  }

  void finish(int64_t image) {
    const int64_t chunks = k_.picture_.chunks();
    for (int64_t chunk = 0; chunk < chunks; ++chunk) {
      FinishRows finish;
      finish.sums = sums_;
      finish.of_sums = {chunk, chunks};
      finish.epilogue = ScalarExpr::identity();
      finish.chunk = chunk;
      finish.order = {1, chunks};
      add(std::move(finish));
    }
    const int64_t row_lw = k_.sums_.row_lw();
    const int64_t l2bm = image % 2 * round_up(row_lw, int64_t{isa::kMvUnitLw});
    add(SumRows{1, row_lw, l2bm, row_lw});
    StoreRows store;
    store.stream = static_cast<int>(program_.streams.size()) - 1;
    store.l2bm = l2bm;
    RowsTransfer own;
    own.dram = k_.sums_.offset(image, 0);
    own.l2bm = l2bm;
    own.count = row_lw;
    store.transfers = {own};
    add(std::move(store));
  }

  const PictureSummer& k_;
  RowRegions regions_;
  /// Of each turn, the expression's inputs.
  std::array<std::vector<RowsInput>, 2> rows_;
  int64_t pictures_ = 0, next_turn_ = 0;
  int sums_ = -1;
};

TileProgram PictureSummer::program(const std::string& name, const std::vector<StreamPlacement>& placements,
                                   const std::vector<int64_t>& dram_addresses) const {
  return PictureSumProgram(*this).run(name, placements, dram_addresses);
}

std::vector<Candidate> sum_candidates(const Layer& layer, const LayerGraph& graph, const isa::Chip& chip,
                                      const KernelOptions& /*options*/) {
  const auto& reduce = std::get<ReduceLayer>(layer.body);
  if (!has_column_lanes(chip) || reduce.epilogue_inputs.size() != 1) return {};
  const auto problem = picture_sums(reduce, layer.outputs.at(0), [&](TensorId tensor) -> const Shape& {
    return graph.tensors[static_cast<size_t>(tensor)].shape;
  });
  if (!problem) return {};
  std::vector<Candidate> candidates;
  for (const RowsSplit split : kRowsSplits) {
    const auto kernel = std::make_shared<const PictureSummer>(*problem, split, chip);
    if (!kernel->fits()) continue;
    Candidate candidate;
    candidate.placements = kernel->placements(reduce);
    candidate.description = kernel->describe();
    candidate.predicted_cycles = kernel->cycles();
    candidate.emit = [kernel, name = layer.name,
                      placements = candidate.placements](const std::vector<int64_t>& dram_addresses) {
      return kernel->program(name, placements, dram_addresses);
    };
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

}  // namespace

std::optional<int64_t> picture_sums_cycles(const PictureSums& problem, RowsSplit split,
                                           const isa::Chip& chip) {
  if (!has_column_lanes(chip)) return std::nullopt;
  const PictureSummer kernel(problem, split, chip);
  return kernel.fits() ? std::optional(kernel.cycles()) : std::nullopt;
}

Kernel sum_pictures_kernel() {
  Kernel kernel;
  kernel.name = kSumKernel;
  kernel.description = "sums over the places of pictures, one for every channel";
  kernel.kind = LayerKind::kReduce;
  kernel.run = sum_candidates;
  return kernel;
}

}  // namespace kodama::compiler
