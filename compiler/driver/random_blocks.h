#pragma once

#include "compiler/driver/random_nodes.h"

/// Blocks of well-known networks, for random models. Private to compiler/driver.
namespace kodama::compiler {

/// As in ResNet, MobileNet, squeeze-and-excitation, GoogLeNet: on a picture [N, C, H, W].
void add_picture_block(RandomNodes& nodes);
/// Attention as PyTorch exports it: [batch, tokens, features], or tokens first and heads beside the batch.
void add_attention(RandomNodes& nodes);
/// The other half of a transformer's layer.
void add_feed_forward(RandomNodes& nodes);
/// Normalizations and activations as chains of operators.
void add_chain(RandomNodes& nodes);

}  // namespace kodama::compiler
