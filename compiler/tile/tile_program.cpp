#include "compiler/tile/tile_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "isa/arithmetic.h"
#include "isa/error.h"

namespace kodama::compiler {

using layout::Factor;
using layout::Level;

namespace {

constexpr const char* memory_name(isa::Space memory) {
  return memory == isa::Space::kLm0 ? "LM0" : "LM1";
}

}  // namespace
int64_t LoadTile::stream_lw() const {
  return normalize ? matrix_form(*normalize).stream_lw_of(element) : 1;
}
int64_t StreamProduct::a_lw() const {
  const MatrixForm& form = matrix_form(precision);
  return row_blocks * inner_lw * form.rows * form.stream_lw_of(a.element);
}
int64_t StreamProduct::b_lw() const {
  return inner_lw / parts * columns * matrix_form(precision).stream_lw_of(b.element);
}
int64_t StreamProduct::c_lw() const {
  return parts * row_blocks * columns * matrix_form(precision).result_lw;
}
namespace {

/// Walks the loop nest and hands every range that an operation touches to `buffer_range` or `stream_range`
/// of the visitor, with the enclosing loops' counts.
class Verifier {
 public:
  Verifier(const TileProgram& program, const isa::Chip& chip) : program_(program), chip_(chip) {}

  void run() {
    for (const TileBuffer& buffer : program_.buffers) {
      require(buffer.size_lw > 0 && buffer.homes != 0, "buffer '{}' has {} LW and homes {:#x}", buffer.name,
              buffer.size_lw, buffer.homes);
      const auto has = [&](const TileProgram::Kept& kept) {
        return kept.has(buffer.memory, buffer.address_lw, buffer.size_lw);
      };
      require(buffer.address_lw < 0 || std::ranges::any_of(program_.kept, has),
              "buffer '{}' is at {}, which isn't kept", buffer.name, buffer.address_lw);
    }
    for (const TileProgram::Kept& kept : program_.kept) {
      require((kept.memory == isa::Space::kLm0 || kept.memory == isa::Space::kLm1) && kept.begin_lw >= 0 &&
                  kept.size_lw > 0 &&
                  kept.begin_lw + kept.size_lw <= chip_.memory.lm_words / isa::kWordsPerLong,
              "{} LW of {} are kept, from {} on", kept.size_lw, memory_name(kept.memory), kept.begin_lw);
    }
    for (const TileStream& stream : program_.streams) {
      require(stream.length_lw > 0 && stream.dram_address >= 0, "stream '{}' has {} LW at {}", stream.name,
              stream.length_lw, stream.dram_address);
      const int64_t size = stream.transport.part_lw(stream.length_lw) * stream.transport.parts_per_group();
      require(stream.dram_address + size <= chip_.memory.dram_lw,
              "stream '{}' takes {} LW at {}, beyond the {} LW of DRAM", stream.name, size,
              stream.dram_address, chip_.memory.dram_lw);
    }
    nodes(program_.body);
  }

 private:
  template <typename... Args>
  void require(bool condition, fmt::format_string<Args...> format, Args&&... args) const {
    isa::check_internal(condition, "verify_tile_program", "{}: {}", program_.name,
                        condition ? std::string() : fmt::format(format, std::forward<Args>(args)...));
  }

  /// Smallest and largest value of an index over all iterations.
  std::pair<int64_t, int64_t> span(const TileIndex& index) const {
    require(index.strides.size() <= counts_.size(), "index with {} strides in {} loops", index.strides.size(),
            counts_.size());
    int64_t low = index.base;
    int64_t high = index.base;
    for (size_t d = 0; d < index.strides.size(); ++d) {
      const int64_t reach = index.strides[d] * (counts_[d] - 1);
      (reach < 0 ? low : high) += reach;
    }
    return {low, high};
  }

  void buffer_range(std::string_view what, int buffer, const TileIndex& at, int64_t count) const {
    require(buffer >= 0 && buffer < static_cast<int>(program_.buffers.size()), "{}: no buffer {}", what,
            buffer);
    const TileBuffer& target = program_.buffers[static_cast<size_t>(buffer)];
    const auto [low, high] = span(at);
    require(count > 0 && low >= 0 && high + count <= target.size_lw,
            "{}: range [{}, {}) leaves buffer '{}' of {} LW", what, low, high + count, target.name,
            target.size_lw);
  }

  void multiple_of_step(std::string_view what, int64_t count) const {
    require(count % isa::kCyclesPerStep == 0, "{}: {} LW is not a multiple of {}", what, count,
            isa::kCyclesPerStep);
  }

  void stream_range(std::string_view what, int stream, const TileIndex& from, int64_t count) const {
    require(stream >= 0 && stream < static_cast<int>(program_.streams.size()), "{}: no stream {}", what,
            stream);
    const TileStream& target = program_.streams[static_cast<size_t>(stream)];
    const int64_t granule = target.transport.granule();
    const auto [low, high] = span(from);
    require(low >= 0 && high + count <= target.length_lw, "{}: range [{}, {}) leaves stream '{}' of {} LW",
            what, low, high + count, target.name, target.length_lw);
    bool aligned = from.base % granule == 0;
    for (int64_t stride : from.strides) aligned = aligned && stride % granule == 0;
    require(aligned, "{}: position {} + {} in stream '{}' is not a multiple of the granule {}", what,
            from.base, fmt::join(from.strides, ", "), target.name, granule);
  }

  void inputs(std::string_view what, const std::vector<MapTile::Input>& list, const ScalarExpr& expr,
              int64_t count) const {
    require(expr.input_count() <= static_cast<int>(list.size()), "{}: {} inputs for {}", what, list.size(),
            expr.to_string());
    for (const MapTile::Input& input : list)
      buffer_range(what, input.buffer, input.at, input.is_single ? 1 : count);
  }

  void nodes(const std::vector<TileNode>& list) {
    for (const TileNode& item : list) {
      std::visit([this](const auto& op) { node(op); }, item.kind);
    }
  }

