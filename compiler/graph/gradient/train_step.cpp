#include "compiler/graph/gradient/train_step.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "compiler/graph/gradient/gradient.h"
#include "compiler/graph/gradient/gradient_rules.h"
#include "compiler/graph/gradient/optimizers.h"
#include "compiler/graph/graph_view.h"
#include "compiler/graph/import_control_flow.h"
#include "compiler/graph/infer_types.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"
#include "isa/error.h"
#include "isa/file.h"

namespace kodama::compiler {

namespace gradient {
namespace {

constexpr DataType kUint32 = DataType::kUint32;

/// Operands that tell an operator what to do, though they are floats: no parameters.
bool is_setting(const onnx::NodeProto& node, int input) {
  static const std::map<std::string, std::set<int>> kSettings = {{"BatchNormalization", {3, 4}},
                                                                 {"Clip", {1, 2}},
                                                                 {"Dropout", {1}},
                                                                 {"OneHot", {1, 2}},
                                                                 {"Pad", {2}},
                                                                 {"Resize", {1, 2}}};
  const auto found = kSettings.find(node.op_type());
  return found != kSettings.end() && found->second.contains(input);
}

class StepMaker {
 public:
  StepMaker(onnx::ModelProto model, const TrainStepRequest& request, const std::string& where)
      : request_(request), where_(where) {
    step_.model = std::move(model);
    optimizer_ = parse_choice("--optimizer", request.optimizer, optimizer_choices());
    schedule_ = parse_choice("--lr-schedule", request.schedule, schedule_choices());
    scale_ = parse_choice("--loss-scale", request.loss_scale, loss_scale_choices());
    if (!request.clip.empty()) clip_ = parse_choice("--clip", request.clip, clip_choices());
  }

  StepModel run() {
    for (const auto& tensor : graph().initializer()) {
      if (is_float(static_cast<DataType>(tensor.data_type()))) own_.push_back(tensor.name());
    }
    std::set<std::string> all;
    for (const auto& tensor : graph().initializer()) all.insert(tensor.name());
    fold_around(step_.model, all);
    for (const auto& input : graph().input()) step_.batch.push_back(input.name());
    FreshNames names = names_of(graph());
    step_.step = names.make_unique("step");
    add_input(step_.step, kInt64, {});
    const std::string loss = add_loss(names);
    set_training_mode(names);
    choose_parameters();
    separate_state();
    add_update(loss);
    finish();
    return std::move(step_);
  }

 private:
  onnx::GraphProto& graph() { return *step_.model.mutable_graph(); }

  [[noreturn]] void user_error(const std::string& message) const {
    throw isa::UserError(where_ + ": " + message);
  }

  void add_input(const std::string& name, DataType type, const Shape& shape) {
    auto& input = *graph().add_input();
    input.set_name(name);
    *input.mutable_type() = make_tensor_type(type, shape);
  }

  /// A value with a name that users see.
  void name_value(const Term& term, const std::string& name) {
    auto& node = *graph().add_node();
    node.set_op_type("Identity");
    node.set_name(name);
    node.add_input(term.name);
    node.add_output(name);
  }
  void add_output(const Term& term, const std::string& name) {
    name_value(term, name);
    auto& output = *graph().add_output();
    output.set_name(name);
    *output.mutable_type() = make_tensor_type(term.type, term.shape);
  }

