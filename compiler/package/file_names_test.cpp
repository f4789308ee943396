#include "compiler/package/file_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kodama::compiler {
namespace {

using ::testing::ElementsAre;

TEST(FileNames, AreDifferentForDifferentNames) {
  EXPECT_THAT(distinct_file_stems({"a/b", "a_b", "a:b", "a/b"}),
              ElementsAre("a_b.2", "a_b", "a_b.3", "a_b.2"));
  EXPECT_THAT(distinct_file_stems({"a/b", "a:b", "a_b.2"}), ElementsAre("a_b", "a_b.3", "a_b.2"));
  const std::string common(1000, 'x');
  const std::vector<std::string> stems = distinct_file_stems({common + "1", common + "2", common});
  EXPECT_THAT(stems,
              ElementsAre(std::string(190, 'x'), std::string(190, 'x') + ".2", std::string(190, 'x') + ".3"));
  EXPECT_THAT(distinct_file_stems({"..", "", "\x1b[1m"}), ElementsAre("..", "", "__1m"));
}

}  // namespace
}  // namespace kodama::compiler
