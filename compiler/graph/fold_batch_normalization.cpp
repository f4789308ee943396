#include <algorithm>
#include <cmath>

#include "compiler/graph/graph_view.h"
#include "compiler/graph/onnx_model.h"
#include "compiler/graph/passes.h"
#include "compiler/proto/tensor_proto.h"

namespace kodama::compiler {

namespace {

bool is_float_type(DataType type) {
  return type == DataType::kFloat32 || type == DataType::kFloat64 || type == DataType::kFloat16 ||
         type == DataType::kBfloat16;
}

/// Fills a tensor of any floating type; value(i) gives element i.
Tensor make_float_tensor(DataType type, const Shape& shape, const std::function<double(int64_t)>& value) {
  Tensor tensor(type, shape);
  const int64_t size = tensor.size();
  for (int64_t i = 0; i < size; ++i) {
    switch (type) {
      case DataType::kFloat32:
        tensor.data<float>()[i] = static_cast<float>(value(i));
        break;
      case DataType::kFloat64:
        tensor.data<double>()[i] = value(i);
        break;
      case DataType::kFloat16:
        tensor.data<uint16_t>()[i] = float_to_half(static_cast<float>(value(i)));
        break;
      case DataType::kBfloat16:
        tensor.data<uint16_t>()[i] = float_to_bfloat16(static_cast<float>(value(i)));
        break;
      default:
        isa::check_internal(false, "graph pass fold-batch-normalization", "type {}", data_type_name(type));
    }
  }
  return tensor;
}

/// What inference-time BatchNormalization does to each channel: scale * x + shift.
struct ChannelMap {
  std::vector<double> scale;
  std::vector<double> shift;
};

/// nullopt if the parameters aren't constant, or if the map isn't finite: then folding would change which
/// results become NaN.
std::optional<ChannelMap> channel_map(const GraphView& view, const onnx::NodeProto& node) {
  const Tensor* parameters[4];  // scale, bias, mean, variance
  for (int i = 0; i < 4; ++i) {
    parameters[i] = view.constant(node.input(i + 1));
    if (!parameters[i] || !is_float_type(parameters[i]->type())) return std::nullopt;
  }
  const double epsilon = view.get_float(node, "epsilon");
  ChannelMap map;
  for (int64_t c = 0; c < parameters[0]->size(); ++c) {
    const double scale =
        element_as_double(*parameters[0], c) / std::sqrt(element_as_double(*parameters[3], c) + epsilon);
    const double shift = element_as_double(*parameters[1], c) - element_as_double(*parameters[2], c) * scale;
    if (!std::isfinite(scale) || !std::isfinite(shift)) return std::nullopt;
    map.scale.push_back(scale);
    map.shift.push_back(shift);
  }
  return map;
}

class Folder {
 public:
  explicit Folder(onnx::ModelProto& model)
      : graph_(*model.mutable_graph()), view_(model), names_(names_of(model.graph())) {}

  void run() {
    std::unordered_map<const onnx::NodeProto*, int> index;
    for (int i = 0; i < graph_.node_size(); ++i) index[&graph_.node(i)] = i;
    std::vector<bool> dead(graph_.node_size(), false);
    // New initializers come in only at the end: the view points at the present ones.
    for (int i = 0; i < graph_.node_size(); ++i) {
      onnx::NodeProto& node = *graph_.mutable_node(i);
      if (node.op_type() != "BatchNormalization" || !node.domain().empty()) continue;
      if (view_.get_int(node, "training_mode") != 0 || node.output_size() > 1) continue;
      const std::string data = node.input(0);
      const onnx::NodeProto* producer = view_.producer(data);
      if (!producer || !producer->domain().empty() || view_.consumers(data).size() != 1 ||
          view_.is_graph_output(data)) {
        continue;
      }
      onnx::NodeProto& maker = *graph_.mutable_node(index.at(producer));
      if (folded_.contains(&maker)) continue;  // its weights aren't the view's any more
      const auto map = channel_map(view_, node);
      if (!map || !fold_into(maker, *map)) continue;
      folded_.insert(&maker);
      maker.set_output(0, node.output(0));
      dead[i] = true;
    }
    remove_nodes(graph_, [&](int i) { return dead[i]; });
    for (auto& tensor : added_) *graph_.add_initializer() = std::move(tensor);
  }

