#include "compiler/graph/external_data.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::error_of;
using ::testing::HasSubstr;
using testing::parse_model;

using Entries = std::vector<std::pair<std::string, std::string>>;

void set_external(onnx::TensorProto& tensor, const Entries& entries) {
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_external_data();
  tensor.set_data_location(onnx::TensorProto_DataLocation_EXTERNAL);
  for (const auto& [key, value] : entries) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(value);
  }
}

class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory_ = fs::temp_directory_path() / (std::string("kodama_external_") + info->name());
    fs::create_directories(directory_ / "model" / "weights");
    const std::vector<float> values = {1, 2, 3, 4, 5, 6};
    write("model/weights/w.bin", values);
    write("outside.bin", values);
  }
  void TearDown() override { fs::remove_all(directory_); }

  void write(const std::string& name, const std::vector<float>& values) {
    std::ofstream(directory_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
  }
  std::string save(const onnx::ModelProto& model) {
    const fs::path path = directory_ / "model" / "m.onnx";
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    return path;
  }
  /// y = x + w with w [3] as `entries` say.
  static onnx::ModelProto sum_model(const Entries& entries) {
    onnx::ModelProto model = parse_model("g (float[3] x) => (float[3] y) { y = Add(x, w) }");
    auto& weights = *model.mutable_graph()->add_initializer();
    weights.set_name("w");
    weights.set_data_type(DataType::kFloat32);
    weights.add_dims(3);
    set_external(weights, entries);
    return model;
  }
  std::string error(const Entries& entries) {
    return error_of<isa::UserError>([&] { import_model(save(sum_model(entries))); });
  }
  static std::vector<float> run(const onnx::ModelProto& model) {
    const Tensor zero(DataType::kFloat32, {3});
    const Tensor y = run_graph(model, {{"x", zero}}).at("y");
    return {y.data<float>().begin(), y.data<float>().end()};
  }

  fs::path directory_;
};

TEST_F(ExternalData, OffsetAndLength) {
  EXPECT_EQ(run(import_model(save(sum_model({{"location", "weights/w.bin"}})))),
            (std::vector<float>{1, 2, 3}));
  const Entries part = {{"location", "./weights/w.bin"}, {"offset", "12"}, {"length", "12"}};
  EXPECT_EQ(run(import_model(save(sum_model(part)))), (std::vector<float>{4, 5, 6}));
}

TEST_F(ExternalData, InAttributesFunctionsAndSubGraphs) {
  onnx::ModelProto model = parse_model(R"(
    g (float[3] x) => (float[3] y) { c = Constant() d = local.f(x) e = If(c) y = Sum(x, c, d) }
    <opset_import: ["" : 17], domain: "local">
    f (a) => (r) { k = Constant() r = Add(a, k) })",
                                       17, ", \"local\" : 1");
  const auto set_tensor = [&](onnx::TensorProto& tensor, const char* offset) {
    tensor.set_data_type(DataType::kFloat32);
    tensor.add_dims(3);
    set_external(tensor, {{"location", "weights/w.bin"}, {"offset", offset}});
  };
  auto& nodes = *model.mutable_graph()->mutable_node();
  const auto value_of = [](onnx::NodeProto& node) {
    return set_attribute(node, "value", onnx::AttributeProto_AttributeType_TENSOR).mutable_t();
  };
  set_tensor(*value_of(nodes[0]), "0");
  set_tensor(*value_of(*model.mutable_functions(0)->mutable_node(0)), "12");
  auto& branch =
      *set_attribute(nodes[2], "then_branch", onnx::AttributeProto_AttributeType_GRAPH).mutable_g();
  set_tensor(*branch.add_initializer(), "8");
  load_external_data(model, (directory_ / "model").string(), "m.onnx");
  for (const auto* tensor :
       {&nodes[0].attribute(0).t(), &model.functions(0).node(0).attribute(0).t(), &branch.initializer(0)}) {
    EXPECT_EQ(tensor->raw_data().size(), 12U);
    EXPECT_EQ(tensor->data_location(), onnx::TensorProto_DataLocation_DEFAULT);
  }
  EXPECT_EQ(reinterpret_cast<const float*>(branch.initializer(0).raw_data().data())[2], 5);
  nodes.DeleteSubrange(2, 1);
  EXPECT_EQ(run(import_model(model, {}, "m.onnx")), (std::vector<float>{5, 7, 9}));
}

