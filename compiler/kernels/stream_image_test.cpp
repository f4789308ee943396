#include "compiler/streams/stream_image.h"

#include <gtest/gtest.h>

#include "isa/chip.h"

namespace kodama::compiler {
namespace {

TEST(StreamImage, ConvertsElementTypes) {
  const isa::Chip chip = isa::find_chip("tiny");
  StreamPlacement placement;
  placement.extents = {5};
  placement.access.map = AffineMap::identity(1);
  placement.axis_dims = {{0}};
  placement.layout = layout::Layout::parse("((4_PE:1, 2_W:1))@LM0");
  placement.layout.set_padding(layout::Padding::kMinusInfinity);
  placement.transport = {chip, layout::L2bMode::kBroadcast, layout::L1bMode::kBroadcast,
                         layout::MabMode::kBroadcastMab};
  placement.length_lw = placement.transport.granule();
  Tensor halves(DataType::kFloat16, {5});
  for (size_t i = 0; i < 5; ++i) halves.data<uint16_t>()[i] = float_to_half(static_cast<float>(i) - 1.5F);
  const StreamImage image = pack_stream(placement, halves, chip);
  EXPECT_EQ(image.groups[0][2], 0x40200000'ff800000U);  // 2.5, then padding
  EXPECT_TRUE(image.groups[1].empty());
  Tensor back(DataType::kFloat16, {5});
  unpack_stream(placement, image, back, chip);
  EXPECT_EQ(back, halves);

  const auto ones =
      Tensor::from_values<float>(DataType::kFloat32, {5}, {1 + 0x1p-11F + 0x1p-20F, 1 + 0x1p-11F, 0, 0, 0});
  placement.element = StreamElement::kHalf;
  placement.layout = layout::Layout::parse("((2_PE:1, 4_W:1))@LM0");
  placement.layout.set_padding(layout::Padding::kMinusInfinity);
  const StreamImage packed = pack_stream(placement, ones, chip);
  EXPECT_EQ(packed.groups[0][0], 0x3e00'3e00'0000'0000U);
  EXPECT_EQ(packed.groups[0][1], 0x0000'fe00'fe00'fe00U);
}

}  // namespace
}  // namespace kodama::compiler
