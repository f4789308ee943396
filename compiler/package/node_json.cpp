#include "compiler/package/node_json.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

namespace kodama::compiler {

using isa::Json;
using isa::JsonValue;
using isa::UserError;
using reference::Attribute;
using reference::Declared;
using reference::Graph;
using reference::Node;
using reference::Signature;

namespace {

/// isa::kMostJsonLevels, of which a graph takes five, without what is around the outermost node.
constexpr int kMostGraphLevels = 4;

DataType read_type(const JsonValue& json) {
  const std::string name = json.text();
  for (int64_t number = DataType::kUndefined + 1; is_data_type(number); ++number) {
    const auto type = static_cast<DataType>(number);
    if (data_type_name(type) == name) return type;
  }
  json.fail("an element type");
}

// JSON has no numbers for what isn't finite: these are texts of their bits.
Json float_to_json(float value) {
  if (std::isfinite(value)) return static_cast<double>(value);
  return fmt::format("{:08x}", std::bit_cast<uint32_t>(value));
}
float read_float(const JsonValue& json) {
  if (!json.is_text()) return static_cast<float>(json.number());
  const std::string text = json.text();
  uint32_t bits = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bits, 16);
  if (error != std::errc() || end != text.data() + text.size()) json.fail("a number, or the bits of a float");
  return std::bit_cast<float>(bits);
}

// Texts of models are any bytes, which JSON's aren't: bytes from 0x80 on, and '%', are "%XX".
std::string escaped(const std::string& bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || c == '%')
      text += fmt::format("%{:02x}", byte);
    else
      text += c;
  }
  return text;
}
std::string read_escaped(const JsonValue& json) {
  const std::string text = json.text();
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      bytes += text[i];
      continue;
    }
    unsigned byte = 0;
    const char* const begin = text.data() + i + 1;
    if (i + 2 >= text.size() || std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2)
      json.fail("two digits behind each '%'");
    bytes += static_cast<char>(byte);
    i += 2;
  }
  return bytes;
}
Json texts_to_json(const std::vector<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(escaped(text));
  return list;
}
std::vector<std::string> read_texts(const JsonValue& json) {
  return json.list_of([](const JsonValue& text) { return read_escaped(text); });
}

Json type_to_json(const ValueType& type) {
  Json json = {{"element", static_cast<int>(type.element)},
               {"sequence", type.is_sequence},
               {"optional", type.is_optional}};
  if (type.shape) json["shape"] = *type.shape;
  return json;
}
ValueType read_value_type(const JsonValue& json) {
  json.allow({"element", "sequence", "optional", "shape"});
  ValueType type;
  const int64_t element = json.at("element").integer();
  if (!is_data_type(element)) json.at("element").fail("the number of an element type");
  type.element = static_cast<DataType>(element);
  type.is_sequence = json.at("sequence").flag();
  type.is_optional = json.at("optional").flag();
  if (json.has("shape")) type.shape = json.at("shape").integers();
  return type;
}

int64_t any_integer(const JsonValue& json) {
  return json.integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
}

class Writer {
 public:
  explicit Writer(const WriteTensor& write) : write_(write) {}

  Json node(const Node& node, int level = 0) const {
    Json attributes = Json::object();
    for (const auto& [name, attribute] : node.attributes)
      attributes[escaped(name)] = to_json(attribute, node, level);
    Json json = {{"name", escaped(node.name)},
                 {"domain", escaped(node.domain)},
                 {"operator", escaped(node.op_type)},
                 {"inputs", texts_to_json(node.inputs)},
                 {"outputs", texts_to_json(node.outputs)},
                 {"since_version", node.since_version},
                 {"opset", node.opset},
                 {"attributes", attributes}};
    if (node.signature != nullptr) json["signature"] = signature(*node.signature);
    if (node.function != nullptr) json["function"] = graph(*node.function, node, level);
    if (node.refusal)
      json["refusal"] = {{"unsupported", node.refusal->is_unsupported},
                         {"message", escaped(node.refusal->message)}};
    return json;
  }