  /// Halves are nothing but operands of products.
  void elements(std::string_view what, StreamElement element,
                std::optional<MatrixPrecision> precision) const {
    require(element == StreamElement::kFloat || precision == MatrixPrecision::kHalf, "{}: a stream of {}s",
            what, kStreamElementNames.at(static_cast<size_t>(element)));
  }
  void node(const LoadTile& op) const {
    const int64_t shrink = op.stream_lw();
    elements("load", op.element, op.normalize);
    multiple_of_step("load", op.count);
    require(op.count % (shrink * isa::kCyclesPerStep) == 0, "load: {} LW can't be normalized", op.count);
    stream_range("load", op.stream, op.from, op.count);
    buffer_range("load", op.buffer, op.at, op.count / shrink);
    if (!op.beside_at) return;
    const layout::Transport& transport = program_.streams[static_cast<size_t>(op.stream)].transport;
    const int64_t staged = isa::round_up(op.count, transport.granule());
    require(*op.beside_at >= 0 &&
                *op.beside_at + staged * transport.l2bm_lw_per_number() <= chip_.memory.l2bm_lw &&
                staged * transport.l1bm_lw_per_number() <= chip_.memory.l1bm_lw / 2,
            "load: {} LW at once, from {} of L2BM on", op.count, *op.beside_at);
  }
  void node(const StoreTile& op) const {
    multiple_of_step("store", op.count);
    stream_range("store", op.stream, op.to, op.count);
    buffer_range("store", op.buffer, op.at, op.count);
  }
  void node(const FillTile& op) const {
    multiple_of_step("fill", op.count);
    buffer_range("fill", op.buffer, op.at, op.count);
  }
  void node(const ProductTile& op) const {
    const MatrixForm& form = matrix_form(op.precision);
    multiple_of_step("product columns", op.columns);
    require(op.row_blocks > 0 && op.inner_lw > 0, "product of {} row blocks and {} inner LW", op.row_blocks,
            op.inner_lw);
    buffer_range("product a", op.a, op.a_at, op.row_blocks * op.inner_lw * form.rows);
    buffer_range("product b", op.b, op.b_at, op.inner_lw * op.columns);
    buffer_range("product c", op.c, op.c_at, op.row_blocks * op.columns * form.result_lw);
  }
  void node(const StreamProduct& op) const {
    const MatrixForm& form = matrix_form(op.precision);
    multiple_of_step("stream product columns", op.columns);
    require(form.products == 1, "stream product in precision {}", matrix_precision_name(op.precision));
    require(op.row_blocks > 0 && op.inner_lw > 0 && op.pieces > 0 && op.parts > 0,
            "stream product of {} parts of {} row blocks and {} pieces of {} inner LW", op.parts,
            op.row_blocks, op.pieces, op.inner_lw);
    require(op.parts == 1 ||
                (op.pieces % 2 == 0 && op.parts % 2 == 0 && op.inner_lw % op.parts == 0 && op.result[0] >= 0),
            "stream product of {} parts, {} pieces of {} inner LW", op.parts, op.pieces, op.inner_lw);
    int64_t l2bm_lw = 0;
    for (const auto& [source, lw] : {std::pair(&op.a, op.a_lw()), std::pair(&op.b, op.b_lw())}) {
      elements("stream product", source->element, op.precision);
      stream_range("stream product", source->stream, source->from, (op.shares() - 1) * source->pitch + lw);
      const layout::Transport& transport = program_.streams[static_cast<size_t>(source->stream)].transport;
      require(source->pitch >= lw && source->pitch % transport.granule() == 0,
              "stream product: {} numbers from one share of {} to the next", source->pitch, lw);
      l2bm_lw += source->pitch * transport.l2bm_lw_per_number();
    }
    l2bm_lw *= StreamProduct::kSharesInL2bm;
    if (op.store) {
      const StreamProduct::Results& store = *op.store;
      int64_t all = 0;
      for (const int buffer : store.buffers) {
        if (buffer < 0) continue;
        buffer_range("stream product results", buffer, {}, store.count);
        all += store.count;
      }
      stream_range("stream product", store.stream, store.to, all);
      multiple_of_step("stream product results", store.chunk);
      require(store.chunk > 0 && store.chunks_per_round > 0 &&
                  store.chunks_per_round <= StreamProduct::most_chunks(op.parts) &&
                  store.count % (store.chunk * store.chunks_per_round) == 0 &&
                  store.rounds() <= StreamProduct::store_rounds(op.pieces, op.parts),
              "stream product: results of {} LW stored by {}, {} times a round", store.count, store.chunk,
              store.chunks_per_round);
      l2bm_lw +=
          store.chunk * program_.streams[static_cast<size_t>(store.stream)].transport.l2bm_lw_per_number();
    }
    require(l2bm_lw <= chip_.memory.l2bm_lw, "stream product: {} LW in L2BM", l2bm_lw);
    for (const int buffer : op.b_buffers)
      buffer_range("stream product operand", buffer, {}, (op.parts == 1 ? 1 : 2) * op.inner_lw * op.columns);
    for (const int buffer : op.parked) {
      if (op.parts > 1) buffer_range("stream product sums", buffer, {}, op.c_lw());
    }
    for (const int buffer : op.result) {
      if (buffer >= 0) buffer_range("stream product results", buffer, {}, op.result_lw());
    }
    buffer_range("stream product sums", op.c[0], {}, op.first_blocks() * op.columns * form.result_lw);
    if (op.c[1] >= 0)
      buffer_range("stream product sums", op.c[1], {},
                   (op.row_blocks - op.first_blocks()) * op.columns * form.result_lw);
  }
  void node(const MapTile& op) const {
    multiple_of_step("map", op.count);
    inputs("map", op.inputs, op.expr, op.count);
    buffer_range("map", op.out, op.out_at, op.count);
  }
  void node(const ReduceTile& op) const {
    multiple_of_step("reduce", op.count);
    require(op.repeats > 0, "reduce of {} elements", op.repeats);
    require(op.expr.input_count() <= static_cast<int>(op.inputs.size()), "reduce: {} inputs for {}",
            op.inputs.size(), op.expr.to_string());
    for (const ReduceTile::Input& input : op.inputs) {
      using Order = ReduceTile::Order;
      const int64_t lw = input.order == Order::kEach   ? op.count * op.repeats
                         : input.order == Order::kHeld ? op.count
                                                       : op.repeats;
      buffer_range("reduce", input.buffer, input.at, lw);
    }
    buffer_range("reduce", op.accumulator, op.accumulator_at, op.count);
    require((op.low_accumulator >= 0) == op.expr.is_double(op.expr.result()),
            "reduce: a buffer of lower words is for doubles");
    if (op.low_accumulator >= 0) buffer_range("reduce", op.low_accumulator, op.accumulator_at, op.count);
  }
  void node(const GatherTile& op) const {
    multiple_of_step("gather", op.count);
    const int64_t places_lw = GatherTile::places_lw(op.form, op.places);
    require(op.places > 0 && op.tables > 0 && op.table_lw >= places_lw,
            "gather: {} tables of {} places, {} LW apart", op.tables, op.places, op.table_lw);
    buffer_range("gather", op.table, op.table_at, (op.tables - 1) * op.table_lw + places_lw);
    require(program_.buffers[static_cast<size_t>(op.table)].homes == isa::space_bit(isa::Space::kLm0),
            "gather: a table that isn't in LM0 alone");
    buffer_range("gather", op.index, op.index_at, op.count);
    buffer_range("gather", op.out, op.out_at, op.tables * op.count);
  }
  void transfers(std::string_view what, int stream, const std::vector<RowsTransfer>& list) const {
    require(stream >= 0 && stream < static_cast<int>(program_.streams.size()), "{}: no stream {}", what,
            stream);
    for (const RowsTransfer& transfer : list) {
      require(transfer.stream < static_cast<int>(program_.streams.size()), "{}: no stream {}", what,
              transfer.stream);
      const TileStream& target =
          program_.streams[static_cast<size_t>(transfer.stream < 0 ? stream : transfer.stream)];
      const int64_t part = target.transport.part_lw(target.length_lw);
      const int64_t size = transfer.group < 0 ? part : part * target.transport.parts_per_group();
      require(transfer.count > 0 && transfer.count % isa::kMvUnitLw == 0 && transfer.dram >= 0 &&
                  transfer.dram + transfer.count <= size && transfer.l2bm >= 0 &&
                  transfer.l2bm + transfer.count <= chip_.memory.l2bm_lw,
              "{}: transfer of {} LW between {} of stream '{}' ({} LW) and {} of L2BM", what, transfer.count,
              transfer.dram, target.name, size, transfer.l2bm);
      require((transfer.group < 0) == (transfer.l2b < 0) && transfer.group < chip_.groups &&
                  transfer.l2b < chip_.l2b_count(),
              "{}: transfer between group {} and L2B {}", what, transfer.group, transfer.l2b);
    }
  }
  void stack(std::string_view what, int64_t chunks, std::optional<MatrixPrecision> precision) const {
    require(chunks > 0 && chunks <= (precision ? kMostStacked : 1), "{}: stacks of {} chunks", what, chunks);
  }
  void node(const LoadRows& op) const {
    transfers("load rows", op.stream, op.transfers);
    require(op.parts > 0 && op.chunks > 0 && op.rows > 0 && op.columns >= isa::kCyclesPerStep,
            "load rows: {} parts of {} chunks, {} rows of {} columns", op.parts, op.chunks, op.rows,
            op.columns);
    const auto& [groups, all_chunks] = op.order;
    require(groups > 0 && all_chunks >= op.chunks && op.order.can_share(op.chunks) &&
                op.columns <= groups * isa::kCyclesPerStep,
            "load rows: {} of {} chunks, {} columns in {} groups", op.chunks, all_chunks, op.columns, groups);
    require(static_cast<int>(op.l1b_at.size()) <= chip_.l1b_per_l2b, "load rows: of {} L1Bs",
            op.l1b_at.size());
    int64_t farthest = 0;
    for (const int64_t at : op.l1b_at) {
      require(at >= 0 && at % kColumnLw == 0, "load rows: an L1B's begin {} LW behind the first", at);
      farthest = std::max(farthest, at);
    }
    const int64_t last = op.l2bm + (op.parts - 1) * op.part_lw + farthest + (op.rows - 1) * op.order.lw() +
                         op.order.at(op.chunks - 1, groups - 1) + kUnitLw;
    require(op.l2bm >= 0 && last <= chip_.memory.l2bm_lw, "load rows: up to {} of L2BM", last);
    require(op.first_row >= 0 && op.first_row + op.rows <= op.buffer_rows, "load rows: rows {} to {} of {}",
            op.first_row, op.first_row + op.rows, op.buffer_rows);
    require(op.first_column >= 0 && op.first_column + op.columns <= op.pitch,
            "load rows: columns {} to {} of {}", op.first_column, op.first_column + op.columns, op.pitch);
    require(op.first_chunk >= 0, "load rows: to chunk {}", op.first_chunk);
    stack("load rows", op.stack, op.normalize);
    const int64_t chunks = op.first_chunk + op.parts * op.part_places();
    if (op.form == RowsForm::kVectors) {
      buffer_range("load rows", op.buffer, {}, chunks * op.buffer_rows * op.pitch);
      return;
    }
    if (op.form == RowsForm::kSpread) {
      require(!op.normalize && op.columns == isa::kCyclesPerStep && op.parts == 1 && op.first_chunk == 0,
              "load rows: {} columns, {} parts aren't spread", op.columns, op.parts);
      buffer_range("load rows", op.buffer, {}, op.buffer_rows * isa::round_up(chunks, isa::kCyclesPerStep));
      return;
    }
    require(op.normalize && op.columns == isa::kCyclesPerStep && op.parts == 1 && op.first_chunk == 0,
            "load rows: no matrices of {} columns, {} parts", op.columns, op.parts);
    const int64_t rows_of_matrices = kBlocksPerChunk * matrix_form(*op.normalize).rows / isa::kCyclesPerStep;
    buffer_range("load rows", op.buffer, {},
                 chunks * isa::ceil_div(op.buffer_rows, rows_of_matrices) * matrix_form(*op.normalize).rows);
  }
  void node(const WindowProduct& op) const {
    const int64_t kernel = op.kernel[0] * op.kernel[1];
    buffer_range("window product matrices", op.matrices, op.matrices_at,
                 op.places * kernel * matrix_form(op.precision).rows);
    buffer_range("window product windows", op.windows, {},
                 (op.first_place + op.places) * op.window_rows * op.pitch);
    require(op.first_row >= 0 &&
                (op.first_row + op.rows - 1) * op.stride[0] + (op.kernel[0] - 1) * op.dilation[0] <
                    op.window_rows,
            "window product: {} rows from {} on of windows of {}", op.rows, op.first_row, op.window_rows);
    for (const int64_t start : op.starts) {
      require(start >= 0 && op.step > 0 && op.first_column >= 0 &&
                  op.first_column + (start + (isa::kCyclesPerStep - 1) * op.step) * op.stride[1] +
                          (op.kernel[1] - 1) * op.dilation[1] <
                      op.pitch,
              "window product: a vector from {} of rows of {}", start, op.pitch);
    }
    buffer_range("window product sums", op.sums, {},
                 op.rows * std::ssize(op.starts) * isa::kCyclesPerStep * matrix_form(op.precision).result_lw);
  }
  /// Windows of `lw` LW, numbers for all positions and phases, and as many values as the expression takes.
  template <typename Op>
  void windows(const char* what, const Op& op, int64_t lw) const {
    buffer_range(what, op.windows, {}, lw);
    for (const int other : op.others) buffer_range(what, other, {}, lw);
    const int64_t positions = op.kernel[0] * op.kernel[1];
    require(
        op.numbers.phases[0] > 0 && op.numbers.phases[1] > 0 &&
            (op.numbers.words.empty() ? op.numbers.phase_count() == 1
                                      : std::ssize(op.numbers.words) == op.numbers.phase_count() * positions),
        "{}: {} numbers for {} phases of {} positions", what, op.numbers.words.size(),
        fmt::join(op.numbers.phases, " x "), positions);
    const int64_t values = 1 + std::ssize(op.others) + (op.weights >= 0 ? 1 : 0) +
                           (op.numbers.words.empty() ? 0 : 1) + std::ssize(op.inputs);
    require(op.expr.input_count() <= values, "{}: an expression of {} values, there are {}", what,
            op.expr.input_count(), values);
  }
  void node(const ReduceWindows& op) const {
    const int64_t columns = op.order.groups * isa::kCyclesPerStep;
    require(op.order.chunks > 0 && op.order.groups > 0, "reduce windows: {} chunks of {} groups",
            op.order.chunks, op.order.groups);
    windows("reduce windows", op, op.order.chunks * op.window_rows * op.pitch);
    require(!op.whole_rows || (op.others.empty() && op.numbers.words.empty()),
            "reduce windows: numbers or several windows of whole rows");
    const int64_t last_column =
        op.whole_rows ? op.kernel[1] - 1 : (columns - 1) * op.stride[1] + (op.kernel[1] - 1) * op.dilation[1];
    require(op.first_row >= 0 && op.first_row + op.rows <= op.buffer_rows,
            "reduce windows: rows {} to {} of {}", op.first_row, op.first_row + op.rows, op.buffer_rows);
    require(
        (op.first_row + op.rows - 1) * op.stride[0] + (op.kernel[0] - 1) * op.dilation[0] < op.window_rows &&
            last_column < op.pitch && (!op.whole_rows || op.pitch % isa::kCyclesPerStep == 0),
        "reduce windows: {} rows of {} columns from windows of {} rows of {}", op.rows, columns,
        op.window_rows, op.pitch);
    if (op.weights >= 0) {
      require(!op.whole_rows, "reduce windows: weights of whole rows");
      buffer_range("reduce windows", op.weights, {},
                   isa::round_up(op.order.chunks * op.kernel[0] * op.kernel[1], isa::kCyclesPerStep));
    }
    for (const RowsInput& input : op.inputs)
      rows_input("reduce windows", input, op.order.chunks * op.buffer_rows * columns, op.order.chunks);
  }
  void node(const NormalizeRows& op) const {
    require(!op.steps.empty() && !op.steps.back().op && op.order.chunks > 0 && op.order.groups > 0 &&
                isa::ceil_div(op.channels, kColumnLw * isa::kWordsPerLong) == op.order.chunks,
            "normalize rows: {} steps, {} channels in {} chunks", op.steps.size(), op.channels,
            op.order.chunks);
    for (size_t k = 0; k < op.steps.size(); ++k)
      require(static_cast<size_t>(op.steps[k].expr.input_count()) <= op.inputs.size() + k,
              "normalize rows: step {} reads {} inputs", k, op.steps[k].expr.input_count());
    require(op.rows > 0 && op.first_row >= 0 && op.first_row + op.rows <= op.buffer_rows,
            "normalize rows: rows {} to {} of {}", op.first_row, op.first_row + op.rows, op.buffer_rows);
    require(!op.spread || op.order.groups == 1, "normalize rows: {} groups aren't spread", op.order.groups);
    const int64_t of_rows = op.spread
                                ? spread_buffer_lw(op.buffer_rows, op.order.chunks)
                                : op.order.chunks * op.buffer_rows * op.order.groups * isa::kCyclesPerStep;
    for (const RowsInput& input : op.inputs) rows_input("normalize rows", input, of_rows, op.order.chunks);
    kept_rows("normalize rows", op.kept, of_rows);
  }
  /// `of_rows` LW, or `values` where it is one for a chunk.
  void rows_input(std::string_view what, const RowsInput& input, int64_t of_rows, int64_t values) const {
    require(input.of_rows || input.at == 0, "{}: values from {} on", what, input.at);
    buffer_range(what, input.buffer, {input.at, {}}, input.of_rows ? of_rows : values);
  }
  void kept_rows(std::string_view what, const KeptRows& kept, int64_t lw) const {
    if (kept.buffer >= 0) buffer_range(what, kept.buffer, {kept.at, {}}, lw);
  }
  void sums(std::string_view what, int buffer, const StackedSums& of, int64_t count) const {
    require(of.first >= 0 && of.first < of.step, "{}: sum {} of {}", what, of.first, of.step);
    buffer_range(what, buffer, {}, count * of.step);
  }
  void node(const FinishRows& op) const {
    const auto& [groups, chunks] = op.order;
    const int64_t columns = groups * isa::kCyclesPerStep;
    require(op.chunk >= 0 && op.chunk < chunks && groups > 0 && (!op.spread || (op.sums >= 0 && groups == 1)),
            "finish rows: chunk {} of {}, {} groups", op.chunk, chunks, groups);
    require(op.first_vector >= 0, "finish rows: from vector {} on", op.first_vector);
    if (op.sums >= 0)
      sums("finish rows", op.sums, op.of_sums, op.first_vector * isa::kCyclesPerStep + op.rows * columns);
    const int64_t all_rows =
        op.spread ? spread_buffer_lw(op.buffer_rows, chunks) : op.buffer_rows * chunks * columns;
    for (const RowsInput& input : op.inputs) rows_input("finish rows", input, all_rows, chunks);
    kept_rows("finish rows", op.kept, all_rows);
    require((op.inputs.empty() && op.kept.buffer < 0) ||
                (op.first_row >= 0 && op.first_row + op.rows <= op.buffer_rows),
            "finish rows: rows {} to {} of {}", op.first_row, op.first_row + op.rows, op.buffer_rows);
  }
  void node(const LoadLanes& op) const {
    transfers("load lanes", op.stream, op.transfers);
    const int64_t groups = op.order.groups, chunks = op.chunks();
    require(op.parts > 0 && chunks > 0 && op.rows > 0 && groups > 0 && op.left >= 0 && op.left < groups &&
                op.right >= 0 && op.right <= op.last && op.last > 0 && op.last <= op.columns() &&
                op.shift >= 0 && op.columns() <= op.pitch,
            "load lanes: {} parts of {} chunks, {} rows of {} + {} + {} columns, {} in the last", op.parts,
            chunks, op.rows, op.left, groups, op.right, op.last);
    if (op.packed)
      require(op.order.chunks == 1 && op.left == 0 && op.right == 0 && op.packed->lw > 0 &&
                  op.packed->line_lw() <= groups * kColumnLw,
              "load lanes: {} packed columns {} LW apart in {} units", op.columns(), op.packed->lw, groups);
    const int64_t last =
        op.l2bm + (op.parts - 1) * op.part_lw + op.rows * op.order.lw() + isa::kCyclesPerStep * kUnitLw;
    require(op.l2bm >= 0 && last <= chip_.memory.l2bm_lw, "load lanes: up to {} of L2BM", last);
    require(op.first_row >= 0 && op.first_row + op.rows <= op.buffer_rows && op.first_place >= 0,
            "load lanes: rows {} to {} of {}", op.first_row, op.first_row + op.rows, op.buffer_rows);
    stack("load lanes", op.stack, op.normalize);
    const int64_t places = op.first_place + op.parts * op.part_places();
    require(op.side_chunks == 0 || (op.side_chunks > 0 && op.side_chunks % op.stack == 0 && op.shift == 0 &&
                                    places % (2 * op.side_chunks) == 0),
            "load lanes: {} chunks of sides in {}, shifted by {}", op.side_chunks, places, op.shift);
    buffer_range("load lanes", op.buffer, {}, places / (op.side_chunks > 0 ? 2 : 1) * op.place_lw);
    require(op.place_lw >= op.buffer_rows * op.pitch, "load lanes: places of {} LW", op.place_lw);
  }
  void node(const LoadColumns& op) const {
    transfers("load columns", op.stream, op.transfers);
    const auto& [groups, chunks] = op.order;
    const bool is_packed = op.packed_lw > 0;
    require(groups > 0 && chunks > 0 && op.columns > 0 &&
                (is_packed || op.columns <= groups * isa::kCyclesPerStep) && op.mab >= 0 &&
                op.mab < kBlocksPerChunk,
            "load columns: {} columns in {} groups of {} chunks, for MABs {}", op.columns, groups, chunks,
            op.mab);
    // Of rows that have less than a step's four units, what is behind them is written, too.
    require(op.count > 0 && op.lane > 0 && op.pitch >= op.count &&
                (op.all_blocks || op.pitch * op.order.width() >= isa::kCyclesPerStep),
            "load columns: {} columns of lanes of {}, {} apart", op.count, op.lane, op.pitch);
    const int64_t width = op.order.width();
    require(op.first_chunk >= 0 && op.chunks > 0 && (is_packed || op.first_chunk + op.chunks <= chunks) &&
                (op.all_blocks || (op.has_lanes() && !is_packed && op.first_chunk % width == 0 &&
                                   op.chunks % width == 0 && op.first == 0 && op.count == groups)),
            "load columns: chunks {} to {} of {}", op.first_chunk, op.first_chunk + op.chunks, chunks);
    // A line may be read further than it goes, by less than a column's chunks.
    require(
        op.packed_lw >= 0 &&
            (!is_packed || (chunks == 1 && op.first == 0 &&
                            (op.count - 1) * op.packed_lw + op.first_chunk * kColumnLw < groups * kColumnLw)),
        "load columns: {} columns {} LW apart in a line of {}", op.count, op.packed_lw, groups * kColumnLw);
    require(op.is_inside(chip_.memory.l2bm_lw), "load columns: rows at {} of L2BM", fmt::join(op.l2bm, ", "));
    buffer_range("load columns", op.buffer, {op.at, {}},
                 op.chunks * op.pitch * (op.all_blocks ? kBlocksPerChunk : 1));
  }
  void node(const TransposeColumns& op) const {
    for (const auto& [from, to] : op.runs) {
      buffer_range("transpose columns", op.raw, {from, {}}, op.step[0] + 3 * op.step[1] + 1);
      buffer_range("transpose columns", op.out, {to, {}}, matrix_form(op.precision).rows);
    }
    require(op.step[0] >= 0 && op.step[1] >= 0, "transpose columns: {} LW apart",
            fmt::join(op.step, " and "));
  }
  void node(const ColumnProduct& op) const {
    require(op.vectors > 0 && op.step > 0, "column product: {} vectors, {} apart", op.vectors, op.step);
    const int64_t count = op.vectors * isa::kCyclesPerStep;
    for (const auto& [sums, uses] : op.groups) {
      buffer_range("column product", op.work, {}, std::ssize(sums) * count);
      for (const int64_t sum : sums)
        buffer_range("column product", op.sums, {sum, {}}, (count - 1) * op.step + 1);
      for (const auto& [matrix, windows] : uses) {
        require(windows.size() == sums.size(), "column product: {} windows for {} sums", windows.size(),
                sums.size());
        buffer_range("column product", op.matrices, {matrix, {}}, matrix_form(op.precision).rows);
        for (const int64_t window : windows) buffer_range("column product", op.windows, {window, {}}, count);
      }
    }
  }
  void node(const AddColumns& op) const {
    const auto& [groups, chunks] = op.order;
    require(groups > 0 && chunks > 0 && op.pitch >= isa::round_up(groups, int64_t{isa::kCyclesPerStep}),
            "add columns: {} columns of {} chunks, {} apart", groups, chunks, op.pitch);
    require(op.expr.input_count() <= std::ssize(op.inputs), "add columns: {} inputs of {}", op.inputs.size(),
            op.expr.input_count());
    for (const RowsInput& input : op.inputs) rows_input("add columns", input, chunks * op.pitch, chunks);
    buffer_range("add columns", op.sums, {}, chunks * isa::kCyclesPerStep);
  }
  void places(std::string_view what, const LanePlaces& at, int64_t l2bm) const {
    const auto& [groups, chunks] = at.order;
    require(at.rows > 0 && groups > 0 && chunks > 0 && at.row_places >= groups && l2bm >= 0 &&
                l2bm + at.rows * at.order.lw() + isa::kCyclesPerStep * kUnitLw <= chip_.memory.l2bm_lw,
            "{}: {} rows of {} groups of {} chunks from {} of L2BM", what, at.rows, groups, chunks, l2bm);
  }
  void node(const LoadPlaces& op) const {
    transfers("load places", op.stream, op.transfers);
    places("load places", op.places, op.l2bm);
    buffer_range("load places", op.buffer, {}, op.places.sets() * op.places.spread_lw());
  }
  void node(const FinishLanes& op) const {
    places("finish lanes", op.places, op.l2bm);
    require(op.set >= 0 && op.set < op.places.sets(), "finish lanes: set {} of {}", op.set, op.places.sets());
    for (const int64_t start : op.starts)
      require(start >= 0 && (start + vector_places(op.places.order)) * kUnitLw <=
                                op.places.staged_lw() * vector_places(op.places.order),
              "finish lanes: a vector from {} of {} rows of {}", start, op.places.rows, op.places.row_places);
    sums("finish lanes", op.sums, op.of_sums, std::ssize(op.starts) * isa::kCyclesPerStep);
    const int64_t sets = op.places.sets(), all_places = sets * op.places.spread_lw();
    for (const RowsInput& input : op.inputs) rows_input("finish lanes", input, all_places, sets);
    kept_rows("finish lanes", op.kept, all_places);
  }
  void lines(std::string_view what, const LaneLines& at) const {
    require(!at.chunks.empty() && at.columns > 0 && (at.places == 1 || at.places == 2) &&
                at.columns * at.places % kSlotPlaces == 0 &&
                std::ranges::all_of(at.chunks,
                                    [&](int64_t chunks) { return chunks >= 1 && chunks <= at.places; }),
            "{}: {} lines of {} columns of {} places", what, at.chunks.size(), at.columns, at.places);
  }
  void node(const LoadLines& op) const {
    transfers("load lines", op.stream, op.transfers);
    lines("load lines", op.lines);
    require(op.first_line >= 0 && op.first_line < op.lines.lines(), "load lines: line {} of {}",
            op.first_line, op.lines.lines());
    const int64_t groups = op.order.groups, width = op.width();
    require(op.parts > 0 && op.order.chunks > 0 && op.rows > 0 && groups > 0 && op.left >= 0 &&
                op.left <= op.before && op.before < groups && op.right >= 0 && op.right <= groups &&
                op.before + groups + op.right <= op.lines.columns && op.kernel > 0 && op.dilation > 0,
            "load lines: {} parts of {} chunks, {} rows of {} of {} + {} + {} columns", op.parts,
            op.order.chunks, op.rows, op.left, op.before, groups, op.right);
    // l2bmd writes to even places.
    require(op.lines.places == 2 || (op.before % 2 == 0 && (op.right == 0 || (op.before + groups) % 2 == 0) &&
                                     (op.spacing == 1 || op.spacing % 2 == 0)),
            "load lines: {} + {} columns of single places", op.before, groups);
    require(op.spacing == 1 || (op.spacing > 1 && op.before == 0 && op.right == 0 &&
                                (groups - 1) * op.spacing < op.lines.columns),
            "load lines: {} columns by {} of {}", groups, op.spacing, op.lines.columns);
    const int64_t count = op.parts * (op.order.chunks / width);
    require(op.first_line + count <= op.lines.lines() && (width == 1 || width == op.order.width()),
            "load lines: lines {} to {} of {}", op.first_line, op.first_line + count, op.lines.lines());
    for (int64_t line = op.first_line; line < op.first_line + count; ++line)
      require(op.lines.chunks[static_cast<size_t>(line)] == width, "load lines: line {} isn't of {} chunks",
              line, width);
    const int64_t last =
        op.l2bm + (op.parts - 1) * op.part_lw + op.rows * op.order.lw() + isa::kCyclesPerStep * kUnitLw;
    require(op.l2bm >= 0 && last <= chip_.memory.l2bm_lw, "load lines: up to {} of L2BM", last);
    require(op.first_row >= 0 && op.first_row + op.rows <= op.buffer_rows, "load lines: rows {} to {} of {}",
            op.first_row, op.first_row + op.rows, op.buffer_rows);
    // A part's last vector may end behind the row, where it isn't written.
    const int64_t slots = (op.first_line + count) * op.lines.line_slots();
    const int64_t behind = op.first_line > 0 && slots % isa::kCyclesPerStep != 0 ? isa::kCyclesPerStep : 0;
    buffer_range("load lines", op.buffer, {}, op.buffer_rows * op.kernel * op.lines.row_lw() + behind);
  }
  void node(const ReduceLines& op) const {
    lines("reduce lines", op.lines);
    const auto& [groups, chunks] = op.order;
    int64_t of_lines = 0;
    for (const int64_t count : op.lines.chunks) {
      require(count == 1 || (op.order.width() == 2 && of_lines % 2 == 0),
              "reduce lines: chunks {} and {} are side by side", of_lines, of_lines + 1);
      of_lines += count;
    }
    require(of_lines == chunks && op.rows > 0 && groups > 0 && op.stride[1] > 0 &&
                (op.lines.places == 2 || op.stride[1] == 1 || op.stride[1] % 2 == 0) &&
                (groups - 1) * op.stride[1] < op.lines.columns,
            "reduce lines: {} rows of {} chunks of {}, {} columns by {} of {}", op.rows, of_lines, chunks,
            groups, op.stride[1], op.lines.columns);
    require(
        op.first_row >= 0 && op.first_row + op.rows <= op.buffer_rows &&
            (op.first_row + op.rows - 1) * op.stride[0] + (op.kernel[0] - 1) * op.dilation < op.window_rows,
        "reduce lines: rows {} to {} of {}, of {} rows", op.first_row, op.first_row + op.rows, op.buffer_rows,
        op.window_rows);
    require(op.l2bm >= 0 && op.l2bm + op.rows * op.numbers.phase_count() * op.order.lw() +
                                    isa::kCyclesPerStep * kUnitLw <=
                                chip_.memory.l2bm_lw,
            "reduce lines: {} rows from {} of L2BM", op.rows, op.l2bm);
    windows("reduce lines", op, op.window_rows * op.kernel[1] * op.lines.row_lw());
    if (op.weights >= 0)
      buffer_range("reduce lines", op.weights, {}, op.lines.values_lw(op.kernel[0] * op.kernel[1]));
    for (const RowsInput& input : op.inputs)
      rows_input("reduce lines", input, op.buffer_rows * op.lines.row_lw(), op.lines.values_lw(1));
  }
  void node(const SumRows& op) const {
    require(op.row_lw % isa::kL2bmBlockLw == 0 && op.l1b_row_lw > 0 && op.l1b_row_lw <= op.row_lw &&
                op.rows > 0 && op.l2bm >= 0 && op.l2bm + op.rows * op.row_lw <= chip_.memory.l2bm_lw,
            "sum rows: {} rows of {} of {} LW from {} of L2BM", op.rows, op.l1b_row_lw, op.row_lw, op.l2bm);
  }
  void node(const SumL2bs& op) const {
    transfers("sum L2Bs", op.stream, op.transfers);
    require(std::ranges::all_of(op.transfers, &RowsTransfer::to_all), "sum L2Bs: a transfer of one L2B");
  }
  void node(const StoreRows& op) const {
    transfers("store rows", op.stream, op.transfers);
    if (op.l1b_at.empty()) return;
    require(op.row_lw % isa::kL2bmBlockLw == 0 && op.rows > 0 && op.segments > 0 && op.segment_lw > 0 &&
                op.chunk_lw >= 0 && static_cast<int>(op.l1b_at.size()) <= chip_.l1b_per_l2b,
            "store rows: {} rows of {} LW, {} segments of {} LW of {} L1Bs", op.rows, op.row_lw, op.segments,
            op.segment_lw, op.l1b_at.size());
    const auto [first, farthest] = std::ranges::minmax(op.l1b_at);
    const int64_t last = op.l2bm + farthest + (op.rows - 1) * op.row_lw + (op.segments - 1) * op.chunk_lw +
                         isa::round_up(op.segment_lw, isa::kL2bmBlockLw);
    require(first >= 0 && last <= chip_.memory.l2bm_lw, "store rows: up to {} of L2BM", last);
  }
  void node(const TileLoop& loop) {
    require(loop.count >= 0, "loop '{}' of {} iterations", loop.name, loop.count);
    if (loop.count == 0) return;
    counts_.push_back(loop.count);
    nodes(loop.body);
    counts_.pop_back();
  }

