#include "compiler/driver/random_graph.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "compiler/driver/chip_operands.h"
#include "compiler/driver/random_blocks.h"
#include "compiler/driver/random_rows.h"

namespace kodama::compiler {
namespace {

constexpr RandomSizes kNetworkSizes = {.elements = 8000, .products = 900'000};
constexpr RandomSizes kOperatorSizes = {.elements = 400, .products = 20'000};

class RandomGraph {
 public:
  RandomGraph(uint64_t seed, GraphKind kind)
      : kind_(kind), nodes_(seed, kind == GraphKind::kNetwork ? kNetworkSizes : kOperatorSizes) {
    for (const RandomRow& row : random_rows()) rows_.push_back(&row);
    nodes_.shuffle(rows_);
  }

  GraphProblem make() {
    if (kind_ == GraphKind::kNetwork) {
      theme_ = nodes_.number(0, 9);
      add_float_input();
      grow(nodes_.chance(35) ? nodes_.number(1, 3) : nodes_.number(3, 14));
    } else {
      nodes_.set_dynamic(nodes_.chance(35));
      theme_ = nodes_.number(0, 9);
      add_float_input();
      for (int64_t more = nodes_.number(0, 2); more > 0; --more) add_any_input();
      grow(nodes_.chance(60) ? nodes_.number(10, 25) : nodes_.number(26, 60));
    }
    if (nodes_.nodes() == 0) nodes_.add("Relu", {nodes_.values()[0].name});
    const std::vector<std::string> names = outputs();
    GraphProblem problem;
    problem.inputs = nodes_.input_values();
    problem.model = nodes_.finish_model(names);
    for (auto& output : *problem.model.mutable_graph()->mutable_output()) {
      if (output.type().has_tensor_type()) output.mutable_type()->mutable_tensor_type()->clear_shape();
    }
    if (nodes_.is_dynamic() && nodes_.chance(40)) open_dimensions(*problem.model.mutable_graph());
    return with_outputs_to_compare(std::move(problem));
  }

 private:
  Shape first_shape() {
    const int64_t most = nodes_.sizes().elements;
    const bool is_small = kind_ == GraphKind::kOperators;
    const int64_t batch = nodes_.chance(50) ? 1 : nodes_.number(2, 5);
    const auto extent = [&](int64_t high) {
      return nodes_.extent(is_small ? std::min<int64_t>(high, 17) : high);
    };
    switch (theme_) {
      case 0:
      case 1:
      case 2:
      case 3: {  // pictures
        if (is_small || nodes_.chance(50)) {
          Shape shape{batch};
          for (const int64_t high : {65, 33, 33}) shape.push_back(extent(high));
          return nodes_.fitting(shape, most / 2);
        }
        const int64_t channels = nodes_.pick(std::array<int64_t, 4>{16, 32, 64, 96});
        const int64_t images = nodes_.fitting({batch}, std::max<int64_t>(1, most / 64 / channels))[0];
        Shape places{extent(17)};
        places.push_back(extent(17));
        places = nodes_.fitting(places, most / 2 / channels / images);
        return {images, channels, places[0], places[1]};
      }
      case 4:
      case 5: {
        Shape shape{batch};
        for (int64_t k = 0; k < (theme_ == 4 ? 2 : 4); ++k) shape.push_back(extent(theme_ == 4 ? 100 : 12));
        return nodes_.fitting(shape, most / 2);
      }
      case 6:
      case 7: {  // tokens
        Shape shape{batch, extent(65)};
        shape.push_back(nodes_.pick(std::array<int64_t, 9>{4, 8, 12, 15, 16, 32, 33, 48, 64}));
        return nodes_.fitting(shape, most / 2);
      }
      default: {
        Shape shape(static_cast<size_t>(nodes_.number(1, 5)));
        for (int64_t& each : shape) each = extent(65);
        return nodes_.fitting(shape, most / 2);
      }
    }
  }
  void add_float_input() {
    const Shape shape = first_shape();
    nodes_.add_input(nodes_.random_tensor(DataType::kFloat32, shape, -4, 4));
  }
  void add_any_input() {
    const DataType type = nodes_.pick_type(RandomNodes::types("Cast", 0));
    const Shape shape = first_shape();
    nodes_.add_input(nodes_.random_tensor(type, shape, -kLargestFloat, kLargestFloat));
  }

  void grow(int64_t wanted) {
    for (int64_t tries = 0; tries < 6 * wanted && nodes_.nodes() < wanted; ++tries)
      nodes_.attempt([&] { kind_ == GraphKind::kNetwork ? grow_network() : grow_operators(); });
  }

  void grow_operators() {
    if (nodes_.chance(4)) return add_block();
    // All of them, one after the other, before any comes again: rare ones aren't left out.
    const RandomRow& row = *rows_[next_++ % rows_.size()];
    if (row.is_dynamic && !nodes_.is_dynamic()) return;
    row.add(nodes_, row.name);
  }

  void grow_network() {
    const int64_t kind = nodes_.number(0, 99);
    const bool is_picture = theme_ <= 5;
    const bool is_tokens = theme_ == 6 || theme_ == 7;
    if (theme_ <= 3 && kind < 20) return add_picture_block(nodes_);
    if (is_tokens && kind >= 90) return add_feed_forward(nodes_);
    if (is_picture && kind < 45)
      return add_one_of({"Conv", "Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool"});
    if (is_tokens && kind < 45) {
      if (kind < 15) return add_attention(nodes_);
      return add_one_of({"MatMul", "Gemm", "LayerNormalization", "Softmax"});
    }
    if (kind < 65) return add_block();
    const RandomRow& row = *rows_[next_++ % rows_.size()];
    if (!row.is_dynamic) row.add(nodes_, row.name);
  }

  void add_block() {
    switch (nodes_.number(0, 4)) {
      case 0:
        return add_picture_block(nodes_);
      case 1:
        return add_attention(nodes_);
      case 2:
        return add_feed_forward(nodes_);
      default:
        return add_chain(nodes_);
    }
  }

  void add_one_of(std::initializer_list<const char*> names) {
    const std::string name = nodes_.word(names);
    random_row(name).add(nodes_, name);
  }

  /// What nobody reads, and some of what is read.
  std::vector<std::string> outputs() {
    std::vector<std::string> names;
    for (const RandomValue& value : nodes_.values()) {
      const bool is_last = &value == &nodes_.values().back();
      if (!value.is_input && (value.readers == 0 || is_last || nodes_.chance(12)))
        names.push_back(value.name);
    }
    nodes_.shuffle(names);
    return names;
  }

  /// Some extents of inputs become names.
  void open_dimensions(onnx::GraphProto& graph) {
    for (auto& input : *graph.mutable_input()) {
      if (!input.type().has_tensor_type()) continue;
      for (auto& dim : *input.mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim()) {
        if (!nodes_.chance(40)) continue;
        const int64_t extent = dim.dim_value();
        dim.set_dim_param("n" + std::to_string(extent));
      }
    }
  }

  GraphKind kind_;
  RandomNodes nodes_;
  int64_t theme_ = 0;
  std::vector<const RandomRow*> rows_;  ///< in an order of its own
  size_t next_ = 0;
};

}  // namespace

GraphProblem random_problem(uint64_t seed, GraphKind kind) {
  return RandomGraph(seed, kind).make();
}

bool can_add(const std::string& op, uint64_t seed) {
  RandomNodes nodes(seed, kOperatorSizes);
  nodes.set_dynamic(true);
  nodes.add_input(nodes.random_tensor(DataType::kFloat32, {2, 4, 6, 4}, -4, 4));
  nodes.attempt([&] { random_row("SequenceConstruct").add(nodes, "SequenceConstruct"); });
  nodes.attempt([&] { random_row("Optional").add(nodes, "Optional"); });
  const int before = nodes.nodes();
  return nodes.attempt([&] { random_row(op.substr(op.rfind('.') + 1)).add(nodes, op); }) &&
         nodes.nodes() > before;
}

}  // namespace kodama::compiler
