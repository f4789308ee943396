#include "compiler/proto/tensor_proto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "compiler/proto/tensor_file.h"
#include "compiler/tensor/numpy_file.h"
#include "isa/file.h"

namespace kodama::compiler {
namespace {

using isa::UserError;
using onnx::TensorProto;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class TensorFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 fmt::format("kodama_tensor_{}_{}", getpid(),
                             ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }
  static std::string read(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  /// A .npy file by hand, so that the reader isn't only tested against our writer.
  std::string npy(const std::string& dictionary, const std::string& data) const {
    std::string file("\x93NUMPY\x01\x00", 8);
    file.push_back(static_cast<char>(dictionary.size() + 1));
    file.push_back(0);
    return file + dictionary + "\n" + data;
  }
  std::string npz(const std::string& name,
                  const std::vector<std::pair<std::string, std::string>>& entries) const {
    int code = 0;
    zip_t* archive = zip_open(path(name).c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    for (const auto& [entry, bytes] : entries) {
      zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
      zip_file_add(archive, entry.c_str(), source, ZIP_FL_OVERWRITE);
    }
    EXPECT_EQ(zip_close(archive), 0);
    return path(name);
  }

  std::filesystem::path directory_;
};

TEST(TensorProtoStorage, EveryTypedField) {
  const auto decode = [](DataType type, const std::function<void(TensorProto&)>& fill) {
    TensorProto proto;
    proto.set_data_type(type);
    proto.add_dims(2);
    fill(proto);
    return tensor_from_proto(proto, "here");
  };
  const auto int32_pair = [](int32_t first, int32_t second) {
    return [=](TensorProto& proto) {
      proto.add_int32_data(first);
      proto.add_int32_data(second);
    };
  };
  EXPECT_EQ(decode(DataType::kInt8, int32_pair(-128, 127)),
            Tensor::from_values<int8_t>(DataType::kInt8, {2}, {-128, 127}));
  EXPECT_EQ(decode(DataType::kUint8, int32_pair(0, 255)),
            Tensor::from_values<uint8_t>(DataType::kUint8, {2}, {0, 255}));
  EXPECT_EQ(decode(DataType::kInt16, int32_pair(-32768, 5)),
            Tensor::from_values<int16_t>(DataType::kInt16, {2}, {-32768, 5}));
  EXPECT_EQ(decode(DataType::kUint16, int32_pair(65535, 5)),
            Tensor::from_values<uint16_t>(DataType::kUint16, {2}, {65535, 5}));
  EXPECT_EQ(decode(DataType::kInt32, int32_pair(-1, 5)),
            Tensor::from_values<int32_t>(DataType::kInt32, {2}, {-1, 5}));
  EXPECT_EQ(decode(DataType::kBool, int32_pair(0, 7)),
            Tensor::from_values<uint8_t>(DataType::kBool, {2}, {0, 1}));
  EXPECT_EQ(decode(DataType::kFloat16, int32_pair(0x3c00, 0xc000)),
            Tensor::from_values<uint16_t>(DataType::kFloat16, {2}, {0x3c00, 0xc000}));
  EXPECT_EQ(decode(DataType::kBfloat16, int32_pair(0x3f80, 0)),
            Tensor::from_values<uint16_t>(DataType::kBfloat16, {2}, {0x3f80, 0}));
  EXPECT_EQ(decode(DataType::kFloat32,
                   [](TensorProto& proto) {
                     proto.add_float_data(1.5f);
                     proto.add_float_data(-2.0f);
                   }),
            Tensor::from_values<float>(DataType::kFloat32, {2}, {1.5f, -2.0f}));
  EXPECT_EQ(decode(DataType::kFloat64,
                   [](TensorProto& proto) {
                     proto.add_double_data(1.5);
                     proto.add_double_data(-2.0);
                   }),
            Tensor::from_values<double>(DataType::kFloat64, {2}, {1.5, -2.0}));
  EXPECT_EQ(decode(DataType::kInt64,
                   [](TensorProto& proto) {
                     proto.add_int64_data(std::numeric_limits<int64_t>::min());
                     proto.add_int64_data(1);
                   }),
            Tensor::from_values<int64_t>(DataType::kInt64, {2}, {std::numeric_limits<int64_t>::min(), 1}));
  const auto uint64_pair = [](TensorProto& proto) {
    proto.add_uint64_data(7);
    proto.add_uint64_data(4000000000);
  };
  EXPECT_EQ(decode(DataType::kUint32, uint64_pair),
            Tensor::from_values<uint32_t>(DataType::kUint32, {2}, {7, 4000000000}));
  EXPECT_EQ(decode(DataType::kUint64, uint64_pair),
            Tensor::from_values<uint64_t>(DataType::kUint64, {2}, {7, 4000000000}));
  const Tensor complex = decode(DataType::kComplex64, [](TensorProto& proto) {
    for (int i = 0; i < 4; ++i) proto.add_float_data(static_cast<float>(i));
  });
  EXPECT_EQ(complex.byte_size(), 16u);
  const Tensor strings = decode(DataType::kString, [](TensorProto& proto) {
    proto.add_string_data(std::string("a"));
    proto.add_string_data(std::string("bc"));
  });
  EXPECT_EQ(strings.strings(), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(tensor_from_proto(tensor_to_proto(strings, "s"), "here"), strings);
  EXPECT_EQ(tensor_from_proto(tensor_to_proto(complex, "c"), "here"), complex);

  EXPECT_THROW(decode(DataType::kInt8, int32_pair(200, 0)), UserError);
  EXPECT_THROW(decode(DataType::kFloat32, int32_pair(1, 1)), UserError);
}

TEST(TensorProtoStorage, BrokenProtosAreRefusedWithThePlace) {
  TensorProto proto;
  proto.set_data_type(DataType::kFloat32);
  proto.add_dims(3);
  proto.set_raw_data("12345678");
  EXPECT_THAT([&] { tensor_from_proto(proto, "model.onnx: initializer 'w'"); },
              ThrowsMessage<UserError>(HasSubstr("model.onnx: initializer 'w': raw_data holds 8 bytes")));
  proto.add_float_data(1);
  EXPECT_THROW(tensor_from_proto(proto, "here"), UserError);
  proto.clear_float_data();
  proto.set_dims(0, int64_t{1} << 36);  // must not be allocated
  EXPECT_THROW(tensor_from_proto(proto, "here"), UserError);
  proto.set_dims(0, -2);
  EXPECT_THAT([&] { tensor_from_proto(proto, "here"); }, ThrowsMessage<UserError>(HasSubstr("here: ")));
  proto.set_dims(0, 2);
  proto.set_data_type(99);
  EXPECT_THROW(tensor_from_proto(proto, "here"), UserError);
  proto.set_data_type(DataType::kFloat32);
  proto.set_data_location(TensorProto::EXTERNAL);
  EXPECT_THAT([&] { tensor_from_proto(proto, "here"); }, ThrowsMessage<UserError>(HasSubstr("external")));
}

TEST_F(TensorFiles, NpyAndPbRoundTripOfEveryType) {
  for (const DataType type : {DataType::kBool, DataType::kInt8, DataType::kInt16, DataType::kInt32,
                              DataType::kInt64, DataType::kUint8, DataType::kUint16, DataType::kUint32,
                              DataType::kUint64, DataType::kFloat16, DataType::kFloat32, DataType::kFloat64,
                              DataType::kComplex64, DataType::kComplex128, DataType::kBfloat16}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{2, 0, 3}}) {
      Tensor tensor(type, shape);
      uint8_t counter = 0;
      for (std::byte& byte : tensor.bytes()) {
        byte = type == DataType::kBool ? std::byte(counter++ & 1) : std::byte(counter++);
      }
      write_tensor_file(path("t.pb"), tensor, "t");
      EXPECT_EQ(read_tensor_file(path("t.pb")), tensor) << data_type_name(type);
      if (type == DataType::kBfloat16) {
        EXPECT_THROW(write_tensor_file(path("t.npy"), tensor, "t"), UserError);
        continue;
      }
      write_tensor_file(path("t.npy"), tensor, "t");
      EXPECT_EQ(read_tensor_file(path("t.npy")), tensor) << data_type_name(type);
    }
  }
}

TEST_F(TensorFiles, NpyVariants) {
  const Tensor expected = Tensor::from_values<int16_t>(DataType::kInt16, {2, 3}, {1, 2, 3, 4, 5, 6});
  const std::string fortran("\1\0\4\0\2\0\5\0\3\0\6\0", 12);
  EXPECT_EQ(read_tensor_file(
                write("f.npy", npy("{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }", fortran))),
            expected);
  const std::string big_endian("\0\1\0\2\0\3\0\4\0\5\0\6", 12);
  EXPECT_EQ(read_tensor_file(
                write("b.npy", npy("{'shape':(2,3),\"descr\":'>i2','fortran_order':False}", big_endian))),
            expected);
}

TEST_F(TensorFiles, BrokenNpyIsRefused) {
  const std::string good =
      npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }", std::string(8, 'x'));
  EXPECT_NO_THROW(read_tensor_file(write("good.npy", good)));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(read_tensor_file(write("cut.npy", good.substr(0, length))), UserError) << length;
  }
  EXPECT_THROW(read_tensor_file(write("long.npy", good + "x")), UserError);
  for (const char* header : {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, -2), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }",
                             "{'descr': '<U4', 'fortran_order': False, 'shape': (2,), }",
                             "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
                             "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
                             "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", "{'descr': '<f4'}", "",
                             "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"}) {
    EXPECT_THROW(read_tensor_file(write("bad.npy", npy(header, std::string(8, 'x')))), UserError) << header;
  }
  for (size_t position = 0; position < good.size();
       ++position) {  // any damage: a value or an error, no crash
    std::string damaged = good;
    damaged[position] = static_cast<char>(damaged[position] ^ 0x55);
    try {
      read_tensor_file(write("damaged.npy", damaged));
    } catch (const UserError&) {
    }
  }
}

