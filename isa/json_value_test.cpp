#include "isa/json_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kodama::isa {
namespace {

template <typename Read>
std::string error_of(const char* text, Read&& read) {
  try {
    const Json json = parse_json(text, "f.json");
    read(JsonValue(json, "f.json"));
  } catch (const UserError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(JsonValue, ErrorsSayWhere) {
  const auto nothing = [](const JsonValue&) {};
  EXPECT_EQ(error_of("{\n \"a\": }", nothing), "f.json:2:7: found no valid JSON here");
  EXPECT_EQ(error_of(R"({"a": 1, "a": 2})", nothing), "f.json: found 'a' twice in one object, allowed: once");
  EXPECT_THAT(error_of(std::string(100, '[').c_str(), nothing), ::testing::HasSubstr("levels"));

  const auto read = [](const JsonValue& file) {
    file.allow({"list", "kind"});
    file.for_each("list", [](const JsonValue& each) { (void)each.at("n").small_integer(); });
    (void)file.at("kind").one_of<bool>(std::array{"no", "yes"});
  };
  EXPECT_EQ(error_of("[]", read), "f.json: found [], allowed: an object");
  EXPECT_EQ(error_of("{}", read), "f.json: the file has no 'kind'");
  EXPECT_EQ(error_of(R"({"x": 1})", read), "f.json: the file: found 'x', allowed: list, kind");
  EXPECT_EQ(error_of(R"({"list": 1})", read), "f.json: list: found 1, allowed: a list");
  EXPECT_EQ(error_of(R"({"list": [{"n": 1}, {}]})", read), "f.json: list[1] has no 'n'");
  EXPECT_EQ(error_of(R"({"list": [{"n": 2147483648}]})", read),
            "f.json: list[0].n: found 2147483648, allowed: an integer of 32 bits");
  EXPECT_EQ(error_of(R"({"kind": "maybe"})", read), R"(f.json: kind: found "maybe", allowed: "no", "yes")");
  EXPECT_EQ(error_of(R"({"list": [{"n": -1}], "kind": "yes"})", read), "nothing");
}

TEST(JsonValue, IntegersHaveLimits) {
  const auto read = [](const JsonValue& value) { (void)value.integer(); };
  EXPECT_EQ(error_of("4611686018427387903", read), "nothing");
  EXPECT_EQ(error_of("-4611686018427387904", read), "nothing");
  for (const char* text :
       {"4611686018427387904", "-4611686018427387905", "18446744073709551615", "1e3", "\"1\""})
    EXPECT_THAT(error_of(text, read), ::testing::HasSubstr("allowed: an integer of 63 bits")) << text;
  EXPECT_EQ(error_of("7", [](const JsonValue& value) { (void)value.integer(0, 6); }),
            "f.json: found 7, allowed: an integer from 0 to 6");
}

}  // namespace
}  // namespace kodama::isa