  const TileProgram& program_;
  const isa::Chip& chip_;
  std::vector<int64_t> counts_;
};

class Printer {
 public:
  explicit Printer(const TileProgram& program) : program_(program) {}

  std::string run() {
    line("tile program {}", program_.name);
    ++depth_;
    for (const TileBuffer& buffer : program_.buffers) {
      std::string homes;
      constexpr std::array<std::pair<isa::Space, std::string_view>, 5> kSpaces = {
          {{isa::Space::kLm0, "LM0"},
           {isa::Space::kLm1, "LM1"},
           {isa::Space::kGrf0, "GRF0"},
           {isa::Space::kGrf1, "GRF1"},
           {isa::Space::kT, "T"}}};
      for (const auto& [space, name] : kSpaces) {
        if ((buffer.homes & isa::space_bit(space)) != 0)
          homes += (homes.empty() ? "" : "|") + std::string(name);
      }
      line("buffer {}: {} LW @{}{}", buffer.name, buffer.size_lw, homes,
           buffer.address_lw < 0 ? std::string() : fmt::format(" from {} on", buffer.address_lw));
    }
    for (const TileProgram::Kept& kept : program_.kept)
      line("kept: {} LW of {} from {} on", kept.size_lw, memory_name(kept.memory), kept.begin_lw);
    for (const TileStream& stream : program_.streams) {
      line("stream {}: {} LW per PE, DRAM {}, {}", stream.name, stream.length_lw, stream.dram_address,
           stream.transport.to_string());
    }
    nodes(program_.body);
    return std::move(text_);
  }

