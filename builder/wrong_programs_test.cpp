#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "builder/functions.h"
#include "builder/operators.h"
#include "builder/train_step.h"

namespace kodama::builder {
namespace {

/// A program that is wrong in the line behind the one that sets `line`.
struct WrongProgram {
  const char* name;
  std::function<void(Graph& graph, int& line)> run;
  std::vector<const char*> message;  ///< what it must say, besides the line
};

Value image(Graph& graph) {
  return graph.input("x", kFloat32, {1, 3, 8, 8});
}
Value matrix(Graph& graph) {
  return graph.input("x", kFloat32, {4, 6});
}

/// A layer of the user's own, which reports the line that uses it.
Value my_layer(const Value& x, const Value& w, Here here = Here::line()) {
  return F::relu(F::matmul(x, w, here), here);
}

const std::vector<WrongProgram>& wrong_programs() {
  static const std::vector<WrongProgram> kPrograms = {
      {"WeightOfWrongRank",
       [](Graph& graph, int& line) {
         const Value x = image(graph);
         const Value w = graph.parameter("w", {8, 3});
         line = __LINE__ + 1;
         op::Conv(x, w);
       },
       {"node 'Conv' (Conv)", "input W 'w' (float32 [8, 3]) has rank 2"}},
      {"ChannelsThatDiffer",
       [](Graph& graph, int& line) {
         const Value x = image(graph);
         const Value w = graph.parameter("w", {8, 4, 3, 3});
         line = __LINE__ + 1;
         F::conv2d(x, w, {}, {.padding = 1});
       },
       {"node 'Conv' (Conv)", "has 3 channels, input W 'w' (float32 [8, 4, 3, 3]) is for 4"}},
      {"InnerExtentsThatDiffer",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         const Value w = graph.parameter("w", {10, 7});
         line = __LINE__ + 1;
         F::linear(x, w);
       },
       {"node 'Gemm' (Gemm)", "the inner extents 6 and 7 differ"}},
      {"ShapesThatCantBeBroadcast",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         const Value b = graph.parameter("b", {4});
         line = __LINE__ + 1;
         const Value y = x + b;
       },
       {"node 'Add' (Add)", "input B 'b' (float32 [4])", "can't be broadcast"}},
      {"BroadcastBehindAnOpenDimension",
       [](Graph& graph, int& line) {
         const Value x = graph.input("x", kFloat32, {"batch", 6});
         const Value b = graph.parameter("b", {5});
         line = __LINE__ + 1;
         const Value y = x * b;
       },
       {"node 'Mul' (Mul): Incompatible dimensions"}},
      {"ElementTypesThatDiffer",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         const Value i = graph.input("i", kInt64, {4, 6});
         line = __LINE__ + 1;
         const Value y = x - i;
       },
       {"node 'Sub' (Sub)", "must have the same element type"}},
      {"IntegersWhereFloatsAreNeeded",
       [](Graph& graph, int& line) {
         const Value i = graph.input("i", kInt64, {4});
         line = __LINE__ + 1;
         F::sigmoid(i);
       },
       {"node 'Sigmoid' (Sigmoid)", "int64", "allowed are", "tensor(float)"}},
      {"HalfANumberForIntegers",
       [](Graph& graph, int& line) {
         const Value i = graph.input("i", kInt64, {4});
         line = __LINE__ + 1;
         const Value y = i * 0.5;
       },
       {"input B is 0.5", "int64"}},
      {"ANumberThatIsTooLarge",
       [](Graph& graph, int& line) {
         const Value i = graph.input("i", kInt8, {4});
         line = __LINE__ + 1;
         const Value y = i + 200;
       },
       {"input B is 200", "from -128 to 127"}},
      {"ANumberBeyondAllIntegers",
       [](Graph& graph, int& line) {
         const Value i = graph.input("i", kUInt64, {4});
         line = __LINE__ + 1;
         const Value y = i + ~uint64_t{0};
       },
       {"input B is 1.8446744073709552e+19"}},
      {"ParameterLargerThanATensorCanBe",
       [](Graph& graph, int& line) {
         line = __LINE__ + 1;
         graph.parameter("w", {1 << 20, 1 << 20});
       },
       {"'w' is [1048576, 1048576]", "at most 2147483647 elements"}},
      {"ParameterOfStrings",
       [](Graph& graph, int& line) {
         line = __LINE__ + 1;
         graph.parameter("w", {2}, Initial::zeros(), kString);
       },
       {"the first value of 'w'", "give a Tensor"}},
      {"OutputInABody",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         op::Scan({x}, {.body =
                            [&](const std::vector<Value>& in) {
                              line = __LINE__ + 1;
                              graph.output(in[0], "y");
                              return in;
                            },
                        .num_scan_inputs = 1});
       },
       {"an output is made in the body of a node"}},
      {"AxisOutOfRange",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         F::softmax(x, 2);
       },
       {"node 'Softmax' (Softmax)", "attribute axis is 2", "-2 to 1 is allowed"}},
      {"AxesThatAreNoPermutation",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         F::permute(x, {0, 0});
       },
       {"node 'Transpose' (Transpose)", "attribute perm is [0, 0]; a permutation of the 2 axes"}},
      {"AttributeThatIsNoChoice",
       [](Graph& graph, int& line) {
         const Value x = image(graph);
         line = __LINE__ + 1;
         op::Resize(x, {}, {1, 1, 2, 2}, {}, {.mode = "bicubic"});
       },
       {"attribute mode is 'bicubic'", "nearest"}},
      {"StrideOfZero",
       [](Graph& graph, int& line) {
         const Value x = image(graph);
         line = __LINE__ + 1;
         F::max_pool2d(x, 2, {.stride = 0});
       },
       {"strides holds 0"}},
      {"WindowLargerThanTheImage",
       [](Graph& graph, int& line) {
         const Value x = image(graph);
         line = __LINE__ + 1;
         F::max_pool2d(x, 9);
       },
       {"node 'MaxPool' (MaxPool): the kernel reaches over 9 elements"}},
      {"GroupsThatDontDivideTheChannels",
       [](Graph& graph, int& line) {
         const Value x = image(graph);
         const Value w = graph.parameter("w", {4, 2, 3, 3});
         line = __LINE__ + 1;
         op::Conv(x, w, {.group = 2});
       },
       {"node 'Conv' (Conv)", "for 2 in each of 2 groups"}},
      {"ValueOfAnotherGraph",
       [](Graph& graph, int& line) {
         Graph other("other");
         const Value x = matrix(graph);
         const Value y = other.input("y", kFloat32, {4, 6});
         line = __LINE__ + 1;
         const Value sum = x + y;
       },
       {"'y' is a value of another graph, 'other'"}},
      {"InputNamedTwice",
       [](Graph& graph, int& line) {
         matrix(graph);
         line = __LINE__ + 1;
         graph.input("x", kFloat32, {1});
       },
       {"the name 'x' is that of an input"}},
      {"ParameterNamedTwiceInAScope",
       [](Graph& graph, int& line) {
         const Scope scope(graph, "layer");
         graph.parameter("w", {1});
         line = __LINE__ + 1;
         graph.parameter("w", {1});
       },
       {"the name 'layer.w' is that of a parameter"}},
      {"OutputNamedTwice",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         graph.output(F::relu(x), "y");
         line = __LINE__ + 1;
         graph.output(F::tanh(x), "y");
       },
       {"the name 'y' is that of an output"}},
      {"OutputListedTwice",
       [](Graph& graph, int& line) {
         const Value y = F::relu(matrix(graph));
         graph.output(y, "y");
         line = __LINE__ + 1;
         graph.output(y);
       },
       {"'y' is an output already"}},
      {"InputAsOutputWithoutAName",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         graph.output(x);
       },
       {"'x' is an input; as an output it needs another name"}},
      {"RequiredOperandLeftOut",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         op::Conv(x, {});
       },
       {"node 'Conv' (Conv): input W is missing"}},
      {"DefaultValue",
       [](Graph&, int& line) {
         const Value nothing;
         line = __LINE__ + 1;
         nothing.backward();
       },
       {"a default Value"}},
      {"NumbersOnly",
       [](Graph&, int& line) {
         line = __LINE__ + 1;
         op::Add(1, 2);
       },
       {"Add: no operand is a value of a graph"}},
      {"EmptyConcat",
       [](Graph&, int& line) {
         line = __LINE__ + 1;
         op::Concat({}, {.axis = 0});
       },
       {"Concat: no operand"}},
      {"PartsOfOtherShapes",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         const Value y = graph.input("y", kFloat32, {4, 6, 1});
         line = __LINE__ + 1;
         F::concat({x, y}, 0);
       },
       {"node 'Concat' (Concat): input 1 'y' (float32 [4, 6, 1]) has rank 3; rank 2"}},
      {"ReshapeThatDoesntFit",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         F::reshape(x, {5, -1});
       },
       {"node 'Reshape' (Reshape)", "24 elements; they can't be reshaped to [5, -1]"}},
      {"PartsThatDontAddUp",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         F::split(x, {2, 2}, 1);
       },
       {"node 'Split' (Split): the parts have 4 elements together; axis 1"}},
      {"NoOutputsOfSplit",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         op::Split(x, 0);
       },
       {"0 outputs are asked for"}},
      {"BackwardOfAnInteger",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         const Value y = op::ArgMax(F::linear(x, graph.parameter("w", {3, 6})));
         line = __LINE__ + 1;
         y.backward();
       },
       {"backward: 'ArgMax' is int64"}},
      {"BackwardWithoutParameters",
       [](Graph& graph, int& line) {
         const Value y = F::relu(matrix(graph));
         line = __LINE__ + 1;
         y.backward();
       },
       {"'Relu' depends on no parameter"}},
      {"BackwardThroughWhatHasNoDerivative",
       [](Graph& graph, int& line) {
         const Value w = graph.parameter("w", {3, 3});
         const Value y = op::Multinomial(w, {.sample_size = 2});
         const Value z = F::sum(op::Cast(y, {.to = kFloat32}));
         line = __LINE__ + 1;
         z.backward();
       },
       {"backward: ", "node 'Multinomial' (Multinomial) isn't differentiable"}},
      {"GradientBeforeBackward",
       [](Graph& graph, int& line) {
         const Value w = graph.parameter("w", {3, 3});
         line = __LINE__ + 1;
         graph.output(w.gradient());
       },
       {"'w' has no gradient"}},
      {"UnknownDimension",
       [](Graph& graph, int& line) {
         const Value x = graph.input("x", kFloat32, {"batch", "length"});
         graph.output(F::relu(x), "y");
         line = __LINE__ + 1;
         graph.model({{"btach", 4}});
       },
       {"no dimension 'btach'; they have batch, length"}},
      {"ExtentThatDoesntFit",
       [](Graph& graph, int& line) {
         const Value x = graph.input("x", kFloat32, {"batch", 6});
         graph.output(x + graph.parameter("b", {4, 6}), "y");
         line = __LINE__ + 1;
         graph.model({{"batch", 3}});
       },
       {"node 'Add' (Add): input A 'x' (float32 [3, 6])"}},
      {"ShapeOfAnOpenDimension",
       [](Graph& graph, int& line) {
         const Value x = graph.input("x", kFloat32, {"batch", 6});
         line = __LINE__ + 1;
         (void)F::relu(x).shape();
       },
       {"float32 [batch, 6]"}},
      {"NegativeExtent",
       [](Graph& graph, int& line) {
         line = __LINE__ + 1;
         graph.input("x", kFloat32, {-2, 3});
       },
       {"an extent of -2"}},
      {"ModelWithoutOutputs",
       [](Graph& graph, int& line) {
         F::relu(matrix(graph));
         line = __LINE__ + 1;
         graph.model();
       },
       {"the graph has no output"}},
      {"UnknownValue",
       [](Graph& graph, int& line) {
         line = __LINE__ + 1;
         graph.find("Relu_3");
       },
       {"no value 'Relu_3'"}},
      {"BranchesOfDifferentTypes",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         const Value condition = graph.input("c", kBool, {});
         line = __LINE__ + 1;
         op::If(condition, {.else_branch = [&] { return x; }, .then_branch = [&] { return op::ArgMax(x); }});
       },
       {"node 'If' (If)", "float32", "int64"}},
      {"WrongLineInABody",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         op::Scan({x}, {.body =
                            [&](const std::vector<Value>& in) {
                              line = __LINE__ + 1;
                              return F::softmax(in[0], 1);
                            },
                        .num_scan_inputs = 1});
       },
       {"node 'Softmax' (Softmax)", "-1 to 0 is allowed"}},
      {"ValueOfAFinishedBody",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         Value inside;
         op::Scan({x}, {.body = [&](const std::vector<Value>& in) { return inside = F::relu(in[0]); },
                        .num_scan_inputs = 1});
         line = __LINE__ + 1;
         F::relu(inside);
       },
       {"belongs to the body of another node"}},
      {"BodyWithoutItsState",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         op::Loop(3, true, {x}, {.body = [](const std::vector<Value>& in) { return in[1]; }});
       },
       {"node 'Loop' (Loop): its body returns 1 values; at least 2"}},
      {"MoreScansThanOperands",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         op::Scan({x}, {.body = [](const std::vector<Value>& in) { return in; }, .num_scan_inputs = 2});
       },
       {"num_scan_inputs is 2; 1 to 1"}},
      {"TensorWhereASequenceIsNeeded",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         op::SequenceAt(x, 0);
       },
       {"node 'SequenceAt' (SequenceAt)", "seq(tensor(float))"}},
      {"SequenceWhereATensorIsNeeded",
       [](Graph& graph, int& line) {
         const Value list = op::SequenceConstruct({matrix(graph)});
         line = __LINE__ + 1;
         F::relu(list);
       },
       {"node 'Relu' (Relu): input X 'SequenceConstruct' is a sequence"}},
      {"LayerOfTheUsersOwn",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         const Value w = graph.parameter("w", {5, 5});
         line = __LINE__ + 1;
         my_layer(x, w);
       },
       {"node 'MatMul' (MatMul): input A 'x' (float32 [4, 6]) times"}},
      {"CallOfSeveralLines",
       [](Graph& graph, int& line) {
         const Value x = image(graph);
         const Value w = graph.parameter("w", {4, 3, 3, 3});
         const Value b = graph.parameter("b", {5});
         line = __LINE__ + 1;
         op::Conv(x, w, b,
                  {.dilations = {1, 1},
                   .group = 1,
                   .kernel_shape = {3, 3},
                   .pads = {1, 1, 1, 1},
                   .strides = {1, 1}});
       },
       {"node 'Conv' (Conv): input B 'b' (float32 [5]) has 5 elements; 4"}},
      {"IndexOfTheWrongType",
       [](Graph& graph, int& line) {
         const Value x = matrix(graph);
         line = __LINE__ + 1;
         const Value row = x[x];
       },
       {"node 'Gather' (Gather)", "input indices 'x'", "tensor(int64)"}},
      {"OptimizerThatIsntThere",
       [](Graph& graph, int& line) {
         const Value loss = F::mean(F::linear(matrix(graph), graph.parameter("w", {3, 6})));
         line = __LINE__ + 1;
         train_step(loss, {.optimizer = "adamm"});
       },
       {"adamm"}},
      {"LossOfSeveralNumbers",
       [](Graph& graph, int& line) {
         const Value loss = F::linear(matrix(graph), graph.parameter("w", {3, 6}));
         line = __LINE__ + 1;
         train_step(loss);
       },
       {"[4, 3]; a single number is allowed"}},
      {"FileThatCantBeWritten",
       [](Graph& graph, int& line) {
         graph.output(F::relu(matrix(graph)), "y");
         line = __LINE__ + 1;
         graph.save("/no/such/folder/m.onnx");
       },
       {"/no/such/folder"}},
  };
  return kPrograms;
}