 private:
  Json to_json(const Attribute& attribute, const Node& of, int level) const {
    struct {
      const Writer& writer;
      const Node& node;
      int level;
      Json operator()(std::monostate) const { return Json::object(); }
      Json operator()(int64_t value) const { return {{"int", value}}; }
      Json operator()(float value) const { return {{"float", float_to_json(value)}}; }
      Json operator()(const std::string& value) const { return {{"string", escaped(value)}}; }
      Json operator()(const std::shared_ptr<const Tensor>& value) const {
        return {{"tensor", tensor_to_json(*value, writer.write_)}};
      }
      Json operator()(const std::shared_ptr<const Graph>& value) const {
        return {{"graph", writer.graph(*value, node, level)}};
      }
      Json operator()(const ValueType& value) const { return {{"type", type_to_json(value)}}; }
      Json operator()(const std::vector<int64_t>& values) const { return {{"ints", values}}; }
      Json operator()(const std::vector<float>& values) const {
        Json list = Json::array();
        for (const float value : values) list.push_back(float_to_json(value));
        return {{"floats", list}};
      }
      Json operator()(const std::vector<std::string>& values) const {
        return {{"strings", texts_to_json(values)}};
      }
    } const visitor{*this, of, level};
    return std::visit(visitor, attribute);
  }

  static Json signature(const Signature& signature) {
    Json inputs = Json::array();
    for (const Signature::Formal& input : signature.inputs)
      inputs.push_back({{"name", input.name},
                        {"types", input.types},
                        {"variable", input.variable},
                        {"mixed", input.is_mixed}});
    return inputs;
  }

  static Json declared(const std::vector<Declared>& values) {
    Json list = Json::array();
    for (const Declared& value : values) {
      list.push_back({{"name", escaped(value.name)}});
      if (value.type) list.back()["type"] = type_to_json(*value.type);
    }
    return list;
  }

  Json graph(const Graph& graph, const Node& of, int level) const {
    if (level >= kMostGraphLevels)
      throw isa::UnsupportedError(fmt::format(
          "{}: graphs and functions inside each other are more than {} deep, which packages don't "
          "hold; run the model without one",
          place_of(of), kMostGraphLevels));
    Json initializers = Json::array();
    for (const auto& [name, value] : graph.initializers)
      initializers.push_back({{"name", escaped(name)}, {"tensor", tensor_to_json(value.tensor(), write_)}});
    Json nodes = Json::array();
    for (const Node& inner : graph.nodes) nodes.push_back(node(inner, level + 1));
    return {{"name", escaped(graph.name)},
            {"inputs", declared(graph.inputs)},
            {"outputs", declared(graph.outputs)},
            {"initializers", initializers},
            {"nodes", nodes}};
  }

  const WriteTensor& write_;
};

class Reader {
 public:
  explicit Reader(const TensorFile& contents) : contents_(contents) {}

  Node node(const JsonValue& json) const {
    json.allow({"name", "domain", "operator", "inputs", "outputs", "since_version", "opset", "attributes",
                "signature", "function", "refusal"});
    constexpr int64_t kMostVersions = 1000;
    Node node;
    node.name = read_escaped(json.at("name"));
    node.domain = read_escaped(json.at("domain"));
    node.op_type = read_escaped(json.at("operator"));
    node.inputs = read_texts(json.at("inputs"));
    node.outputs = read_texts(json.at("outputs"));
    node.since_version = json.at("since_version").integer(0, kMostVersions);
    node.opset = json.at("opset").integer(0, kMostVersions);
    json.at("attributes").for_each_member([&](const std::string& name, const JsonValue& value) {
      node.attributes[name] = attribute(value);
    });
    if (json.has("signature"))
      node.signature = std::make_shared<const Signature>(signature(json.at("signature")));
    if (json.has("function")) node.function = std::make_shared<const Graph>(graph(json.at("function")));
    if (json.has("refusal")) {
      const JsonValue refusal = json.at("refusal");
      refusal.allow({"unsupported", "message"});
      node.refusal = Node::Refusal{refusal.at("unsupported").flag(), read_escaped(refusal.at("message"))};
    }
    return node;
  }

 private:
  Attribute attribute(const JsonValue& json) const {
    json.allow({"int", "float", "string", "tensor", "graph", "type", "ints", "floats", "strings"});
    if (json.has("int")) return any_integer(json.at("int"));
    if (json.has("float")) return read_float(json.at("float"));
    if (json.has("string")) return read_escaped(json.at("string"));
    if (json.has("tensor")) return std::make_shared<const Tensor>(read_tensor(json.at("tensor"), contents_));
    if (json.has("graph")) return std::make_shared<const Graph>(graph(json.at("graph")));
    if (json.has("type")) return read_value_type(json.at("type"));
    if (json.has("ints")) return json.at("ints").list_of(any_integer);
    if (json.has("floats"))
      return json.at("floats").list_of([](const JsonValue& value) { return read_float(value); });
    if (json.has("strings")) return read_texts(json.at("strings"));
    return std::monostate();
  }

