#include "compiler/driver/training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <limits>
#include <random>
#include <sstream>

#include "compiler/driver/training_data.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/test_models.h"
#include "compiler/proto/tensor_file.h"
#include "compiler/proto/tensor_proto.h"
#include "compiler/reference/executor.h"
#include "isa/error.h"
#include "isa/file.h"

namespace kodama::compiler {
namespace {

using ::testing::HasSubstr;

template <typename E>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

/// A directory with examples of three classes, and a network of two layers that is to learn them.
class TrainingFiles : public ::testing::Test {
 protected:
  static constexpr int64_t kExamples = 96;
  static constexpr int64_t kFeatures = 6;
  static constexpr int64_t kClasses = 3;

  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / fmt::format("kodama_training_{}", getpid());
    std::filesystem::create_directories(directory_);
    std::mt19937 generator(5);
    std::normal_distribution<float> noise(0, 0.5F);
    Tensor x(DataType::kFloat32, {kExamples, kFeatures});
    Tensor labels(DataType::kInt64, {kExamples});
    for (int64_t n = 0; n < kExamples; ++n) {
      const int64_t label = n % kClasses;
      labels.data<int64_t>()[static_cast<size_t>(n)] = label;
      for (int64_t k = 0; k < kFeatures; ++k)
        x.data<float>()[static_cast<size_t>(n * kFeatures + k)] =
            noise(generator) + (k % kClasses == label ? 1.0F : 0.0F);
    }
    write_tensor_file(file("x.npy"), x, "x");
    write_tensor_file(file("labels.npy"), labels, "labels");

    onnx::ModelProto model;
    model.set_ir_version(kIrVersion);
    model.add_opset_import()->set_version(kOpsetVersion);
    auto& graph = *model.mutable_graph();
    graph.set_name("learner");
    const auto add_value = [](onnx::ValueInfoProto& value, const std::string& name, int64_t width) {
      value.set_name(name);
      auto& type = *value.mutable_type()->mutable_tensor_type();
      type.set_elem_type(DataType::kFloat32);
      type.mutable_shape()->add_dim()->set_dim_param("N");
      type.mutable_shape()->add_dim()->set_dim_value(width);
    };
    add_value(*graph.add_input(), "x", kFeatures);
    add_value(*graph.add_output(), "y", kClasses);
    const auto add_weights = [&](const std::string& name, const Shape& shape) {
      Tensor tensor(DataType::kFloat32, shape);
      for (float& value : tensor.data<float>()) value = noise(generator);
      *graph.add_initializer() = tensor_to_proto(tensor, name);
    };
    add_weights("w1", {kFeatures, 8});
    add_weights("b1", {8});
    add_weights("w2", {8, kClasses});
    add_weights("b2", {kClasses});
    const auto add_node = [&](const char* op, const std::vector<std::string>& inputs, const char* output) {
      auto& node = *graph.add_node();
      node.set_op_type(op);
      for (const auto& input : inputs) node.add_input(input);
      node.add_output(output);
    };
    add_node("Gemm", {"x", "w1", "b1"}, "h");
    add_node("Relu", {"h"}, "r");
    add_node("Gemm", {"r", "w2", "b2"}, "y");
    isa::write_file_atomically(file("m.onnx"), model.SerializeAsString());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string file(const std::string& name) const { return (directory_ / name).string(); }

  TrainRequest request() const {
    TrainRequest request;
    request.common.chip = "tiny";
    request.common.cache = "";
    request.common.threads = 1;
    request.model_file = file("m.onnx");
    request.data = {file("x.npy"), file("labels.npy")};
    request.batch = 16;
    request.held_out = 16;
    request.epochs = 2;
    request.step.optimizer = "adam:lr=0.02";
    request.csv_file = file("loss.csv");
    return request;
  }
  std::string train(const TrainRequest& request) const {
    std::ostringstream out;
    EXPECT_EQ(train_command(request, out), isa::kExitOk);
    return out.str();
  }