  /// The name of the value to differentiate.
  std::string add_loss(FreshNames& names) {
    const GraphView view(step_.model);
    const auto rows = loss_choices();
    const std::string name = request_.loss.substr(0, request_.loss.find(':'));
    if (std::ranges::find(rows, name, &ChoiceRow::name) == rows.end()) {
      if (!view.has_value(request_.loss))
        user_error(fmt::format("--loss: '{}' is neither a value of the model nor one of: {}", request_.loss,
                               choices_to_string(rows)));
      if (element_count(view.shape(request_.loss)) != 1)
        user_error(fmt::format("--loss: '{}' has shape {}; a single number is allowed", request_.loss,
                               shape_to_string(view.shape(request_.loss))));
      if (!is_float(view.type(request_.loss)))
        user_error(fmt::format("--loss: '{}' has elements of type {}; floating point is allowed",
                               request_.loss, data_type_name(view.type(request_.loss))));
      return request_.loss;
    }
    const Choice choice = parse_choice("--loss", request_.loss, rows);
    const LossRow& row = row_of(loss_rows(), choice);
    if (graph().output_size() == 0) user_error("the model has no output to compute a loss of");
    const std::string output = request_.output.empty() ? graph().output(0).name() : request_.output;
    if (!view.has_value(output))
      user_error(fmt::format("--output: there is no value '{}' in the graph", output));
    const ValueInfo& value = view.value(output);
    if (!is_float(value.type))
      user_error(fmt::format("'{}' has elements of type {}; a loss is of floating point", output,
                             data_type_name(value.type)));
    Shape target = value.shape;
    if (row.has_classes) {
      if (target.size() < 2)
        user_error(fmt::format("'{}' has shape {}; {} wants [batch, classes, ...]", output,
                               shape_to_string(target), choice.name));
      step_.classes = target[1];
      target.erase(target.begin() + 1);
    }
    const std::string wanted = names.make_unique(row.has_classes ? "labels" : "targets");
    const DataType type = row.has_classes ? kInt64 : value.type;
    add_input(wanted, type, target);
    step_.batch.push_back(wanted);
    TermGraph terms(graph(), names);
    terms.set_prefix("loss/");
    return row.loss(choice, {&terms, output, value.type, value.shape}, {&terms, wanted, type, target}).name;
  }

  /// BatchNormalization and Dropout do in training what they don't do else.
  void set_training_mode(FreshNames& names) {
    const GraphView view(step_.model);
    google::protobuf::RepeatedPtrField<onnx::NodeProto> nodes;
    onnx::GraphProto made;
    TermGraph terms(made, names);
    int64_t dropouts = 0;
    for (auto& node : *graph().mutable_node()) {
      if (node.op_type() == "BatchNormalization" && node.domain().empty()) {
        if (request_.trains_normalization) {
          train_normalization(view, node, names);
        } else {
          stop_training(node);
        }
      }
      if (node.op_type() == "Dropout" && node.domain().empty()) {
        terms.set_prefix(node.name() + "/");
        drop_out(view, node, terms, dropouts++);
        nodes.MergeFrom(made.node());
        made.clear_node();
        continue;
      }
      *nodes.Add() = node;
    }
    graph().mutable_node()->Swap(&nodes);
    graph().mutable_initializer()->MergeFrom(made.initializer());
    graph().mutable_value_info()->MergeFrom(made.value_info());
    name_nodes(graph());
  }

  static void stop_training(onnx::NodeProto& node) {
    remove_attribute(node, "training_mode");
    while (node.output_size() > 1) node.mutable_output()->RemoveLast();
  }

  void train_normalization(const GraphView& view, onnx::NodeProto& node, FreshNames& names) {
    set_attribute(node, "training_mode", onnx::AttributeProto_AttributeType_INT).set_i(1);
    for (int k = 1; k <= 2; ++k) {
      const std::string& running = node.input(k + 2);
      if (!view.is_constant(running))
        user_error(fmt::format("{}: its input '{}' isn't an initializer; running statistics are",
                               describe_node(node), running));
      if (!running_.insert(running).second)
        user_error(fmt::format("{}: another node has the same running statistics '{}'", describe_node(node),
                               running));
      while (node.output_size() <= k) node.add_output("");
      if (node.output(k).empty()) node.set_output(k, names.make_unique(running + "_next"));
      const ValueInfo& value = view.value(running);
      if (!view.has_value(node.output(k))) {
        auto& info = *graph().add_value_info();
        info.set_name(node.output(k));
        *info.mutable_type() = make_tensor_type(value.type, value.shape);
      }
      statistics_.emplace_back(running, node.output(k));
    }
  }