 private:
  template <typename... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    text_.append(static_cast<size_t>(2 * depth_), ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
    text_ += '\n';
  }

  std::string index(const TileIndex& at) const {
    std::string text = std::to_string(at.base);
    for (size_t d = 0; d < at.strides.size(); ++d) {
      if (at.strides[d] == 0) continue;
      const std::string name = d < loops_.size() ? loops_[d] : fmt::format("loop{}", d);
      text += fmt::format(" + {} {}", at.strides[d], name);
    }
    return text;
  }
  std::string buffer(int number, const TileIndex& at) const {
    const bool known = number >= 0 && number < static_cast<int>(program_.buffers.size());
    return fmt::format("{}[{}]", known ? program_.buffers[static_cast<size_t>(number)].name : "?", index(at));
  }
  std::string rows_input(const RowsInput& input) const { return buffer(input.buffer, {input.at, {}}); }
  std::string kept_rows(const KeptRows& kept) const {
    return kept.buffer < 0 ? std::string() : ", kept in " + buffer(kept.buffer, {kept.at, {}});
  }
  std::string stream(int number, const TileIndex& at) const {
    const bool known = number >= 0 && number < static_cast<int>(program_.streams.size());
    return fmt::format("{}[{}]", known ? program_.streams[static_cast<size_t>(number)].name : "?", index(at));
  }
  template <typename Input>
  std::string inputs(const std::vector<Input>& list) const {
    std::string text;
    for (size_t k = 0; k < list.size(); ++k) {
      text += fmt::format("{}x{} = {}", k == 0 ? "" : ", ", k, buffer(list[k].buffer, list[k].at));
      if constexpr (std::is_same_v<Input, ReduceTile::Input>) {
        constexpr std::array<const char*, 3> kOrders = {"", " held", " shared"};
        text += kOrders.at(static_cast<size_t>(list[k].order));
      }
    }
    return text;
  }