class WrongPrograms : public ::testing::TestWithParam<size_t> {};

TEST_P(WrongPrograms, SayTheLine) {
  const WrongProgram& program = wrong_programs()[GetParam()];
  Graph graph("program");
  int line = 0;
  std::string message;
  try {
    program.run(graph, line);
  } catch (const isa::UserError& error) {
    message = error.what();
  } catch (const isa::UnsupportedError& error) {
    message = error.what();
  }
  EXPECT_THAT(message, ::testing::StartsWith(fmt::format("{}:{}: ", __FILE__, line)));
  for (const char* expected : program.message) EXPECT_THAT(message, ::testing::HasSubstr(expected));
}

INSTANTIATE_TEST_SUITE_P(All, WrongPrograms, ::testing::Range<size_t>(0, wrong_programs().size()),
                         [](const auto& test) { return wrong_programs()[test.param].name; });

// A call that failed leaves nothing behind: the same names are free, and the model is as if it hadn't been
// there.
TEST(WrongProgramsLeaveNothingBehind, NamesAndNodes) {
  Graph graph("program");
  const Value x = matrix(graph);
  EXPECT_THROW(op::Reshape(x, {5, -1}), isa::UserError);
  EXPECT_THROW(op::Scan({x}, {.body = [](const std::vector<Value>& in) { return F::softmax(in[0], 5); },
                              .num_scan_inputs = 1}),
               isa::UserError);
  const Value y = op::Reshape(x, {3, -1});
  EXPECT_EQ(y.name(), "Reshape");
  graph.output(y, "y");
  const onnx::ModelProto model = graph.model();
  ASSERT_EQ(model.graph().node_size(), 1);
  EXPECT_EQ(model.graph().initializer(0).name(), "Reshape.shape");
}

}  // namespace
}  // namespace kodama::builder
