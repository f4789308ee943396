#pragma once

#include <string>

#include "compiler/kernels/kernel.h"

/// Images, known by where their words are and not by how a kernel describes that.
namespace kodama::compiler {

/// Two placements of a tensor with one key are the same words at the same places.
std::string key_of(const StreamPlacement& placement);

/// Without the dims of the iteration space that say nothing of the image, such as the columns of the other
/// factor of a product: what is left is the same for every product with this operand in this place.
StreamPlacement essential(const StreamPlacement& placement);

}  // namespace kodama::compiler