  static Signature signature(const JsonValue& json) {
    return {json.list_of([](const JsonValue& input) {
      input.allow({"name", "types", "variable", "mixed"});
      return Signature::Formal{input.at("name").text(), input.at("types").texts(),
                               input.at("variable").text(), input.at("mixed").flag()};
    })};
  }

  static std::vector<Declared> declared(const JsonValue& json) {
    return json.list_of([](const JsonValue& value) {
      value.allow({"name", "type"});
      Declared result{read_escaped(value.at("name")), {}};
      if (value.has("type")) result.type = read_value_type(value.at("type"));
      return result;
    });
  }

  Graph graph(const JsonValue& json) const {
    json.allow({"name", "inputs", "outputs", "initializers", "nodes"});
    Graph graph;
    graph.name = read_escaped(json.at("name"));
    graph.inputs = declared(json.at("inputs"));
    graph.outputs = declared(json.at("outputs"));
    for (const JsonValue& initializer : json.at("initializers").list()) {
      initializer.allow({"name", "tensor"});
      graph.initializers.emplace_back(read_escaped(initializer.at("name")),
                                      read_tensor(initializer.at("tensor"), contents_));
    }
    graph.nodes = json.at("nodes").list_of([&](const JsonValue& inner) { return node(inner); });
    return graph;
  }

  const TensorFile& contents_;
};

}  // namespace

Json tensor_to_json(const Tensor& tensor, const WriteTensor& write) {
  return {{"type", data_type_name(tensor.type())},
          {"shape", tensor.shape()},
          {"file", write(tensor_bytes(tensor))}};
}

Tensor read_tensor(const JsonValue& json, const TensorFile& contents) {
  json.allow({"type", "shape", "file"});
  return tensor_of_bytes(read_type(json.at("type")), json.at("shape").integers(), contents(json.at("file")),
                         json.at("file").where());
}

std::string tensor_bytes(const Tensor& tensor) {
  std::string bytes(reinterpret_cast<const char*>(tensor.bytes().data()), tensor.byte_size());
  for (const std::string& text : tensor.strings()) {
    const uint64_t length = text.size();
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += text;
  }
  return bytes;
}

Tensor tensor_of_bytes(DataType type, Shape shape, const std::string& bytes, const std::string& where) {
  const auto fail = [&](const std::string& what) {
    throw UserError(
        fmt::format("{}: found {} bytes, allowed: {} {}", where, bytes.size(), data_type_name(type), what));
  };
  if (type != DataType::kString && element_size(type) == 0) fail("elements, which no tensor has");
  const int64_t count = element_count(shape);
  // Before memory is taken for what isn't there.
  const size_t least = type == DataType::kString ? sizeof(uint64_t) : element_size(type);
  if (static_cast<uint64_t>(count) > bytes.size() / least)
    fail(fmt::format("elements of shape {}", shape_to_string(shape)));
  Tensor tensor(type, std::move(shape));
  if (type != DataType::kString) {
    if (bytes.size() != tensor.byte_size())
      fail(fmt::format("elements of shape {}", shape_to_string(tensor.shape())));
    if (!bytes.empty()) std::memcpy(tensor.bytes().data(), bytes.data(), bytes.size());
    if (type == DataType::kBool) {
      for (uint8_t& value : tensor.data<uint8_t>()) value = value != 0 ? 1 : 0;
    }
    return tensor;
  }
  size_t at = 0;
  for (std::string& text : tensor.strings()) {
    uint64_t length = 0;
    if (bytes.size() - at < sizeof(length)) fail("elements, each behind its length");
    std::memcpy(&length, bytes.data() + at, sizeof(length));
    at += sizeof(length);
    if (length > bytes.size() - at) fail("elements, each behind its length");
    text = bytes.substr(at, length);
    at += length;
  }
  if (at != bytes.size()) fail("elements, each behind its length");
  return tensor;
}

Json node_to_json(const Node& node, const WriteTensor& write) {
  return Writer(write).node(node);
}

Node read_node(const JsonValue& json, const TensorFile& contents) {
  return Reader(contents).node(json);
}

}  // namespace kodama::compiler