TEST_F(ExternalData, NoPathOutOfTheFolder) {
  for (const std::string& location : {std::string("../outside.bin"), std::string("weights/../../outside.bin"),
                                      (directory_ / "outside.bin").string()}) {
    EXPECT_THAT(error({{"location", location}}), AllOf(HasSubstr("initializer 'w'"), HasSubstr(location),
                                                       HasSubstr("inside the model's folder")));
  }
  fs::create_symlink(directory_ / "outside.bin", directory_ / "model" / "link.bin");
  EXPECT_THAT(error({{"location", "link.bin"}}), AllOf(HasSubstr("link.bin"), HasSubstr("symbolic link")));
  fs::create_directory_symlink(directory_, directory_ / "model" / "up");
  EXPECT_THAT(error({{"location", "up/outside.bin"}}), HasSubstr("symbolic link"));
  // A link inside is a file like any other.
  fs::create_symlink("weights/w.bin", directory_ / "model" / "inner.bin");
  EXPECT_EQ(run(import_model(save(sum_model({{"location", "inner.bin"}})))), (std::vector<float>{1, 2, 3}));
  EXPECT_THAT(error({{"location", "weights"}}), HasSubstr("no regular file"));
}

TEST_F(ExternalData, MissingAndTooShort) {
  EXPECT_THAT(
      error({{"location", "nothing.bin"}}),
      AllOf(HasSubstr("m.onnx: initializer 'w'"), HasSubstr("nothing.bin"), HasSubstr("can't be found")));
  EXPECT_THAT(error({{"location", "weights/w.bin"}, {"offset", "16"}}),
              AllOf(HasSubstr("'weights/w.bin' has 24 bytes, of which 8 from offset 16"),
                    HasSubstr("float32 [3]"), HasSubstr("need 12")));
  EXPECT_THAT(error({{"location", "weights/w.bin"}, {"offset", "9223372036854775807"}}),
              HasSubstr("too short"));
  EXPECT_THAT(error({{"location", "weights/w.bin"}, {"length", "8"}}),
              AllOf(HasSubstr("given as 8 bytes"), HasSubstr("need 12")));
  EXPECT_THAT(error({{"location", "weights/w.bin"}, {"offset", "-4"}}), HasSubstr("offset"));
  EXPECT_THAT(error({{"location", "weights/w.bin"}, {"offset", "99999999999999999999"}}),
              HasSubstr("offset"));
  EXPECT_THAT(error({{"location", "weights/w.bin"}, {"length", "12 bytes"}}), HasSubstr("length"));
  EXPECT_THAT(error({{"offset", "0"}}), HasSubstr("no location"));
}

TEST_F(ExternalData, ShapesAndTypesThatNoFileHas) {
  onnx::ModelProto model = sum_model({{"location", "weights/w.bin"}});
  auto& weights = *model.mutable_graph()->mutable_initializer(0);
  const auto message = [&] { return error_of<isa::UserError>([&] { import_model(save(model)); }); };
  weights.set_dims(0, -1);
  EXPECT_THAT(message(), HasSubstr("[-1]"));
  weights.set_dims(0, int64_t{1} << 40);  // no memory is taken before the file is known to have so much
  EXPECT_THAT(message(), HasSubstr("too short"));
  weights.add_dims(int64_t{1} << 40);
  EXPECT_THAT(message(), HasSubstr("no shape of a tensor"));
  for (const int type : {0, 8, 22, 99}) {  // none, strings, int4, unknown
    weights.set_data_type(type);
    EXPECT_THAT(message(), HasSubstr("whole bytes")) << type;
  }
}

TEST_F(ExternalData, OpenModelsHaveThemToo) {
  onnx::ModelProto model = sum_model({{"location", "weights/w.bin"}});
  auto& type = *model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
  type.mutable_shape()->mutable_dim(0)->set_dim_param("n");
  const ImportedModel imported = import_any_model(save(model));
  EXPECT_THAT(imported.open_reason, HasSubstr("float32 [n]"));
  EXPECT_EQ(run(imported.model), (std::vector<float>{1, 2, 3}));
}

TEST_F(ExternalData, AModelInMemoryHasNoFolder) {
  const auto model = sum_model({{"location", "weights/w.bin"}});
  EXPECT_THAT(error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); }),
              HasSubstr("external data"));
}

}  // namespace
}  // namespace kodama::compiler