  /// Trains by the CPU reference and expects these losses; returns the state behind them.
  TensorMap follow(const TrainRequest& trained, const std::vector<double>& losses) const {
    std::ostringstream ignored;
    TrainStepCommand command;
    command.model_file = trained.model_file;
    command.output_file = file("step.onnx");
    command.batch = trained.batch;
    command.step = trained.step;
    EXPECT_EQ(train_step_command(command, ignored), isa::kExitOk);
    const StepModel step = read_train_step(file("step.onnx"));
    TrainingData data(trained.data);
    TensorMap state = step.initial;
    for (int64_t i = 0; i < 10; ++i) {
      const auto order = shuffled(kExamples - trained.held_out, trained.step.seed, i / 5);
      const std::vector<int64_t> examples(order.begin() + i % 5 * 16, order.begin() + (i % 5 + 1) * 16);
      TensorMap inputs = state;
      inputs["x"] = data.batch(0, examples);
      inputs["labels"] = data.batch(1, examples);
      inputs[step.step] = Tensor::from_values<int64_t>(DataType::kInt64, {}, {i});
      const TensorMap outputs = run_graph(step.model, inputs);
      const double expected = element_as_double(outputs.at(step.loss), 0);
      EXPECT_NEAR(losses[static_cast<size_t>(i)], expected, 1e-3 * expected) << "step " << i;
      for (const auto& each : step.state) state[each.input] = outputs.at(each.output);
    }
    return state;
  }

  std::filesystem::path directory_;
};

std::vector<double> losses_of(const std::string& csv) {
  std::istringstream lines(isa::read_file(csv));
  std::string line;
  std::getline(lines, line);
  std::vector<double> losses;
  while (std::getline(lines, line)) {
    const size_t begin = line.find(',', line.find(',') + 1) + 1;
    losses.push_back(std::stod(line.substr(begin)));
  }
  return losses;
}

TEST_F(TrainingFiles, LearnsOnTheChipWhatTheReferenceLearns) {
  TrainRequest trained = request();
  trained.output_file = file("trained.onnx");
  const std::string text = train(trained);
  EXPECT_THAT(text, HasSubstr("14 of 14 tensors of state stay on the chip"));
  EXPECT_THAT(text, HasSubstr("held out: "));
  const std::vector<double> losses = losses_of(file("loss.csv"));
  ASSERT_EQ(losses.size(), 10U);

  const TensorMap state = follow(trained, losses);
  // The model that was written has these weights.
  const auto model = read_model(trained.output_file);
  for (const auto& tensor : model.graph().initializer()) {
    const Tensor value = tensor_from_proto(tensor, "");
    for (int64_t k = 0; k < value.size(); ++k)
      EXPECT_NEAR(element_as_double(value, k), element_as_double(state.at(tensor.name()), k), 5e-3);
  }
}

TEST_F(TrainingFiles, LearnsWithALoopAndAScan) {
  const std::string scan =
      "h = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (float[N,4] s, float[N,3] t) => "
      "(float[N,4] g) { a = MatMul (t, wx) c = MatMul (s, wh) d = Add (a, c) g = Tanh (d) }> (z, r)";
  const std::string loop =
      "n = Constant <value = int64 {2}> () h = Loop (n, , z) <body = b (int64 k, bool on, float[N,4] s) => "
      "(bool still, float[N,4] g) { still = Identity (on) t = Gather <axis = 1> (r, k) a = MatMul (t, wx) "
      "c = MatMul (s, wh) d = Add (a, c) g = Tanh (d) }>";
  for (const std::string& recurrence : {scan, loop}) {
    onnx::ModelProto model = testing::parse_model(
        "agraph (float[N,6] x) => (float[N,3] y) { p = Constant <value = int64[3] {0, 2, 3}> () "
        "r = Reshape (x, p) z = MatMul (x, w0) " +
        recurrence + " y = MatMul (h, w2) }");
    testing::add_random(model, "w0", {kFeatures, 4});
    testing::add_random(model, "wx", {3, 4});
    testing::add_random(model, "wh", {4, 4});
    testing::add_random(model, "w2", {4, kClasses});
    isa::write_file_atomically(file("rnn.onnx"), model.SerializeAsString());
    TrainRequest training = request();
    training.model_file = file("rnn.onnx");
    training.checkpoint_file = file("state.onnx");
    EXPECT_THAT(train(training), HasSubstr("held out: "));
    const std::vector<double> losses = losses_of(file("loss.csv"));
    ASSERT_EQ(losses.size(), 10U);
    EXPECT_LT(losses.back(), 0.7 * losses.front());
    follow(training, losses);
    // The step that was saved goes on.
    training.model_file = file("state.onnx");
    training.epochs = 3;
    training.most_steps = 1;
    training.checkpoint_file = "";
    train(training);
    EXPECT_LT(losses_of(file("loss.csv")).front(), losses.front());
  }
}

TEST_F(TrainingFiles, GoesOnFromACheckpointToTheBit) {
  train(request());
  const std::vector<double> whole = losses_of(file("loss.csv"));
  TrainRequest first = request();
  first.most_steps = 7;
  first.checkpoint_file = file("half.onnx");
  train(first);
  TrainRequest second = request();
  second.model_file = first.checkpoint_file;
  train(second);
  const std::vector<double> rest = losses_of(file("loss.csv"));
  EXPECT_EQ(rest, std::vector<double>(whole.begin() + 7, whole.end()));
}

TEST_F(TrainingFiles, SharesOfABatchAreOnlyAnotherOrderOfSummation) {
  train(request());
  const std::vector<double> whole = losses_of(file("loss.csv"));
  TrainRequest parts = request();
  parts.accumulate = 4;
  parts.checkpoint_file = file("parts.onnx");
  EXPECT_THAT(train(parts), HasSubstr("14 of 14 tensors of state stay on the chip"));
  const std::vector<double> losses = losses_of(file("loss.csv"));
  ASSERT_EQ(losses.size(), whole.size());
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], whole[i], 2e-4 * whole[i]) << "step " << i;
  // A checkpoint is a step of a share, that any runtime takes.
  const StepModel step = read_train_step(file("parts.onnx"));
  EXPECT_EQ(step.done, 10);
  EXPECT_EQ(step.joined.size(), 5U);
  EXPECT_EQ(step.model.functions_size(), 0);
  TrainRequest more = request();
  more.model_file = file("parts.onnx");
  more.accumulate = 4;
  more.epochs = 3;
  more.most_steps = 1;
  train(more);
  more.accumulate = 1;
  std::ostringstream out;
  EXPECT_THAT(message_of<isa::UserError>([&] { train_command(more, out); }),
              HasSubstr("input 'x' has shape [4, 6]; its first axis is not --batch 16"));
  more.accumulate = 3;
  EXPECT_THAT(message_of<isa::UserError>([&] { train_command(more, out); }),
              HasSubstr("--batch 16: not a multiple of 3, the number of its shares"));
}

