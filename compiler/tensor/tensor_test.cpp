#include "compiler/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zip.h>

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

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

TEST(Shape, CountsElementsAndRefusesWhatCannotBe) {
  EXPECT_EQ(element_count({}), 1);
  EXPECT_EQ(element_count({2, 3, 4}), 24);
  EXPECT_EQ(element_count({int64_t{1} << 40, int64_t{1} << 40, 0}), 0);
  EXPECT_THROW(element_count({2, -1}), UserError);
  EXPECT_THROW(element_count({int64_t{1} << 40, int64_t{1} << 40}), UserError);
  EXPECT_THROW(Tensor(TensorProto::FLOAT, {int64_t{1} << 50}), UserError);
  EXPECT_THROW(Tensor(TensorProto::UNDEFINED, {1}), UserError);
  EXPECT_EQ(Tensor().data<float>()[0], 0.0f);
}

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
  EXPECT_EQ(decode(TensorProto::INT8, int32_pair(-128, 127)),
            Tensor::from_values<int8_t>(TensorProto::INT8, {2}, {-128, 127}));
  EXPECT_EQ(decode(TensorProto::UINT8, int32_pair(0, 255)),
            Tensor::from_values<uint8_t>(TensorProto::UINT8, {2}, {0, 255}));
  EXPECT_EQ(decode(TensorProto::INT16, int32_pair(-32768, 5)),
            Tensor::from_values<int16_t>(TensorProto::INT16, {2}, {-32768, 5}));
  EXPECT_EQ(decode(TensorProto::UINT16, int32_pair(65535, 5)),
            Tensor::from_values<uint16_t>(TensorProto::UINT16, {2}, {65535, 5}));
  EXPECT_EQ(decode(TensorProto::INT32, int32_pair(-1, 5)),
            Tensor::from_values<int32_t>(TensorProto::INT32, {2}, {-1, 5}));
  EXPECT_EQ(decode(TensorProto::BOOL, int32_pair(0, 7)),
            Tensor::from_values<uint8_t>(TensorProto::BOOL, {2}, {0, 1}));
  EXPECT_EQ(decode(TensorProto::FLOAT16, int32_pair(0x3c00, 0xc000)),
            Tensor::from_values<uint16_t>(TensorProto::FLOAT16, {2}, {0x3c00, 0xc000}));
  EXPECT_EQ(decode(TensorProto::BFLOAT16, int32_pair(0x3f80, 0)),
            Tensor::from_values<uint16_t>(TensorProto::BFLOAT16, {2}, {0x3f80, 0}));
  EXPECT_EQ(decode(TensorProto::FLOAT,
                   [](TensorProto& proto) {
                     proto.add_float_data(1.5f);
                     proto.add_float_data(-2.0f);
                   }),
            Tensor::from_values<float>(TensorProto::FLOAT, {2}, {1.5f, -2.0f}));
  EXPECT_EQ(decode(TensorProto::DOUBLE,
                   [](TensorProto& proto) {
                     proto.add_double_data(1.5);
                     proto.add_double_data(-2.0);
                   }),
            Tensor::from_values<double>(TensorProto::DOUBLE, {2}, {1.5, -2.0}));
  EXPECT_EQ(decode(TensorProto::INT64,
                   [](TensorProto& proto) {
                     proto.add_int64_data(std::numeric_limits<int64_t>::min());
                     proto.add_int64_data(1);
                   }),
            Tensor::from_values<int64_t>(TensorProto::INT64, {2}, {std::numeric_limits<int64_t>::min(), 1}));
  const auto uint64_pair = [](TensorProto& proto) {
    proto.add_uint64_data(7);
    proto.add_uint64_data(4000000000);
  };
  EXPECT_EQ(decode(TensorProto::UINT32, uint64_pair),
            Tensor::from_values<uint32_t>(TensorProto::UINT32, {2}, {7, 4000000000}));
  EXPECT_EQ(decode(TensorProto::UINT64, uint64_pair),
            Tensor::from_values<uint64_t>(TensorProto::UINT64, {2}, {7, 4000000000}));
  const Tensor complex = decode(TensorProto::COMPLEX64, [](TensorProto& proto) {
    for (int i = 0; i < 4; ++i) proto.add_float_data(static_cast<float>(i));
  });
  EXPECT_EQ(complex.byte_size(), 16u);
  const Tensor strings = decode(TensorProto::STRING, [](TensorProto& proto) {
    proto.add_string_data(std::string("a"));
    proto.add_string_data(std::string("bc"));
  });
  EXPECT_EQ(strings.strings(), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(tensor_from_proto(tensor_to_proto(strings, "s"), "here"), strings);
  EXPECT_EQ(tensor_from_proto(tensor_to_proto(complex, "c"), "here"), complex);

  EXPECT_THROW(decode(TensorProto::INT8, int32_pair(200, 0)), UserError);
  EXPECT_THROW(decode(TensorProto::FLOAT, int32_pair(1, 1)), UserError);
}

