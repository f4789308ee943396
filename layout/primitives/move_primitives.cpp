#include "layout/primitives/move_primitives.h"

#include <utility>

#include "layout/moves/move_proposals.h"
#include "layout/primitives/primitive_list.h"
#include "passes/registry.h"

namespace kodama::layout {
namespace {

constexpr std::string_view kKind = "move primitive";

passes::Registry<MovePrimitive>& registry() {
  static passes::Registry<MovePrimitive> all(std::string(kKind), own_primitives(),
                                             [](const MovePrimitive& primitive) {
                                               using Fault = std::pair<std::string, std::string>;
                                               if (!primitive.propose)
                                                 return Fault{"without proposals", "`propose` is set"};
                                               if (!primitive.emit)
                                                 return Fault{"without code", "`emit` is set"};
                                               return Fault{};
                                             });
  return all;
}

}  // namespace

const std::vector<MovePrimitive>& move_primitives() {
  return registry().all();
}
const MovePrimitive& find_move_primitive(std::string_view name) {
  return registry().find(name);
}
void register_pass(MovePrimitive primitive) {
  registry().add(std::move(primitive));
}

std::vector<Move> moves_from(const BitView& view, const SlotState& state, const SlotState& goal) {
  MoveProposals proposals(view, state, goal);
  for (const MovePrimitive& each : move_primitives()) proposals.ask(each);
  return proposals.take();
}

MoveNeeds needs_of(const BitView& view, const Move& move) {
  MoveNeeds needs;
  if (!move.primitive->needs) return needs;
  passes::run_blaming(kKind, *move.primitive, [&] { needs = move.primitive->needs(view, move); });
  return needs;
}

void emit_move(const BitView& view, const Move& move, const MoveAddresses& at, Code& code) {
  passes::run_blaming(kKind, *move.primitive, [&] { move.primitive->emit(view, move, at, code); });
}

}  // namespace kodama::layout