  /// A mask that depends on the number of the step, from a counter for each element: three rounds of
  /// multiplying, which carries bits upwards, and exchanging the halves. Integers alone, so that its bits are
  /// the same everywhere.
  void drop_out(const GraphView& view, onnx::NodeProto& node, TermGraph& terms, int64_t number) const {
    const auto scalar = [&](int input, double absent) {
      if (!GraphView::has_input(node, input)) return absent;
      const Tensor* tensor = view.constant(node.input(input));
      if (tensor == nullptr || tensor->size() != 1)
        user_error(
            fmt::format("{}: its input '{}' must be constant", describe_node(node), node.input(input)));
      return element_as_double(*tensor, 0);
    };
    const double ratio = scalar(1, 0.5);
    const ValueInfo& value = view.value(node.input(0));
    const Term x = {&terms, node.input(0), value.type, value.shape};
    Term mask;
    Term y = x;
    if (!request_.drops_out || ratio <= 0) {
      if (GraphView::has_output(node, 1)) mask = terms.filled(1, kBool, value.shape);
    } else {
      const auto word = [&](uint64_t bits) {
        Tensor tensor(kUint32, {});
        tensor.data<uint32_t>()[0] = static_cast<uint32_t>(bits);
        return terms.constant(tensor);
      };
      const auto shifted = [&](const Term& bits, uint64_t by, const char* direction) {
        return terms.add("BitShift", {bits, word(by)}, kUint32, bits.shape,
                         {onnx::MakeAttribute("direction", std::string(direction))});
      };
      const auto mixed = [&](Term bits) {
        constexpr uint64_t kHalf = 16;
        for (const uint32_t factor : {0x7feb352dU, 0x846ca68bU, 0x9e3779b1U}) {
          bits = bits * word(factor);
          bits = shifted(bits, kHalf, "LEFT") + shifted(bits, kHalf, "RIGHT");
        }
        return bits * word(0xc2b2ae35U);
      };
      Tensor counters(kUint32, value.shape);
      uint32_t next = 0;
      for (uint32_t& counter : counters.data<uint32_t>()) counter = ++next;
      constexpr uint64_t kApart = 0x9e3779b97f4a7c15;  // so that neighbouring seeds have nothing in common
      const uint64_t key = (request_.seed + static_cast<uint64_t>(number) * 7919) * kApart >> 32;
      const Term step = cast({&terms, step_.step, kInt64, {}}, kUint32);
      const Term bits = mixed(terms.constant(counters) + mixed(step + word(key)));
      // The upper 24 bits as a number from 0 to 1.
      const Term upper = shifted(bits, 8, "RIGHT");
      const Term chance = cast(upper, kFloat) * (1.0 / (1 << 24));
      mask = negated(less(chance, ratio));
      y = select(mask, ratio < 1 ? x * (1 / (1 - ratio)) : x, 0.0);
    }
    const auto finish_as = [&](const Term& term, const std::string& name) {
      auto& identity = *terms.graph().add_node();
      identity.set_op_type("Identity");
      identity.add_input(term.name);
      identity.add_output(name);
    };
    finish_as(y, node.output(0));
    if (GraphView::has_output(node, 1)) finish_as(mask, node.output(1));
  }

  /// The names of a list in which there may be patterns of a shell, for the model's initializers of floats.
  /// Running statistics match none: a pattern means parameters.
  std::vector<std::string> matching(const std::vector<std::string>& list, const char* option) const {
    std::vector<std::string> names;
    std::set<std::string> seen;
    for (const std::string& entry : list) {
      const bool is_name =
          entry.find_first_of("*?[") == std::string::npos || std::ranges::find(own_, entry) != own_.end();
      if (is_name) {
        if (seen.insert(entry).second) names.push_back(entry);
        continue;
      }
      bool has_any = false;
      for (const std::string& name : own_) {
        if (running_.contains(name) || fnmatch(entry.c_str(), name.c_str(), 0) != 0) continue;
        has_any = true;
        if (seen.insert(name).second) names.push_back(name);
      }
      if (!has_any) user_error(fmt::format("{}: no initializer of floats is like '{}'", option, entry));
    }
    return names;
  }