  void nodes(const std::vector<TileNode>& list) {
    for (const TileNode& item : list) {
      std::visit([this](const auto& op) { node(op); }, item.kind);
    }
  }
  static std::string of_elements(StreamElement element) {
    return element == StreamElement::kHalf ? " of halves" : "";
  }
  void node(const LoadTile& op) {
    line("load {} <- {}, {} LW{}{}{}", buffer(op.buffer, op.at), stream(op.stream, op.from), op.count,
         of_elements(op.element),
         op.normalize ? ", to block floats of " + matrix_precision_name(*op.normalize) : "",
         op.beside_at ? fmt::format(", beside others, by L2BM {}", *op.beside_at) : "");
  }
  void node(const StoreTile& op) {
    line("store {} <- {}, {} LW", stream(op.stream, op.to), buffer(op.buffer, op.at), op.count);
  }
  void node(const FillTile& op) {
    line("fill {} = {}, {} LW", buffer(op.buffer, op.at), std::bit_cast<float>(op.bits), op.count);
  }
  void node(const ProductTile& op) {
    line("product {} += {} * {} ({}: {} row blocks, {} inner LW, {} columns)", buffer(op.c, op.c_at),
         buffer(op.a, op.a_at), buffer(op.b, op.b_at), matrix_precision_name(op.precision), op.row_blocks,
         op.inner_lw, op.columns);
  }
  void node(const StreamProduct& op) {
    const auto pair = [&](const std::array<int, 2>& buffers) {
      return buffer(buffers[0], {}) + (buffers[1] < 0 ? "" : " and " + buffer(buffers[1], {}));
    };
    line(
        "stream product {} = {}{} * {}{} by way of {} ({}: {} pieces of {}{} row blocks, {} inner LW, {} "
        "columns)",
        op.result[0] < 0 ? pair(op.c) : pair(op.result) + " by way of " + pair(op.c),
        stream(op.a.stream, op.a.from), of_elements(op.a.element), stream(op.b.stream, op.b.from),
        of_elements(op.b.element), pair(op.b_buffers), matrix_precision_name(op.precision), op.pieces,
        op.parts > 1 ? fmt::format("{} parts, parked in {}, of ", op.parts, pair(op.parked)) : "",
        op.row_blocks, op.inner_lw, op.columns);
    if (op.store) {
      line("  beside it: store {} <- {}, {} LW of each, {} x {} a round",
           stream(op.store->stream, op.store->to), pair(op.store->buffers), op.store->count,
           op.store->chunks_per_round, op.store->chunk);
    }
  }
  void node(const MapTile& op) {
    line("map {} = {}, {}, {} LW", buffer(op.out, op.out_at), op.expr.to_string(), inputs(op.inputs),
         op.count);
  }
  void node(const ReduceTile& op) {
    line("reduce {}{} {}= {}, {}, {} LW, {} times", buffer(op.accumulator, op.accumulator_at),
         op.low_accumulator >= 0 ? " and " + buffer(op.low_accumulator, op.accumulator_at) : "",
         reduce_op_name(op.op), op.expr.to_string(), inputs(op.inputs), op.count, op.repeats);
  }
  void node(const GatherTile& op) {
    line("gather {} = {} of {} tables {} of {} places, {} LW apart, by {}, {} LW", buffer(op.out, op.out_at),
         kGatherFormNames.at(static_cast<size_t>(op.form)), op.tables, buffer(op.table, op.table_at),
         op.places, op.table_lw, buffer(op.index, op.index_at), op.count);
  }
  void transfers(const std::vector<RowsTransfer>& list) {
    ++depth_;
    for (const RowsTransfer& transfer : list) {
      if (transfer.l2b < 0) {
        line("every L2B: DRAM {}, L2BM {}, {} LW", transfer.dram, transfer.l2bm, transfer.count);
      } else {
        line("{}: {}DRAM {} of group {}, L2BM {}, {} LW",
             transfer.to_all ? "all" : fmt::format("L2B {}", transfer.l2b),
             transfer.stream < 0 ? "" : stream(transfer.stream, {}) + ", ", transfer.dram, transfer.group,
             transfer.l2bm, transfer.count);
      }
    }
    --depth_;
  }
  void node(const LoadRows& op) {
    line("load rows {} from row {}{} <- {}: {} rows of {} x {} chunks x {} columns{}{}",
         buffer(op.buffer, {}), op.first_row,
         op.first_chunk > 0 ? fmt::format(" of chunk {}", op.first_chunk) : "", stream(op.stream, {}),
         op.rows, op.parts, op.chunks, op.columns,
         op.l1b_at.empty() ? std::string() : fmt::format(", of L1Bs at {} LW", fmt::join(op.l1b_at, " ")),
         (op.normalize ? ", to block floats of " + matrix_precision_name(*op.normalize) : "") +
             (op.form == RowsForm::kVectors      ? ""
              : op.form == RowsForm::kSpread     ? ", spread"
              : op.form == RowsForm::kMatrixRows ? ", rows of matrices"
                                                 : ", columns of matrices"));
    transfers(op.transfers);
  }
  void node(const WindowProduct& op) {
    line(
        "window product {} = {} * {} ({}: {} places{}, kernel {}, dilation {}, stride {}, {} rows from {} "
        "on, "
        "columns {} by {})",
        buffer(op.sums, {}), buffer(op.matrices, op.matrices_at), buffer(op.windows, {}),
        matrix_precision_name(op.precision), op.places,
        op.first_place > 0 ? fmt::format(" from {} on", op.first_place) : "", fmt::join(op.kernel, " x "),
        fmt::join(op.dilation, " x "), fmt::join(op.stride, " x "), op.rows, op.first_row,
        fmt::join(op.starts, " "), op.step);
  }
  /// What is read with windows.
  template <typename Op>
  std::string beside_windows(const Op& op) const {
    std::string list;
    for (const int other : op.others) list += " and " + buffer(other, {});
    if (op.weights >= 0) list += " and " + buffer(op.weights, {});
    if (op.numbers.words.empty()) return list;
    return fmt::format("{} and numbers [{}] for {} phases", list, fmt::join(op.numbers.words, " "),
                       fmt::join(op.numbers.phases, " x "));
  }
  void node(const ReduceWindows& op) {
    std::string list;
    for (const RowsInput& input : op.inputs) list += ", " + rows_input(input);
    line(
        "reduce windows: {} chunks = {} of {} of {} of {}{}{} ({}kernel {}, dilation {}, stride {}, {} rows)",
        op.order.chunks, op.epilogue.to_string(), reduce_op_name(op.op), op.expr.to_string(),
        buffer(op.windows, {}), beside_windows(op), list, op.whole_rows ? "whole rows, " : "",
        fmt::join(op.kernel, " x "), fmt::join(op.dilation, " x "), fmt::join(op.stride, " x "), op.rows);
  }
  void node(const NormalizeRows& op) {
    std::string list;
    for (const RowsInput& input : op.inputs) list += (list.empty() ? "" : ", ") + rows_input(input);
    line("normalize rows{}: {} rows of {} channels of {}{}", op.spread ? " spread" : "", op.rows, op.channels,
         list, kept_rows(op.kept));
    for (size_t k = 0; k < op.steps.size(); ++k)
      line("  x{} = {}{}", op.inputs.size() + k,
           op.steps[k].op ? std::string(reduce_op_name(*op.steps[k].op)) + " of " : "",
           op.steps[k].expr.to_string());
  }
  void node(const FinishRows& op) {
    std::string list;
    for (const RowsInput& input : op.inputs) list += ", " + rows_input(input);
    line("finish rows{}: chunk {} of {} = {}, {}{}{}", op.spread ? " spread" : "", op.chunk, op.order.chunks,
         op.epilogue.to_string(), op.sums < 0 ? "no sums" : buffer(op.sums, {}), list, kept_rows(op.kept));
  }
  void node(const LoadLanes& op) {
    line(
        "load lanes {} from row {}{} <- {}: {} rows of {} x {} chunks x {} + {} + {} columns, {} in the "
        "last{}",
        buffer(op.buffer, {}), op.first_row,
        op.first_place > 0 ? fmt::format(" of place {}", op.first_place) : "", stream(op.stream, {}), op.rows,
        op.parts, op.chunks(), op.left, op.columns() - op.left - op.right, op.right, op.last,
        (op.packed ? fmt::format(", packed {} LW apart", op.packed->lw) : "") +
            (op.shift > 0 ? fmt::format(", shifted by {}", op.shift) : "") +
            (op.side_chunks > 0 ? fmt::format(", sides of {} chunks", op.side_chunks) : ""));
    transfers(op.transfers);
  }
  void node(const LoadColumns& op) {
    line("load columns {} <- {}: MABs {}, {} columns from {} of every lane on, {} chunks from {} on{}{}",
         buffer(op.buffer, {op.at, {}}), stream(op.stream, {}), op.mab, op.count, op.first, op.chunks,
         op.first_chunk, op.all_blocks ? ", all blocks" : "",
         op.packed_lw > 0 ? fmt::format(", packed {} LW apart", op.packed_lw) : "");
    transfers(op.transfers);
  }
  void node(const TransposeColumns& op) {
    std::string list;
    for (const auto& [from, to] : op.runs) list += fmt::format(" {}:{}", from, to);
    line("transpose columns {} <- {} ({} LW apart, {}):{}", buffer(op.out, {}), buffer(op.raw, {}),
         fmt::join(op.step, " and "), matrix_precision_name(op.precision), list);
  }
  void node(const ColumnProduct& op) {
    line("column product {} += {} * {} ({}: {} vectors, sums {} apart, by way of {})", buffer(op.sums, {}),
         buffer(op.matrices, {}), buffer(op.windows, {}), matrix_precision_name(op.precision), op.vectors,
         op.step, buffer(op.work, {}));
    for (const auto& [sums, uses] : op.groups) {
      std::string list;
      for (const auto& [matrix, windows] : uses)
        list += fmt::format(", {} * {}", matrix, fmt::join(windows, " "));
      line("  {}{}", fmt::join(sums, " "), list);
    }
  }
  void node(const AddColumns& op) {
    std::string list;
    for (const RowsInput& input : op.inputs) list += ", " + rows_input(input);
    line("add columns {} += {}{}: {} columns of {} chunks, {} apart{}", buffer(op.sums, {}),
         op.expr.to_string(), list, op.order.groups, op.order.chunks, op.pitch, op.fold ? ", added up" : "");
  }
  void node(const LoadPlaces& op) {
    line("load places {} <- {}: {} rows of {} columns, {} chunks", buffer(op.buffer, {}),
         stream(op.stream, {}), op.places.rows, op.places.order.groups, op.places.order.chunks);
    transfers(op.transfers);
  }
  void node(const FinishLanes& op) {
    std::string list;
    for (const RowsInput& input : op.inputs) list += ", " + rows_input(input);
    line("finish lanes: set {} of {}, {} rows of {} columns to L2BM {} = {}, {}{}{}", op.set,
         op.places.sets(), op.places.rows, op.places.order.groups, op.l2bm, op.epilogue.to_string(),
         buffer(op.sums, {}), list, kept_rows(op.kept));
  }
  void node(const LoadLines& op) {
    line(
        "load lines {} from row {} <- {}: {} rows of {} x {} chunks x {} of {} + {} + {} columns from line "
        "{} on, "
        "{} in the last{}; {} columns {} apart",
        buffer(op.buffer, {}), op.first_row, stream(op.stream, {}), op.rows, op.parts, op.order.chunks,
        op.left, op.before, op.order.groups, op.right, op.first_line, op.last,
        op.spacing == 1 ? "" : fmt::format(", by {}", op.spacing), op.kernel, op.dilation);
    transfers(op.transfers);
  }
  void node(const ReduceLines& op) {
    std::string list;
    for (const RowsInput& input : op.inputs) list += ", " + rows_input(input);
    line(
        "reduce lines: {} chunks to L2BM {} = {} of {} of {} of {}{}{} (kernel {}, stride {}, {} rows from "
        "{} on)",
        op.order.chunks, op.l2bm, op.epilogue.to_string(), reduce_op_name(op.op), op.expr.to_string(),
        buffer(op.windows, {}), beside_windows(op), list, fmt::join(op.kernel, " x "),
        fmt::join(op.stride, " x "), op.rows, op.first_row);
  }
  void node(const SumRows& op) {
    line("sum rows over L1Bs: {} rows of {} LW to L2BM {}, {} LW each", op.rows, op.l1b_row_lw, op.l2bm,
         op.row_lw);
  }
  void node(const SumL2bs& op) {
    line("sum over L2Bs to {}", stream(op.stream, {}));
    transfers(op.transfers);
  }
  void node(const StoreRows& op) {
    line("store rows {}: {} rows of {} LW", stream(op.stream, {}), op.rows, op.row_lw);
    transfers(op.transfers);
  }
  void node(const TileLoop& loop) {
    line("loop {} < {}", loop.name, loop.count);
    loops_.push_back(loop.name);
    ++depth_;
    nodes(loop.body);
    --depth_;
    loops_.pop_back();
  }