TEST(TensorProtoStorage, BrokenProtosAreRefusedWithThePlace) {
  TensorProto proto;
  proto.set_data_type(TensorProto::FLOAT);
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
  proto.set_data_type(TensorProto::FLOAT);
  proto.set_data_location(TensorProto::EXTERNAL);
  EXPECT_THAT([&] { tensor_from_proto(proto, "here"); }, ThrowsMessage<UserError>(HasSubstr("external")));
}

TEST(Formats, HalfToFloatIsExactForAllPatterns) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const int exponent = static_cast<int>((bits >> 10) & 0x1f);
    const int fraction = static_cast<int>(bits & 0x3ff);
    const float sign = (bits & 0x8000) != 0 ? -1.0f : 1.0f;
    const float value = half_to_float(static_cast<uint16_t>(bits));
    if (exponent == 31 && fraction != 0) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
      continue;
    }
    const float expected = exponent == 31 ? sign * std::numeric_limits<float>::infinity()
                           : exponent == 0
                               ? sign * std::ldexp(static_cast<float>(fraction), -24)
                               : sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << bits;
    ASSERT_EQ(float_to_half(value), bits);
  }
}

/// Rounding against brute force: the nearest of the two neighbours, the even one in the middle.
template <typename ToFloat, typename FromFloat>
void check_rounding(ToFloat to_float, FromFloat from_float, uint16_t largest_finite) {
  for (uint32_t low = 0; low < largest_finite; ++low) {
    const auto lower = static_cast<double>(to_float(static_cast<uint16_t>(low)));
    const auto upper = static_cast<double>(to_float(static_cast<uint16_t>(low + 1)));
    const double middle = (lower + upper) / 2;
    const auto as_float = static_cast<float>(middle);  // exact: float has at least one more bit
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    ASSERT_EQ(from_float(as_float), even) << low;
    ASSERT_EQ(from_float(std::nextafter(as_float, 0.0f)), low) << low;
    ASSERT_EQ(from_float(std::nextafter(as_float, INFINITY)), low + 1) << low;
    ASSERT_EQ(from_float(-as_float), even | 0x8000) << low;
  }
}

TEST(Formats, RoundingToHalfIsNearestEven) {
  check_rounding(half_to_float, float_to_half, 0x7bff);
  EXPECT_EQ(float_to_half(65519.996f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(float_to_half(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(Formats, RoundingToBfloat16IsNearestEven) {
  check_rounding(bfloat16_to_float, float_to_bfloat16, 0x7f7f);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST_F(TensorFiles, NpyAndPbRoundTripOfEveryType) {
  for (const DataType type :
       {TensorProto::BOOL, TensorProto::INT8, TensorProto::INT16, TensorProto::INT32, TensorProto::INT64,
        TensorProto::UINT8, TensorProto::UINT16, TensorProto::UINT32, TensorProto::UINT64,
        TensorProto::FLOAT16, TensorProto::FLOAT, TensorProto::DOUBLE, TensorProto::COMPLEX64,
        TensorProto::COMPLEX128, TensorProto::BFLOAT16}) {
    for (const Shape& shape : {Shape{}, Shape{5}, Shape{2, 3}, Shape{2, 0, 3}}) {
      Tensor tensor(type, shape);
      uint8_t counter = 0;
      for (std::byte& byte : tensor.bytes()) {
        byte = type == TensorProto::BOOL ? std::byte(counter++ & 1) : std::byte(counter++);
      }
      write_tensor_file(path("t.pb"), tensor, "t");
      EXPECT_EQ(read_tensor_file(path("t.pb")), tensor) << data_type_name(type);
      if (type == TensorProto::BFLOAT16) {
        EXPECT_THROW(write_tensor_file(path("t.npy"), tensor, "t"), UserError);
        continue;
      }
      write_tensor_file(path("t.npy"), tensor, "t");
      EXPECT_EQ(read_tensor_file(path("t.npy")), tensor) << data_type_name(type);
    }
  }
}

TEST_F(TensorFiles, NpyVariants) {
  const Tensor expected = Tensor::from_values<int16_t>(TensorProto::INT16, {2, 3}, {1, 2, 3, 4, 5, 6});
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
  EXPECT_EQ(read_tensor_file(both, "two"), Tensor::from_values<uint8_t>(TensorProto::UINT8, {}, {7}));
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
              ThrowsMessage<UserError>(HasSubstr("no such file")));
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