  void choose_parameters() {
    const GraphView view(step_.model);
    const auto check = [&](const std::string& name, const char* option) {
      if (!view.is_constant(name) || !is_float(view.type(name)))
        user_error(fmt::format("{}: '{}' is no initializer of floats", option, name));
      if (running_.contains(name))
        user_error(fmt::format("{}: '{}' are running statistics, which no optimizer changes", option, name));
    };
    const std::vector<std::string> freeze = matching(request_.freeze, "--freeze");
    const std::set<std::string> frozen(freeze.begin(), freeze.end());
    for (const std::string& name : freeze) check(name, "--freeze");
    if (!request_.train.empty()) {
      parameters_ = matching(request_.train, "--train");
      for (const std::string& name : parameters_) {
        check(name, "--train");
        if (frozen.contains(name)) user_error(fmt::format("'{}' is to be trained and to stay", name));
      }
      return;
    }
    std::set<std::string> settings;
    for (const auto& node : graph().node()) {
      for (int i = 0; i < node.input_size(); ++i) {
        if (is_setting(node, i)) settings.insert(node.input(i));
      }
    }
    for (const std::string& name : own_) {
      if (view.is_constant(name) && element_count(view.shape(name)) > 1 && !frozen.contains(name) &&
          !running_.contains(name) && !settings.contains(name))
        parameters_.push_back(name);
    }
  }

  /// Parameters and running statistics become inputs. Those of 16 bits are kept in single precision.
  void separate_state() {
    std::set<std::string> state(parameters_.begin(), parameters_.end());
    state.insert(running_.begin(), running_.end());
    google::protobuf::RepeatedPtrField<onnx::TensorProto> constants;
    std::map<std::string, Tensor> values;
    for (auto& tensor : *graph().mutable_initializer()) {
      if (!state.contains(tensor.name())) {
        constants.Add()->Swap(&tensor);
        continue;
      }
      values[tensor.name()] = tensor_from_proto(tensor, where_);
    }
    graph().mutable_initializer()->Swap(&constants);
    for (const std::string& name : parameters_) add_state_input(name, values.at(name), true);
    for (const auto& [input, output] : statistics_) add_state_input(input, values.at(input), false);
  }

  void add_state_input(const std::string& name, const Tensor& value, bool is_parameter) {
    const bool is_short = is_parameter && element_size(value.type()) == 2;
    if (!is_short) {
      add_input(name, value.type(), value.shape());
      step_.initial[name] = value;
      masters_[name] = name;
      return;
    }
    FreshNames names = names_of(graph());
    const std::string master = names.make_unique(name + ".master");
    add_input(master, kFloat, value.shape());
    std::vector<double> elements;
    for (int64_t i = 0; i < value.size(); ++i) elements.push_back(element_as_double(value, i));
    step_.initial[master] = tensor_of(kFloat, value.shape(), elements);
    masters_[name] = master;
    onnx::NodeProto node;
    node.set_op_type("Cast");
    node.set_name(name);
    node.add_input(master);
    node.add_output(name);
    *node.add_attribute() = onnx::MakeAttribute("to", static_cast<int64_t>(value.type()));
    *graph().add_node() = node;
    auto& nodes = *graph().mutable_node();
    std::rotate(nodes.pointer_begin(), nodes.pointer_end() - 1, nodes.pointer_end());
    auto& info = *graph().add_value_info();
    info.set_name(name);
    *info.mutable_type() = make_tensor_type(value.type(), value.shape());
  }

