#pragma once

#include <string_view>
#include <vector>

#include "layout/moves/move_primitive.h"

/// All move primitives, Kodama's own and those of plugins.
namespace kodama::layout {

/// In the order of documentation, which is also that in which the search finds them.
const std::vector<MovePrimitive>& move_primitives();
/// UserError listing the names when there is none of this name.
const MovePrimitive& find_move_primitive(std::string_view name);
/// Before the first search: moves point to their primitives.
void register_pass(MovePrimitive primitive);

/// What a search can do next on its way to `goal`: the bits that belong into a slot are brought there, others
/// fill up.
std::vector<Move> moves_from(const BitView& view, const SlotState& state, const SlotState& goal);

MoveNeeds needs_of(const BitView& view, const Move& move);
/// Blames the plugin whose primitive can't.
void emit_move(const BitView& view, const Move& move, const MoveAddresses& at, Code& code);

}  // namespace kodama::layout
