#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "compiler/driver/chips.h"
#include "compiler/driver/repeated_model.h"
#include "compiler/driver/session_parts.h"
#include "compiler/driver/training.h"
#include "compiler/driver/training_data.h"
#include "compiler/driver/training_parts.h"
#include "compiler/graph/graph_view.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/shares.h"
#include "compiler/proto/tensor_proto.h"
#include "isa/error.h"
#include "isa/output.h"
#include "isa/progress.h"

/// `kodama train`.
namespace kodama::compiler {

namespace {

std::atomic<bool> is_interrupted = false;

/// While it lives, Ctrl-C only says that it was pressed; pressed again it ends the program. Under mpirun,
/// which has the terminal's Ctrl-C itself, it is SIGUSR1.
class Interruption {
 public:
  Interruption() {
    is_interrupted = false;
    struct sigaction action = {};
    action.sa_handler = [](int) { is_interrupted = true; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
    sigaction(SIGUSR1, &action, &before_asked_);
  }
  ~Interruption() {
    sigaction(SIGINT, &before_, nullptr);
    sigaction(SIGUSR1, &before_asked_, nullptr);
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

 private:
  struct sigaction before_ = {};
  struct sigaction before_asked_ = {};
};

/// The model with other values in its parameters.
onnx::ModelProto with_values(onnx::ModelProto model, const TensorMap& values) {
  for (auto& tensor : *model.mutable_graph()->mutable_initializer()) {
    const auto value = values.find(tensor.name());
    if (value != values.end()) tensor = tensor_to_proto(value->second, tensor.name());
  }
  return model;
}

/// The same with these initializers as inputs.
onnx::ModelProto with_inputs(onnx::ModelProto model, const std::set<std::string>& names) {
  auto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::TensorProto> constants;
  for (auto& tensor : *graph.mutable_initializer()) {
    if (!names.contains(tensor.name())) {
      constants.Add()->Swap(&tensor);
      continue;
    }
    auto& input = *graph.add_input();
    input.set_name(tensor.name());
    *input.mutable_type() = make_tensor_type(static_cast<DataType>(tensor.data_type()),
                                             {tensor.dims().begin(), tensor.dims().end()});
  }
  graph.mutable_initializer()->Swap(&constants);
  return model;
}

class Training {
 public:
  /// `chips`: null where there is one.
  Training(const TrainRequest& request, std::ostream& out, Chips* chips)
      : request_(request),
        common_(with_recomputer(request.common, request.memory)),
        out_(out),
        chips_(chips),
        shares_(request.chips * request.accumulate),
        share_batch_(request.batch / shares_) {}

  /// Reads everything, and throws what is wrong with it.
  void check() {
    if (request_.batch % shares_ != 0)
      user_error(
          fmt::format("--batch {}: not a multiple of {}, the number of its shares (--chips, "
                      "--accumulate)",
                      request_.batch, shares_));
    const Choice choice = parse_choice("--interconnect", request_.interconnect, interconnect_choices());
    interconnect_ = {choice["bandwidth"], choice["latency"]};
    if (interconnect_.bandwidth <= 0 || interconnect_.latency < 0)
      user_error("--interconnect: a bandwidth above 0 and a latency from 0 on are allowed");
    data_.emplace(request_.data);
    make_step();
    check_data();
    isa::check_outputs(std::vector{request_.checkpoint_file, request_.output_file, request_.csv_file});
  }

  /// Behind check().
  int run() {
    compile();
    say_what_travels();
    const Interruption interruption;
    const int64_t per_epoch = (data_->size() - request_.held_out) / request_.batch;
    isa::ProgressBar bar("training");
    while (chip_->done() < per_epoch * request_.epochs && !is_over()) {
      const int64_t epoch = chip_->done() / per_epoch;
      const std::vector<int64_t> order =
          shuffled(data_->size() - request_.held_out, request_.step.seed, epoch);
      const auto begin = order.begin() + chip_->done() % per_epoch * request_.batch;
      examples_.assign(begin, begin + request_.batch);
      const RepeatedStep::Outcome outcome = chip_->run(share(0));
      const int64_t done = chip_->done();
      const Row row = {done, epoch + 1, outcome.loss, outcome.rate, outcome.cycles, interconnect_cycles()};
      rows_.push_back(row);
      bar.update(done, per_epoch * request_.epochs, describe(row));
      if (request_.checkpoint_every > 0 && done % request_.checkpoint_every == 0) save_checkpoint();
      if (done % per_epoch == 0) {
        bar.finish();
        print_epoch(epoch + 1, per_epoch);
        bar.phase("training");
      }
      // All chips end behind the same step.
      if (chips_ != nullptr) is_interrupted = chips_->any(is_interrupted);
    }
    bar.finish();
    if (request_.show_layers && !rows_.empty()) chip_->model().print_layers(out_);
    finish(per_epoch);
    // mpirun takes another code for a failure; who has started it knows of the signal.
    return is_interrupted && chips_ == nullptr ? isa::kExitInterrupted : isa::kExitOk;
  }

 private:
  struct Row {
    int64_t step = 0, epoch = 0;
    double loss = 0, rate = 0;
    int64_t cycles = 0;        ///< of a chip
    int64_t interconnect = 0;  ///< cycles of the chip's clock
    int64_t all_cycles() const { return cycles + interconnect; }
  };
  [[noreturn]] static void user_error(const std::string& message) { throw isa::UserError(message); }

  void make_step() {
    onnx::ModelProto raw = read_model_with_data(request_.model_file);
    const bool is_step = std::ranges::any_of(
        raw.metadata_props(), [](const auto& property) { return property.key() == kTrainStepMetadata; });
    if (is_step) {
      step_ = read_train_step(request_.model_file);
      if (!request_.output_file.empty())
        user_error(
            fmt::format("{}: a step has no model of its own to write; name the model itself, or leave out "
                        "--output",
                        request_.model_file));
      if (request_.held_out > 0 && request_.data.empty()) user_error("--held-out: there are no data");
    } else {
      model_ = import_with_batch(request_.model_file, request_.common, share_batch_);
      step_ = make_train_step(*model_, request_.step, request_.model_file);
    }
  }

  /// The step for the chip, which waits for other shares where there are any.
  void compile() {
    limit_memory(step_, common_, request_.memory, out_);
    onnx::ModelProto model = step_.model;
    MeanOfShares mean;
    SessionOptions common = common_;
    if (shares_ > 1) {
      join_shares(model, step_.joined, request_.model_file);
      mean = [this](const auto& operands, TensorMap& changed) { return mean_of_shares(operands, changed); };
    }
    if (chips_ != nullptr && common.threads == 0)
      common.threads =
          std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / chips_->count_here());
    chip_.emplace(step_, repeated_model(model, common, step_.state, "step", mean));
  }

  /// The inputs of a share of the present step: number `index` of those of this chip.
  TensorMap share(int64_t index) const {
    const int64_t chip = chips_ == nullptr ? 0 : chips_->number();
    const auto begin = examples_.begin() + (chip * request_.accumulate + index) * share_batch_;
    const std::vector<int64_t> own(begin, begin + share_batch_);
    TensorMap inputs;
    for (size_t i = 0; i < step_.batch.size(); ++i) inputs[step_.batch[i]] = data_->batch(i, own);
    return inputs;
  }

  /// RunnerOptions::mean_of_shares.
  std::optional<std::vector<Tensor>> mean_of_shares(const std::vector<const Tensor*>& operands,
                                                    TensorMap& changed) {
    std::vector<Tensor> own;
    for (const Tensor* operand : operands) own.push_back(*operand);
    sum_.add(std::move(own));
    if (sum_.count() < request_.accumulate) {
      changed = share(sum_.count());
      return std::nullopt;
    }
    std::vector<Tensor> mean = sum_.take();
    exchanged_bytes_ = bytes_of(mean);
    if (chips_ != nullptr) mean = sum_over_chips(*chips_, std::move(mean));
    for (Tensor& tensor : mean) divide(tensor, shares_);
    return mean;
  }

  int64_t interconnect_cycles() const {
    if (chips_ == nullptr) return 0;
    return std::llround(std::ceil(interconnect_.seconds(chips_->count(), exchanged_bytes_) *
                                  isa::find_chip(common_.chip).clock_hz));
  }

  void check_data() {
    if (data_->tensors() != step_.batch.size()) {
      std::string names;
      for (const std::string& name : step_.batch) names += (names.empty() ? "'" : ", '") + name + "'";
      user_error(fmt::format("--data: {} tensors; a step has the inputs {}", data_->tensors(), names));
    }
    const GraphView view(step_.model);
    for (size_t i = 0; i < step_.batch.size(); ++i) {
      const std::string& name = step_.batch[i];
      const Shape& shape = view.shape(name);
      if (shape.empty() || shape[0] != share_batch_)
        user_error(fmt::format("input '{}' has shape {}; its first axis is not --batch {}{}", name,
                               shape_to_string(shape), request_.batch,
                               shares_ == 1 ? "" : fmt::format(" / {} shares", shares_)));
      data_->fit(i, name, view.type(name), shape);
    }
    if (step_.classes > 0) data_->check_labels(step_.batch.size() - 1, step_.classes);
    if (request_.held_out >= data_->size() || data_->size() - request_.held_out < request_.batch)
      user_error(fmt::format("--held-out {}: of {} examples that leaves less than a batch of {}",
                             request_.held_out, data_->size(), request_.batch));
  }

  void say_what_travels() {
    std::vector<std::string> untied;
    for (const auto& each : step_.state) {
      if (!chip_->model().is_tied(each.input)) untied.push_back(each.input);
    }
    fmt::print(out_, "{} of {} tensors of state stay on the chip{}\n", step_.state.size() - untied.size(),
               step_.state.size(), untied.empty() ? "" : "; these pass the link in every step:");
    for (const std::string& name : untied) fmt::print(out_, "  {}\n", name);
  }

  bool is_over() const {
    return is_interrupted || (request_.most_steps > 0 && std::ssize(rows_) >= request_.most_steps);
  }

  double seconds(int64_t cycles) const {
    return static_cast<double>(cycles) / isa::find_chip(request_.common.chip).clock_hz;
  }

  std::string describe(const Row& row) const {
    return fmt::format("loss {:.4g}, {} cycles a step, {:.3g} examples per simulated second", row.loss,
                       row.all_cycles(), static_cast<double>(request_.batch) / seconds(row.all_cycles()));
  }

  void save_checkpoint() {
    if (request_.checkpoint_file.empty()) return;
    StepModel saved = step_;
    saved.initial = chip_->state();
    saved.done = chip_->done();
    write_train_step(saved, request_.checkpoint_file);
  }

  void print_epoch(int64_t epoch, int64_t per_epoch) {
    double loss = 0;
    int64_t cycles = 0;
    int64_t interconnect = 0;
    const size_t count = std::min(rows_.size(), static_cast<size_t>(per_epoch));
    for (size_t i = rows_.size() - count; i < rows_.size(); ++i) {
      loss += rows_[i].loss;
      cycles += rows_[i].cycles;
      interconnect += rows_[i].interconnect;
    }
    const auto steps = static_cast<double>(count);
    fmt::print(
        out_, "epoch {}: mean loss {:.5f}, {:.0f} cycles a step{}, {:.0f} examples per simulated second{}\n",
        epoch, loss / steps, static_cast<double>(cycles) / steps,
        chips_ == nullptr
            ? ""
            : fmt::format(" and {:.0f} of the interconnect", static_cast<double>(interconnect) / steps),
        steps * static_cast<double>(request_.batch) / seconds(cycles + interconnect), validate());
    out_.flush();
  }

  /// ", held out: 97.1 % right" or the mean loss.
  std::string validate() {
    if (!is_first_chip() || request_.held_out == 0 || !model_ || step_.classes == 0) return "";
    const TensorMap& state = chip_->state();
    TensorMap changed;
    std::set<std::string> names;
    for (const auto& each : step_.state) {
      const bool is_of_model = std::ranges::any_of(
          model_->graph().initializer(), [&](const auto& tensor) { return tensor.name() == each.input; });
      if (!is_of_model) continue;
      names.insert(each.input);
      changed[each.input] = state.at(each.input);
    }
    if (!forward_) forward_ = repeated_model(with_inputs(*model_, names), common_, {}, "validation");
    const std::string output =
        request_.step.output.empty() ? model_->graph().output(0).name() : request_.step.output;
    int64_t right = 0;
    int64_t tried = 0;
    const int64_t first = data_->size() - request_.held_out;
    for (int64_t begin = first; begin < data_->size(); begin += share_batch_) {
      // The last batch is filled up with its last example, which counts once.
      std::vector<int64_t> examples;
      for (int64_t i = 0; i < share_batch_; ++i) examples.push_back(std::min(begin + i, data_->size() - 1));
      for (size_t i = 0; i + 1 < step_.batch.size(); ++i) changed[step_.batch[i]] = data_->batch(i, examples);
      const RepeatedOutcome outcome = forward_->run(changed);
      changed.clear();
      count_right(outcome.outputs.at(output), data_->batch(step_.batch.size() - 1, examples),
                  std::min(share_batch_, data_->size() - begin), right, tried);
    }
    return fmt::format(", held out: {:.2f} % of {} right",
                       100.0 * static_cast<double>(right) / static_cast<double>(tried), tried);
  }

  /// Of the first `count` scores [N, C, ...] the largest of each C is compared with the label.
  static void count_right(const Tensor& scores, const Tensor& labels, int64_t count, int64_t& right,
                          int64_t& tried) {
    const int64_t classes = scores.shape()[1];
    const int64_t batch = scores.shape()[0];
    const int64_t inner = scores.size() / (batch * classes);
    for (int64_t n = 0; n < count; ++n) {
      for (int64_t i = 0; i < inner; ++i) {
        int64_t best = 0;
        const auto score = [&](int64_t c) {
          return element_as_double(scores, (n * classes + c) * inner + i);
        };
        for (int64_t c = 1; c < classes; ++c) best = score(c) > score(best) ? c : best;
        right += static_cast<int64_t>(best == labels.data<int64_t>()[static_cast<size_t>(n * inner + i)]);
        ++tried;
      }
    }
  }

  void finish(int64_t per_epoch) {
    const int64_t done = chip_->done();
    if (!rows_.empty() && done % per_epoch != 0) print_epoch(done / per_epoch + 1, done % per_epoch);
    save_checkpoint();
    if (!request_.output_file.empty()) {
      isa::write_file_atomically(request_.output_file,
                                 serialize_model(with_values(*model_, chip_->state()), request_.output_file));
    }
    if (!request_.csv_file.empty()) {
      std::string text = "step,epoch,loss,rate,cycles,interconnect\n";
      for (const Row& row : rows_)
        text += fmt::format("{},{},{:.9g},{:.9g},{},{}\n", row.step, row.epoch, row.loss, row.rate,
                            row.cycles, row.interconnect);
      isa::write_output(request_.csv_file, text);
    }
    int64_t cycles = 0;
    int64_t interconnect = 0;
    for (const Row& row : rows_) cycles += row.cycles, interconnect += row.interconnect;
    fmt::print(out_, "{}{} steps, {} cycles, {:.6f} s of the chip{}\n", is_interrupted ? "interrupted: " : "",
               rows_.size(), cycles, seconds(cycles),
               chips_ == nullptr ? ""
                                 : fmt::format(", and {} cycles, {:.6f} s of the interconnect", interconnect,
                                               seconds(interconnect)));
  }

  bool is_first_chip() const { return chips_ == nullptr || chips_->number() == 0; }

  static void divide(Tensor& tensor, int64_t by) {
    if (tensor.type() == DataType::kFloat64) {
      for (double& value : tensor.data<double>()) value /= static_cast<double>(by);
    } else {
      for (float& value : tensor.data<float>()) value /= static_cast<float>(by);
    }
  }

  const TrainRequest& request_;
  const SessionOptions common_;
  std::ostream& out_;
  Chips* const chips_;
  const int64_t shares_, share_batch_;
  Interconnect interconnect_;
  std::optional<TrainingData> data_;
  std::optional<onnx::ModelProto> model_;  ///< unless the file was a step
  StepModel step_;
  std::optional<RepeatedStep> chip_;
  std::unique_ptr<RepeatedModel> forward_;  ///< made for the first validation
  std::vector<int64_t> examples_;           ///< of the present step, of all shares
  SumOfShares sum_;                         ///< of those that this chip has done in this step
  int64_t exchanged_bytes_ = 0;
  std::vector<Row> rows_;
};

}  // namespace

namespace {

/// As one of several chips.
int train_on_chip(TrainRequest request, std::ostream& out) {
  const auto chips = make_chips(static_cast<int>(request.chips));
  std::ostream nowhere(nullptr);
  const bool is_first = chips->number() == 0;
  if (!is_first) request.checkpoint_file = request.output_file = request.csv_file = "";
  Training training(request, is_first ? out : nowhere, chips.get());
  // What is wrong for all of them the first one says, whose end is the others' before they begin.
  if (!is_first) chips->any(false);
  training.check();
  if (is_first) chips->any(false);
  return training.run();
}

}  // namespace

int train_command(const TrainRequest& request, std::ostream& out) {
  const std::optional<int> processes = started_as_one_of();
  if (request.chips > 1 && processes) return train_on_chip(request, out);
  if (processes.value_or(1) > 1)
    throw isa::UserError(fmt::format(
        "mpirun has started {0} processes, each of which would train alone; say --chips {0}", *processes));
  Training training(request, out, nullptr);
  training.check();
  if (request.chips > 1) return start_on_chips(static_cast<int>(request.chips), request.command);
  return training.run();
}

std::vector<ChoiceRow> interconnect_choices() {
  return {{"ring",
           "from every chip to the next one",
           {{"bandwidth", 12.5e9, "of a link: bytes per second in either direction"},
            {"latency", 5e-6, "of a message: seconds"}}}};
}

}  // namespace kodama::compiler
