#include "compiler/graph/newer_fields.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>

#include "compiler/graph/import.h"
#include "compiler/graph/test_models.h"

namespace kodama::compiler {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::parse_model;

/// As a release of ONNX writes it that has the field.
void add_field(google::protobuf::Message& message, int number, const std::string& bytes) {
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(number, bytes);
}

constexpr int kNodeOverload = 8;
constexpr int kFunctionOverload = 13;
constexpr int kFunctionDefaults = 11;

constexpr const char* kLocalDomain = ", \"local\" : 1";

TEST(NewerFields, OverloadsAreDifferentFunctions) {
  onnx::ModelProto model = parse_model(R"(
    g (float[2] x) => (float[2] y) { a = local.f(x) y = local.f(a) }
    <opset_import: ["" : 17], domain: "local"> f (p) => (q) { q = Neg(p) }
    <opset_import: ["" : 17], domain: "local"> f (p) => (q) { q = Exp(p) })",
                                       17, kLocalDomain);
  add_field(*model.mutable_functions(1), kFunctionOverload, "second");
  add_field(*model.mutable_graph()->mutable_node(1), kNodeOverload, "second");
  model.set_ir_version(10);
  const auto imported = import_model(model, {}, "m.onnx");
  EXPECT_EQ(imported.graph().node(0).op_type(), "Neg");
  EXPECT_EQ(imported.graph().node(1).op_type(), "Exp");
  EXPECT_EQ(imported.ir_version(), kIrVersion);

  add_field(*model.mutable_graph()->mutable_node(0), kNodeOverload, "third");
  EXPECT_THAT(error_of<isa::UnsupportedError>([&] { import_model(model, {}, "m.onnx"); }),
              HasSubstr("f:third"));
}

TEST(NewerFields, DefaultsOfAFunctionsAttributes) {
  onnx::ModelProto model = parse_model(R"(
    g (float[2] x) => (float[2] y) { a = local.f(x) y = local.f<slope=0.5>(a) }
    <opset_import: ["" : 17, "local" : 1], domain: "local"> f (p) => (q) { q = local.h<alpha: float = @slope>(p) }
    <opset_import: ["" : 17], domain: "local"> h <alpha> (p) => (q) { q = LeakyRelu<alpha: float = @alpha>(p) })",
                                       17, kLocalDomain);
  onnx::AttributeProto slope;
  slope.set_name("slope");
  slope.set_type(onnx::AttributeProto_AttributeType_FLOAT);
  slope.set_f(0.25F);
  add_field(*model.mutable_functions(0), kFunctionDefaults, slope.SerializeAsString());
  model.set_ir_version(9);
  const auto imported = import_model(model, {}, "m.onnx");
  ASSERT_EQ(imported.graph().node_size(), 2);
  EXPECT_EQ(find_attribute(imported.graph().node(0), "alpha")->f(), 0.25F);
  EXPECT_EQ(find_attribute(imported.graph().node(1), "alpha")->f(), 0.5F);

  add_field(*model.mutable_functions(0), kFunctionDefaults, "\xff\xff");
  EXPECT_THAT(error_of<isa::UserError>([&] { import_model(model, {}, "m.onnx"); }),
              HasSubstr("function 'local.f': the default of an attribute is broken"));
}

TEST(NewerFields, WhatDescribesIsDropped) {
  onnx::ModelProto model = parse_model("g (float[2] x) => (float[2] y) { y = Neg(x) }");
  add_field(*model.mutable_graph()->mutable_node(0), 9, "");  // metadata_props
  add_field(*model.mutable_graph(), 16, "");                  // metadata_props
  const auto imported = import_model(model, {}, "m.onnx");
  EXPECT_EQ(imported.ByteSizeLong(), [&] {
    onnx::ModelProto copy = imported;
    copy.DiscardUnknownFields();
    return copy.ByteSizeLong();
  }());
}

}  // namespace
}  // namespace kodama::compiler