  /// A state value of the optimizer, that begins with zeros or another number.
  Term add_slot(TermGraph& terms, const std::string& wish, DataType type, const Shape& shape,
                double first = 0) {
    const std::string name = terms.names().make_unique(wish);
    add_input(name, type, shape);
    step_.initial[name] =
        tensor_of(type, shape, std::vector<double>(static_cast<size_t>(element_count(shape)), first));
    return {&terms, name, type, shape};
  }
  void tie(const Term& input, const Term& output, bool is_parameter) {
    pending_.push_back({input, output, is_parameter});
  }

  void add_update(const std::string& loss_name) {
    infer_types(step_.model);
    // Operators of the loss have types now.
    std::string differentiated = loss_name;
    Term scale;
    {
      const GraphView view(step_.model);
      loss_type_ = view.type(loss_name);
      loss_shape_ = view.shape(loss_name);
      FreshNames names = names_of(graph());
      TermGraph terms(graph(), names);
      terms.set_prefix("loss/");
      if (scale_.name != "none") {
        scale = scale_.name == "static" ? terms.number(scale_["by"], kFloat)
                                        : add_slot(terms, "loss_scale", kFloat, {}, scale_["first"]);
        const Term loss = {&terms, loss_name, loss_type_, loss_shape_};
        differentiated = (loss * cast(scale, loss_type_)).name;
      }
    }
    GradientRequest request;
    request.loss = differentiated;
    request.stop = request_.stop;
    std::vector<std::string> trained;
    for (const std::string& name : parameters_) trained.push_back(masters_.at(name));
    request.wrt = reached(differentiated, trained);
    if (request.wrt.empty())
      user_error("the loss depends on no parameter: there is nothing to train (--train names parameters)");
    const GradientNames gradients = add_gradients(step_.model, request, where_);
    drop_unreached(request.wrt);

    const GraphView view(step_.model);
    FreshNames names = names_of(graph());
    TermGraph terms(graph(), names);
    terms.set_prefix("update/");
    if (scale) scale.graph = &terms;
    const Term steps = cast({&terms, step_.step, kInt64, {}}, kFloat);
    const Term factor = row_of(schedule_rows(), schedule_).factor(schedule_, steps);
    const Term rate = factor * optimizer_["lr"];

    std::vector<std::pair<Term, Term>> pairs;  // parameter and gradient
    for (const auto& [parameter, gradient] : gradients) {
      const ValueInfo& value = view.value(parameter);
      pairs.emplace_back(Term{&terms, parameter, value.type, value.shape},
                         Term{&terms, gradient, value.type, value.shape});
    }
    std::vector<std::pair<Term, Term>> running = running_statistics(terms, view);
    const Term loss = join(terms, loss_name, pairs, running);
    if (scale) {
      const Term inverse = map("Reciprocal", scale);
      for (auto& [parameter, gradient] : pairs) gradient = gradient * cast(inverse, gradient.type);
    }
    const Term is_finite = scale_.name == "dynamic" ? all_finite(pairs) : Term();
    clip(terms, pairs);

    const OptimizerRow& row = row_of(optimizer_rows(), optimizer_);
    std::vector<std::pair<Term, Term>> shared;  // old and new
    for (const SharedSlot& slot : row.shared) {
      const Term old = add_slot(terms, slot.name, kFloat, {});
      shared.emplace_back(old, slot.next(optimizer_, old));
    }
    const auto kept = [&](const Term& next, const Term& old) {
      return is_finite ? select(is_finite, next, old) : next;
    };
    std::vector<std::pair<Term, Term>> slots_of_all;
    for (const auto& [parameter, gradient] : pairs) {
      UpdateStep update;
      update.parameter = parameter;
      update.gradient = gradient;
      update.rate = cast(rate, parameter.type);
      for (const std::string& slot : row.slots)
        update.slots.push_back(add_slot(terms, parameter.name + "." + slot, parameter.type, parameter.shape));
      for (const auto& [old, next] : shared) update.shared.push_back(cast(next, parameter.type));
      terms.set_prefix("update/" + parameter.name + "/");
      const Updated updated = row.update(optimizer_, update);
      tie(parameter, kept(updated.parameter, parameter), true);
      for (size_t i = 0; i < updated.slots.size(); ++i)
        slots_of_all.emplace_back(update.slots[i], kept(updated.slots[i], update.slots[i]));
    }
    for (const auto& [old, next] : slots_of_all) tie(old, next, false);
    terms.set_prefix("update/");
    for (const auto& [old, next] : shared) tie(old, kept(next, old), false);
    for (const auto& [old, next] : running) tie(old, kept(next, old), false);
    if (is_finite) tie_scale(terms, scale, is_finite);

    graph().clear_output();
    step_.loss = names.make_unique("loss");
    add_output(loss, step_.loss);
    step_.rate = names.make_unique("rate");
    add_output(rate, step_.rate);
    for (const Pending& each : pending_) {
      const std::string output = names.make_unique(each.input.name + ".next");
      add_output(each.output, output);
      step_.state.push_back({each.input.name, output, each.is_parameter});
    }
  }

