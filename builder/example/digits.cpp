// Builds a network for pictures of digits, and the step that trains it: digits.onnx, digits.step.onnx.

#include <fmt/format.h>

#include "builder/functions.h"
#include "builder/graph.h"
#include "builder/operators.h"
#include "builder/train_step.h"

using namespace kodama::builder;

/// A layer of our own. Errors in it name the line that uses it.
Value convolution(Graph& graph, const Value& x, const std::string& name, int64_t channels,
                  Here here = Here::line()) {
  const Scope scope(graph, name);
  const Value weight = graph.parameter("weight", {channels, x.extent(1), 5, 5});
  const Value bias = graph.parameter("bias", {channels}, Initial::zeros());
  return F::max_pool2d(F::relu(F::conv2d(x, weight, bias, {.padding = 2}, here), here), 2, {}, here);
}

int main() {
  try {
    Graph graph("digits", 1);
    const Value x = graph.input("x", kFloat32, {32, 1, 28, 28});
    const Value labels = graph.input("labels", kInt64, {32});

    Value y = convolution(graph, x, "c1", 8);
    y = F::flatten(convolution(graph, y, "c2", 16));
    y = F::linear(y, graph.parameter("f.weight", {10, y.extent(1)}), graph.parameter("f.bias", {10}));
    const op::TopKResults best =
        op::TopK(F::softmax(y), {3}, {.axis = 1});  // every operator of ONNX is in op
    graph.output(best.Values, "probabilities");
    graph.output(best.Indices, "digits");
    graph.save("digits.onnx");

    const Value loss = F::cross_entropy(y, labels) + 1e-4 * F::sum(y * y);
    const auto step = train_step(loss, {.optimizer = "adam:lr=0.002"});
    kodama::compiler::write_train_step(step, "digits.step.onnx");

    loss.backward();  // or: the derivatives as values, to go on with
    fmt::print("{}: {}\n", graph.parameters()[0].gradient().name(),
               fmt::join(graph.parameters()[0].gradient().shape(), " x "));

    y + graph.parameter("wrong", {11});
  } catch (const kodama::isa::Error& error) {
    fmt::print("{}\n", error.what());
  }
}