TEST_F(TensorFiles, Npz) {
  const std::string one =
      npy("{'descr': '<i4', 'fortran_order': False, 'shape': (1000,), }", std::string(4000, '\0'));
  const std::string two = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }", "\x07");
  const std::string both = npz("both.npz", {{"one.npy", one}, {"two.npy", two}});
  EXPECT_EQ(read_tensor_file(both, "two"), Tensor::from_values<uint8_t>(DataType::kUint8, {}, {7}));
  EXPECT_EQ(read_tensor_file(both, "one").shape(), Shape{1000});
  EXPECT_THAT([&] { read_tensor_file(both); }, ThrowsMessage<UserError>(HasSubstr("one, two")));
  EXPECT_THAT([&] { read_tensor_file(both, "three"); }, ThrowsMessage<UserError>(HasSubstr("'three'")));
  EXPECT_EQ(read_tensor_file(npz("single.npz", {{"x.npy", two}})).size(), 1);

  // A few kilobytes that would unpack to much more than their header says.
  const std::string bomb = npz("bomb.npz", {{"x.npy", one + std::string(size_t{1} << 26, '\0')}});
  EXPECT_THAT([&] { read_tensor_file(bomb); }, ThrowsMessage<UserError>(HasSubstr("more than the 4")));

  const std::string archive = read(both);
  for (size_t length = 0; length < archive.size(); length += 7) {
    EXPECT_THROW(read_tensor_file(write("cut.npz", archive.substr(0, length)), "one"), UserError) << length;
  }
  for (size_t position = 0; position < archive.size(); ++position) {
    std::string damaged = archive;
    damaged[position] = static_cast<char>(damaged[position] ^ 0xff);
    try {
      read_tensor_file(write("damaged.npz", damaged), "one");
    } catch (const UserError&) {
    }
  }
}

TEST_F(TensorFiles, OtherBadFiles) {
  EXPECT_THAT([&] { read_tensor_file(path("none.npy")); },
              ThrowsMessage<UserError>(HasSubstr("No such file")));
  EXPECT_THROW(read_tensor_file(path("none.npz")), UserError);
  EXPECT_THROW(read_tensor_file(directory_.string()), UserError);
  EXPECT_THROW(read_tensor_file(write("x.txt", "")), UserError);
  EXPECT_THROW(read_tensor_file(write("x.pb", "no tensor at all")), UserError);
  EXPECT_THROW(write_tensor_file(path("no/such/directory/x.pb"), Tensor(), "x"), UserError);
}

TEST_F(TensorFiles, AtomicWriteLeavesNothingElse) {
  isa::write_file_atomically(path("a"), std::string("one"));
  isa::write_file_atomically(path("a"), std::string("two"));
  EXPECT_EQ(read(path("a")), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory_), {}), 1);
}

}  // namespace
}  // namespace kodama::compiler