  /// The running statistics and what they become.
  std::vector<std::pair<Term, Term>> running_statistics(TermGraph& terms, const GraphView& view) const {
    std::vector<std::pair<Term, Term>> running;
    for (const auto& [input, output] : statistics_) {
      const ValueInfo& value = view.value(input);
      running.emplace_back(Term{&terms, input, value.type, value.shape},
                           Term{&terms, output, value.type, value.shape});
    }
    return running;
  }

  /// Puts a node Identity behind everything of which shares of the batch take the mean
  /// (StepModel::joined): gradients, the running statistics that follow, the loss, which is returned.
  Term join(TermGraph& terms, const std::string& loss, std::vector<std::pair<Term, Term>>& gradients,
            std::vector<std::pair<Term, Term>>& running) {
    terms.set_prefix("joined/");
    const auto joined = [&](const Term& value) {
      // Means are of words as the chip has them.
      const DataType type = element_size(value.type) == 2 ? kFloat : value.type;
      const Term mean = map("Identity", cast(value, type));
      step_.joined.push_back(mean.name);
      return cast(mean, value.type);
    };
    for (auto& [parameter, gradient] : gradients) gradient = joined(gradient);
    for (auto& [old, next] : running) next = joined(next);
    const Term mean_loss = joined({&terms, loss, loss_type_, loss_shape_});
    terms.set_prefix("update/");
    return mean_loss;
  }

  /// Of these parameters those on which the loss depends.
  std::vector<std::string> reached(const std::string& loss, const std::vector<std::string>& names) const {
    std::set<std::string> needed = {loss};
    const auto& nodes = step_.model.graph().node();
    for (int i = nodes.size() - 1; i >= 0; --i) {
      if (std::ranges::any_of(nodes[i].output(), [&](const auto& name) { return needed.contains(name); }))
        needed.merge(names_read(nodes[i]));
    }
    std::vector<std::string> result;
    for (const std::string& name : names) {
      if (needed.contains(name)) {
        result.push_back(name);
      } else if (!request_.train.empty()) {
        user_error(fmt::format("--train: the loss doesn't depend on '{}'", name));
      }
    }
    return result;
  }

  /// Parameters that the loss doesn't depend on are no state.
  void drop_unreached(const std::vector<std::string>& kept) {
    const std::set<std::string> names(kept.begin(), kept.end());
    auto& inputs = *graph().mutable_input();
    for (const auto& [parameter, master] : masters_) {
      if (names.contains(master) || running_.contains(parameter)) continue;
      const auto found = std::ranges::find(inputs, master, &onnx::ValueInfoProto::name);
      if (found == inputs.end()) continue;
      inputs.erase(found);
      // Something else than the loss may read it.
      *graph().add_initializer() = tensor_to_proto(step_.initial.at(master), master);
      step_.initial.erase(master);
    }
  }

