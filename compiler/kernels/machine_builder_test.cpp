#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/kernels/lowering.h"
#include "isa/error.h"
#include "scheduler/machine/machine_program.h"

namespace kodama::compiler {
namespace {

TEST(MachineBuilder, SharesConstantsAndChecksNesting) {
  MachineBuilder builder(isa::find_chip("tiny"), "p");
  builder.begin_region("layer");
  builder.begin_loop(3);
  EXPECT_EQ(builder.depth(), 1);
  const int one = builder.constant_float(1.0F);
  EXPECT_EQ(builder.constant_float(1.0F), one);
  EXPECT_NE(builder.constant_float(2.0F), one);
  TileIndex at;
  at.strides = {2};
  builder.begin_loop(2);
  EXPECT_THAT(builder.loop_strides(at, 2, {8}), ::testing::ElementsAre(4, 8));
  EXPECT_THROW(builder.loop_strides({0, {1, 1}}, 2, {8}), isa::InternalError);
  builder.end_loop();
  EXPECT_THROW(builder.finish(), isa::InternalError);
  builder.end_loop();
  builder.end_region();
  const scheduler::MachineProgram program = builder.finish();
  const auto& region = std::get<scheduler::RegionNode>(program.body.at(0).kind);
  EXPECT_EQ(std::get<scheduler::Block>(region.body.at(0).kind).operations.size(), 2U);
}

}  // namespace
}  // namespace kodama::compiler