TEST_F(TrainingFiles, BadDataAreRefusedBeforeTheFirstStep) {
  const auto refusal = [&](const std::function<void(TrainRequest&)>& change) {
    TrainRequest changed = request();
    change(changed);
    std::ostringstream out;
    return message_of<isa::UserError>([&] { train_command(changed, out); });
  };
  EXPECT_THAT(refusal([&](auto& r) { r.data.pop_back(); }),
              HasSubstr("--data: 1 tensors; a step has the inputs 'x', 'labels'"));
  EXPECT_THAT(refusal([&](auto& r) { std::swap(r.data[0], r.data[1]); }),
              HasSubstr("labels.npy: int64 [96]; input 'x' wants float32 [96, 6]"));
  EXPECT_THAT(refusal([&](auto& r) { r.held_out = 90; }), HasSubstr("leaves less than a batch of 16"));
  EXPECT_THAT(refusal([&](auto& r) { r.data[0] = r.data[0] + "x"; }), HasSubstr("x.npyx"));

  Tensor x = read_tensor_file(file("x.npy"));
  x.data<float>()[13] = std::numeric_limits<float>::quiet_NaN();
  write_tensor_file(file("nan.npy"), x, "x");
  EXPECT_THAT(refusal([&](auto& r) { r.data[0] = file("nan.npy"); }),
              HasSubstr("element 1 of example 2 is nan; training needs numbers"));
  Tensor labels = read_tensor_file(file("labels.npy"));
  labels.data<int64_t>()[95] = 3;
  write_tensor_file(file("four.npy"), labels, "labels");
  EXPECT_THAT(refusal([&](auto& r) { r.data[1] = file("four.npy"); }),
              HasSubstr("the label of example 95 is 3; 0 to 2 is allowed"));
  write_tensor_file(file("few.npy"), Tensor(DataType::kInt64, {95}), "labels");
  EXPECT_THAT(refusal([&](auto& r) { r.data[1] = file("few.npy"); }), HasSubstr("95 examples, but"));
  EXPECT_THAT(refusal([&](auto& r) { r.data = {"mnist:" + directory_.string()}; }),
              HasSubstr("no train-images-idx3-ubyte or t10k-images-idx3-ubyte there"));
}

