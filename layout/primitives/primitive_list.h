#pragma once

#include <vector>

#include "layout/moves/move_primitive.h"

/// The primitives that come with Kodama, each in the file of its name or of its family. Equal costs are taken
/// in this order.
namespace kodama::layout {

MovePrimitive copy_primitive();
MovePrimitive matrix_primitive();
MovePrimitive matrix_words_primitive();
MovePrimitive skew_primitive();
MovePrimitive words_primitive();
MovePrimitive deal_mab_primitive();
MovePrimitive all_gather_mab_primitive();
MovePrimitive all_gather_pe_primitive();
MovePrimitive select_primitive();
MovePrimitive swap_l1b_primitive();
MovePrimitive shuffle_l1b_primitive();
MovePrimitive all_gather_l1b_primitive();
MovePrimitive exchange_l2b_primitive();
MovePrimitive all_gather_l2b_primitive();
MovePrimitive spread_l2b_primitive();
MovePrimitive transpose_l2b_primitive();
MovePrimitive collect_primitive();
MovePrimitive broadcast_l1b_primitive();
MovePrimitive deal_primitive();

inline std::vector<MovePrimitive> own_primitives() {
  return {
      copy_primitive(),           matrix_primitive(),         matrix_words_primitive(),
      skew_primitive(),           words_primitive(),          deal_mab_primitive(),
      all_gather_mab_primitive(), all_gather_pe_primitive(),  select_primitive(),
      swap_l1b_primitive(),       shuffle_l1b_primitive(),    all_gather_l1b_primitive(),
      exchange_l2b_primitive(),   all_gather_l2b_primitive(), spread_l2b_primitive(),
      transpose_l2b_primitive(),  collect_primitive(),        broadcast_l1b_primitive(),
      deal_primitive(),
  };
}

}  // namespace kodama::layout
