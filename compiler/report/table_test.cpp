#include "compiler/report/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace kodama::compiler {
namespace {

std::string within(size_t width) {
  Table table({"layer", "operators", "steps", "cycles"});
  table.add({"conv1", "Conv+Relu", "12", "480"});
  table.add({"fc", "Gemm", "3", "99"});
  table.rule();
  table.add({"total", "", "15", "579"});
  table.leave_out_first({"steps", "operators", "no such"});
  std::ostringstream out;
  table.print_within(width, out, 2, SIZE_MAX);
  return out.str();
}

TEST(Table, HasAllColumnsWhereThereIsRoom) {
  EXPECT_EQ(within(31),
            "layer  operators  steps  cycles\n"
            "-------------------------------\n"
            "conv1  Conv+Relu     12     480\n"
            "fc     Gemm           3      99\n"
            "-------------------------------\n"
            "total                15     579\n");
}

TEST(Table, LeavesOutWhatMattersLeast) {
  EXPECT_EQ(within(30),
            "layer  operators  cycles\n"
            "------------------------\n"
            "conv1  Conv+Relu     480\n"
            "fc     Gemm           99\n"
            "------------------------\n"
            "total                579\n"
            "left out, for 30 columns: steps (--wide)\n");
  for (const size_t width : {13, 1}) {
    EXPECT_EQ(within(width),
              "layer  cycles\n"
              "-------------\n"
              "conv1     480\n"
              "fc         99\n"
              "-------------\n"
              "total     579\n"
              "left out, for " +
                  std::to_string(width) + " columns: steps, operators (--wide)\n");
  }
}

}  // namespace
}  // namespace kodama::compiler