  const TileProgram& program_;
  std::vector<std::string> loops_;
  int depth_ = 0;
  std::string text_;
};

}  // namespace

const MatrixForm& matrix_form(MatrixPrecision precision) {
  // Element orders of sections 8.3 and 8.4 of the ISA page: float and gfloat results i = 2p + w; gfloat
  // operands j = 2p + w; float operands one value per word, j = p; half operands and results 4p + k.
  static const std::array<MatrixForm, 3> kForms = {
      MatrixForm{.rows = 8,
                 .inner_per_lw = 8,
                 .stream_lw = 1,
                 .result_lw = 1,
                 .products = 1,
                 .write_steps = 2,
                 .inner_factors = {{4, Level::kPe, 1}, {2, Level::kWord, 1}},
                 .row_factors = {{4, Level::kPe, 1}, {2, Level::kWord, 1}}},
      MatrixForm{.rows = 8,
                 .inner_per_lw = 8,
                 .stream_lw = 1,
                 .result_lw = 1,
                 .products = 2,
                 .write_steps = 2,
                 .inner_factors = {{2, Level::kWord, 1}, {4, Level::kPe, 1}},
                 .row_factors = {{4, Level::kPe, 1}, {2, Level::kWord, 1}}},
      MatrixForm{.rows = 16,
                 .inner_per_lw = 16,
                 .stream_lw = 2,
                 .result_lw = 2,
                 .products = 1,
                 .write_steps = 2,
                 .inner_factors = {{4, Level::kPe, 1}, {2, Level::kAddress, 1}, {2, Level::kWord, 1}},
                 .row_factors = {{4, Level::kPe, 1}, {2, Level::kAddress, 1}, {2, Level::kWord, 1}}},
  };
  return kForms.at(static_cast<size_t>(precision));
}

std::vector<Factor> MatrixForm::inner_factors_of(StreamElement element) const {
  if (element == StreamElement::kFloat) return inner_factors;
  return {{isa::kPePerMab, Level::kPe, 1}, {inner_per_lw / isa::kPePerMab, Level::kWord, 1}};
}

std::string to_string(const TileProgram& program) {
  return Printer(program).run();
}

void verify_tile_program(const TileProgram& program, const isa::Chip& chip) {
  Verifier(program, chip).run();
}

}  // namespace kodama::compiler