  Term all_finite(const std::vector<std::pair<Term, Term>>& pairs) const {
    constexpr double kAlmostInfinite = 3e38;
    Term finite;
    for (const auto& [parameter, gradient] : pairs) {
      Ints axes;
      for (int64_t axis = 0; axis < gradient.rank(); ++axis) axes.push_back(axis);
      const Term largest = reduce("ReduceMax", abs(cast(gradient, kFloat)), axes, false);
      const Term own = less(largest, kAlmostInfinite);
      finite = finite ? both(finite, own) : own;
    }
    return finite;
  }

  void clip(TermGraph& terms, std::vector<std::pair<Term, Term>>& pairs) const {
    if (!clip_) return;
    const double at = (*clip_)["at"];
    if (clip_->name == "value") {
      for (auto& [parameter, gradient] : pairs)
        gradient =
            terms.add("Clip", {gradient, terms.number(-at, gradient.type), terms.number(at, gradient.type)},
                      gradient.type, gradient.shape);
      return;
    }
    Term squares;
    for (const auto& [parameter, gradient] : pairs) {
      const Term own = cast(sum_all(gradient * gradient), kFloat);
      squares = squares ? squares + own : own;
    }
    constexpr double kTiny = 1e-6;  // PyTorch's
    const Term factor = minimum(at / (sqrt(squares) + kTiny), terms.number(1, kFloat));
    for (auto& [parameter, gradient] : pairs) gradient = gradient * cast(factor, gradient.type);
  }

  /// Halved where a gradient isn't finite, doubled behind so many steps where all are.
  void tie_scale(TermGraph& terms, const Term& scale, const Term& is_finite) {
    const Term good = add_slot(terms, "good_steps", kFloat, {});
    const Term next = good + 1.0;
    const Term is_long = negated(less(next, scale_["every"]));
    const Term grown = select(is_long, minimum(scale * 2.0, terms.number(1 << 24, kFloat)), scale);
    tie(scale, select(is_finite, grown, maximum(scale * 0.5, terms.number(1, kFloat))), false);
    tie(good, select(is_finite, select(is_long, 0.0, next), 0.0), false);
  }

  void finish() {
    name_nodes(graph());
    remove_unread_initializers();
    reestablish(step_.model, "train-step");
  }

  void remove_unread_initializers() {
    std::set<std::string> read;
    for (const auto& node : graph().node()) read.merge(names_read(node));
    auto& initializers = *graph().mutable_initializer();
    initializers.erase(std::remove_if(initializers.begin(), initializers.end(),
                                      [&](const auto& tensor) { return !read.contains(tensor.name()); }),
                       initializers.end());
    prune_value_info(graph());
  }

  struct Pending {
    Term input, output;
    bool is_parameter = false;
  };