 private:
  bool fold_into(onnx::NodeProto& node, const ChannelMap& map) {
    const bool has_bias = GraphView::has_input(node, 2);
    if (node.input_size() < 2) return false;
    const Tensor* weights = view_.constant(node.input(1));
    const Tensor* bias = has_bias ? view_.constant(node.input(2)) : nullptr;
    if (!weights || !is_float_type(weights->type()) || (has_bias && !bias)) return false;
    if (node.op_type() == "Conv" || node.op_type() == "ConvTranspose") {
      fold_into_conv(node, *weights, bias, map);
    } else if (node.op_type() == "Gemm") {
      fold_into_gemm(node, *weights, bias, map);
    } else {
      return false;
    }
    return true;
  }

  void fold_into_conv(onnx::NodeProto& node, const Tensor& weights, const Tensor* bias,
                      const ChannelMap& map) {
    const auto channels = static_cast<int64_t>(map.scale.size());
    int64_t kernel = 1;
    for (size_t axis = 2; axis < weights.shape().size(); ++axis) kernel *= weights.shape()[axis];
    // Conv: [channels, inputs per group, kernel…]. ConvTranspose: [inputs, channels per group, kernel…].
    std::function<int64_t(int64_t)> channel_of;
    if (node.op_type() == "Conv") {
      const int64_t per_channel = weights.shape()[1] * kernel;
      channel_of = [=](int64_t i) { return i / per_channel; };
    } else {
      const int64_t groups = view_.get_int(node, "group");
      const int64_t inputs_per_group = weights.shape()[0] / groups;
      const int64_t per_group = channels / groups;
      channel_of = [=](int64_t i) {
        const int64_t input = i / (kernel * per_group);
        return input / inputs_per_group * per_group + i / kernel % per_group;
      };
    }
    replace_input(node, 1, make_float_tensor(weights.type(), weights.shape(), [&](int64_t i) {
                    return element_as_double(weights, i) * map.scale[channel_of(i)];
                  }));
    replace_input(node, 2, make_float_tensor(weights.type(), {channels}, [&](int64_t c) {
                    return (bias ? element_as_double(*bias, c) * map.scale[c] : 0.0) + map.shift[c];
                  }));
  }

  /// alpha A B + beta C: the channels are the columns.
  void fold_into_gemm(onnx::NodeProto& node, const Tensor& b, const Tensor* c, const ChannelMap& map) {
    const auto channels = static_cast<int64_t>(map.scale.size());
    const bool transposed = view_.get_int(node, "transB") != 0;
    const int64_t depth = transposed ? b.shape()[1] : b.shape()[0];
    const double beta = view_.get_float(node, "beta");
    replace_input(node, 1, make_float_tensor(b.type(), b.shape(), [&](int64_t i) {
                    return element_as_double(b, i) * map.scale[transposed ? i / depth : i % channels];
                  }));
    // C broadcasts to [rows, channels]; its rows may differ, then they stay apart.
    Shape shape{channels};
    int64_t c_columns = 1;
    if (c && c->rank() >= 1) c_columns = c->shape().back();
    if (c && c->rank() == 2) shape = {c->shape()[0], channels};
    replace_input(node, 2, make_float_tensor(b.type(), shape, [&](int64_t i) {
                    const int64_t row = i / channels;
                    const int64_t column = i % channels;
                    const double old =
                        c ? element_as_double(*c, row * c_columns + (c_columns == 1 ? 0 : column)) : 0.0;
                    return beta * old * map.scale[column] + map.shift[column];
                  }));
    remove_attribute(node, "beta");  // 1
  }

  void replace_input(onnx::NodeProto& node, int index, const Tensor& tensor) {
    const std::string wish = index < node.input_size() && !node.input(index).empty()
                                 ? node.input(index) + "_folded"
                                 : node.name() + "_bias_folded";
    while (node.input_size() <= index) node.add_input("");
    node.set_input(index, names_.make_unique(wish));
    added_.push_back(tensor_to_proto(tensor, node.input(index)));
  }

  onnx::GraphProto& graph_;
  GraphView view_;
  FreshNames names_;
  std::vector<onnx::TensorProto> added_;
  std::unordered_set<const onnx::NodeProto*> folded_;
};

}  // namespace

void fold_batch_normalization(onnx::ModelProto& model) {
  Folder(model).run();
}

}  // namespace kodama::compiler