TEST_F(TrainingFiles, ReadsMnist) {
  std::filesystem::create_directories(directory_ / "mnist");
  const std::string pictures =
      std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02", 16) + "\xff" + std::string(3, '\0');
  const std::string labels = std::string("\0\0\x08\x01\0\0\0\x02", 8) + "\x07\x01";
  isa::write_file_atomically(file("mnist/t10k-images-idx3-ubyte"), pictures);
  isa::write_file_atomically(file("mnist/t10k-labels-idx1-ubyte"), labels);
  const TrainingData data({"mnist:" + file("mnist")});
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.batch(0, {0}), Tensor::from_values<float>(DataType::kFloat32, {1, 1, 1, 2}, {1, 0}));
  EXPECT_EQ(data.batch(1, {1, 0}), Tensor::from_values<int64_t>(DataType::kInt64, {2}, {1, 7}));
  isa::write_file_atomically(file("mnist/t10k-labels-idx1-ubyte"), labels.substr(0, 9));
  EXPECT_THAT(message_of<isa::UserError>([&] { TrainingData({"mnist:" + file("mnist")}); }),
              HasSubstr("1 bytes of data; shape [2] needs 2"));
}

/// Layers one behind the other, of which a part is computed again: the chip computes the same bits.
TEST_F(TrainingFiles, SameBitsInLessMemory) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(isa::read_file(file("m.onnx"))));
  auto& graph = *model.mutable_graph();
  graph.mutable_node()->Clear();
  constexpr int kLayers = 6;
  const auto add_node = [&](const char* op, const std::vector<std::string>& inputs,
                            const std::string& output) {
    auto& node = *graph.add_node();
    node.set_op_type(op);
    for (const auto& input : inputs) node.add_input(input);
    node.add_output(output);
  };
  add_node("Gemm", {"x", "w1", "b1"}, "h0");
  for (int k = 0; k < kLayers; ++k) {
    const std::string weight = fmt::format("v{}", k);
    Tensor tensor(DataType::kFloat32, {8, 8});
    for (int64_t i = 0; i < tensor.size(); ++i)
      tensor.data<float>()[static_cast<size_t>(i)] = 0.1F * static_cast<float>((i * 7 + k) % 11 - 5);
    *graph.add_initializer() = tensor_to_proto(tensor, weight);
    add_node("MatMul", {fmt::format("h{}", k), weight}, fmt::format("m{}", k));
    add_node("Tanh", {fmt::format("m{}", k)}, fmt::format("h{}", k + 1));
  }
  add_node("Gemm", {fmt::format("h{}", kLayers), "w2", "b2"}, "y");
  isa::write_file_atomically(file("m.onnx"), model.SerializeAsString());

  TrainRequest trained = request();
  trained.held_out = 0;
  trained.most_steps = 3;
  train(trained);
  const std::vector<double> losses = losses_of(file("loss.csv"));
  trained.memory.limit = "60%";
  const std::string text = train(trained);
  EXPECT_THAT(text, HasSubstr("activations alive at a time: "));
  EXPECT_EQ(losses_of(file("loss.csv")), losses);
  trained.memory.limit = "1";
  EXPECT_THAT(message_of<isa::UnsupportedError>([&] { train(trained); }), HasSubstr("1 B are allowed"));
}

TEST(TrainingOrder, IsAPermutationOfItsOwnForEveryEpoch) {
  const auto first = shuffled(1000, 1, 0);
  auto sorted = first;
  std::ranges::sort(sorted);
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(sorted[static_cast<size_t>(i)], i);
  EXPECT_EQ(shuffled(1000, 1, 0), first);
  EXPECT_NE(shuffled(1000, 1, 1), first);
  EXPECT_NE(shuffled(1000, 2, 0), first);
  EXPECT_TRUE(shuffled(0, 1, 0).empty());
}

}  // namespace
}  // namespace kodama::compiler