  const TrainStepRequest& request_;
  const std::string& where_;
  StepModel step_;
  Choice optimizer_, schedule_, scale_;
  std::optional<Choice> clip_;
  std::vector<std::string> own_;  ///< the model's initializers of floats
  std::vector<std::string> parameters_;
  std::map<std::string, std::string> masters_;  ///< by parameter: the input that holds it
  std::set<std::string> running_;
  std::vector<std::pair<std::string, std::string>> statistics_;  ///< inputs and outputs
  std::vector<Pending> pending_;
  DataType loss_type_ = kFloat;
  Shape loss_shape_;
};

}  // namespace
}  // namespace gradient

StepModel make_train_step(onnx::ModelProto model, const TrainStepRequest& request, const std::string& where) {
  return gradient::StepMaker(std::move(model), request, where).run();
}

void write_train_step(const StepModel& step, const std::string& path) {
  onnx::ModelProto model = step.model;
  nlohmann::ordered_json json;
  json["batch"] = step.batch;
  json["step"] = step.step;
  json["loss"] = step.loss;
  json["rate"] = step.rate;
  json["classes"] = step.classes;
  json["done"] = step.done;
  json["joined"] = step.joined;
  for (const auto& each : step.state)
    json["state"].push_back(
        {{"input", each.input}, {"output", each.output}, {"parameter", each.is_parameter}});
  auto& property = *model.add_metadata_props();
  property.set_key(kTrainStepMetadata);
  property.set_value(json.dump());
  for (const auto& [name, tensor] : step.initial)
    *model.mutable_graph()->add_initializer() = tensor_to_proto(tensor, name);
  isa::write_file_atomically(path, serialize_model(model, path));
}

StepModel read_train_step(const std::string& path) {
  onnx::ModelProto model = read_model_with_data(path);
  const auto& properties = model.metadata_props();
  const auto property = std::ranges::find(properties, kTrainStepMetadata, &onnx::StringStringEntryProto::key);
  const auto wrong = [&](const std::string& why) {
    return isa::UserError(fmt::format("{}: {}; kodama train-step makes such models", path, why));
  };
  if (property == properties.end()) throw wrong("the model is no training step");
  StepModel step;
  try {
    const auto json = nlohmann::json::parse(property->value());
    step.batch = json.at("batch").get<std::vector<std::string>>();
    step.step = json.at("step");
    step.loss = json.at("loss");
    step.rate = json.at("rate");
    step.classes = json.at("classes");
    step.done = json.at("done");
    step.joined = json.value("joined", step.joined);  // steps of earlier versions have none
    for (const auto& each : json.at("state"))
      step.state.push_back({each.at("input"), each.at("output"), each.at("parameter")});
  } catch (const nlohmann::json::exception& error) {
    throw wrong(fmt::format("its metadata '{}' can't be read", kTrainStepMetadata));
  }
  std::set<std::string> inputs;
  for (const auto& each : step.state) inputs.insert(each.input);
  onnx::GraphProto& graph = *model.mutable_graph();
  google::protobuf::RepeatedPtrField<onnx::TensorProto> constants;
  for (auto& tensor : *graph.mutable_initializer()) {
    if (inputs.contains(tensor.name())) {
      step.initial[tensor.name()] = tensor_from_proto(tensor, fmt::format("{}: '{}'", path, tensor.name()));
    } else {
      constants.Add()->Swap(&tensor);
    }
  }
  graph.mutable_initializer()->Swap(&constants);
  for (const auto& each : step.state) {
    if (!step.initial.contains(each.input)) throw wrong(fmt::format("'{}' has no first value", each.input));
  }
  model.clear_metadata_props();
  step.model = import_with_control_flow(std::move(model), {}, path);
  std::set<std::string> there;
  for (const auto& input : step.model.graph().input()) there.insert(input.name());
  for (const auto& output : step.model.graph().output()) there.insert(output.name());
  const auto check = [&](const std::string& name) {
    if (!there.contains(name)) throw wrong(fmt::format("it has no input or output '{}'", name));
  };
  for (const auto& name : step.batch) check(name);
  for (const auto& each : step.state) check(each.input), check(each.output);
  for (const auto& name : {step.step, step.loss, step.rate}) check(name);
  return step;
}

std::vector<ChoiceRow> optimizer_choices() {
  return gradient::choices_of(gradient::optimizer_rows());
}
std::vector<ChoiceRow> schedule_choices() {
  return gradient::choices_of(gradient::schedule_rows());
}
std::vector<ChoiceRow> loss_choices() {
  return gradient::choices_of(gradient::loss_rows());
}
std::vector<ChoiceRow> clip_choices() {
  return {{"norm", "the length of all gradients together", {{"at", 1}}},
          {"value", "every element", {{"at", 1}}}};
}
std::vector<ChoiceRow> loss_scale_choices() {
  return {{"none", "as it is"},
          {"static", "times a number", {{"by", 1024}}},
          {"dynamic", "as large as gradients stay finite", {{"first", 65536}, {"every", 2000}}}};
}

}  // namespace kodama::compiler
