#include <algorithm>

#include "compiler/graph/operator_checks.h"

namespace kodama::compiler::rules {

namespace {

void check_reshape(const NodeOperands& o) {
  const auto [wanted, what] = list_of(o, "shape", 1);
  const auto rank = o.rank(0);
  if (!wanted) return;
  const bool zero_is_zero = o.integer("allowzero").value_or(0) != 0;
  int64_t known = 1;
  int open = 0;
  bool all_known = true;
  for (size_t k = 0; k < wanted->size(); ++k) {
    int64_t extent = (*wanted)[k];
    o.require(extent >= -1, "{} holds {}; -1, 0 and positive extents are allowed", what, extent);
    if (extent == -1) {
      o.require(++open == 1, "{} is {}: more than one -1", what, shape_to_string(*wanted));
      continue;
    }
    if (extent == 0 && !zero_is_zero) {
      if (!rank) {
        all_known = false;
        continue;
      }
      o.require(static_cast<int64_t>(k) < *rank, "{} is {}: a 0 copies axis {}, but {} has rank {}", what,
                shape_to_string(*wanted), k, o.describe(0), *rank);
      const auto own = o.extent(0, static_cast<int64_t>(k));
      if (!own) {
        all_known = false;
        continue;
      }
      extent = *own;
    }
    o.require(!__builtin_mul_overflow(known, extent, &known), "{} is {}, which is too large", what,
              shape_to_string(*wanted));
  }
  o.require(open == 0 || !zero_is_zero || std::find(wanted->begin(), wanted->end(), 0) == wanted->end(),
            "{} is {}: -1 and, with allowzero, 0 exclude each other", what, shape_to_string(*wanted));
  const auto size = o.size(0);
  if (!size || !all_known) return;
  const bool fits = open == 0 ? known == *size : known == 0 ? *size == 0 : *size % known == 0;
  o.require(fits && !(open == 1 && known == 0), "{} has {} elements; they can't be reshaped to {}",
            o.describe(0), *size, shape_to_string(*wanted));
}

void check_squeeze(const NodeOperands& o) {
  const auto rank = o.rank(0);
  const auto [values, what] = list_of(o, "axes", 1);
  if (!rank || !values) return;
  check_axes(o, *values, *rank, what);
  for (int64_t value : *values) {
    const auto extent = extent_along(o, 0, value);
    if (extent) {
      o.require(*extent == 1, "axis {} of {} is squeezed, but has {} elements; 1 is allowed", value,
                o.describe(0), *extent);
    }
  }
}

void check_unsqueeze(const NodeOperands& o) {
  const auto rank = o.rank(0);
  const auto [values, what] = list_of(o, "axes", 1);
  if (rank && values) check_axes(o, *values, *rank + static_cast<int64_t>(values->size()), what);
}

void check_transpose(const NodeOperands& o) {
  const auto rank = o.rank(0);
  const auto perm = o.integers("perm");
  if (!rank || !perm) return;
  std::vector<int64_t> sorted = *perm;
  std::sort(sorted.begin(), sorted.end());
  bool fits = static_cast<int64_t>(sorted.size()) == *rank;
  for (size_t k = 0; fits && k < sorted.size(); ++k) fits = sorted[k] == static_cast<int64_t>(k);
  o.require(fits, "attribute perm is {}; a permutation of the {} axes of {} is allowed",
            shape_to_string(*perm), *rank, o.describe(0));
}

void check_concat(const NodeOperands& o) {
  const auto first = o.rank(0);
  if (!first) return;
  rank_at_least(0, 1)(o);
  axis("axis")(o);
  int64_t at = o.integer("axis").value_or(1);
  if (at < 0) at += *first;
  o.require(at < *first, "attribute axis is {}, {} has rank {}", at, o.describe(0), *first);
  for (int i = 1; i < o.input_count(); ++i) {
    same_rank(i, 0)(o);
    if (!o.rank(i)) continue;
    for (int64_t k = 0; k < *first; ++k) {
      const auto own = o.extent(i, k);
      const auto other = o.extent(0, k);
      if (k == at || !own || !other) continue;
      o.require(*own == *other, "{} and {} differ on axis {}, along which they aren't joined", o.describe(0),
                o.describe(i), k);
    }
  }
}

void check_split(const NodeOperands& o) {
  if (o.since_version() < 2) return;  // the sizes have the type of the data
  rank_at_least(0, 1)(o);
  axis("axis")(o);
  const auto parts = list_of(o, "split", 1).values;
  if (!o.rank(0)) return;
  const int64_t at = o.integer("axis").value_or(0);
  const auto extent = extent_along(o, 0, at);
  const auto outputs = o.node().output_size();
  if (parts) {
    o.require(static_cast<int>(parts->size()) == outputs, "{} parts are given for {} outputs", parts->size(),
              outputs);
    int64_t sum = 0;
    for (int64_t part : *parts) {
      o.require(part >= 0 && part <= kMaxTensorElements, "a part has {} elements; 0 to {} is allowed", part,
                kMaxTensorElements);
      sum += part;
    }
    if (extent) {
      o.require(sum == *extent, "the parts have {} elements together; axis {} of {} has {}", sum, at,
                o.describe(0), *extent);
    }
  } else if (extent && !o.has(1)) {
    o.require(outputs > 0 && *extent % outputs == 0, "axis {} of {} can't be split into {} equal parts", at,
              o.describe(0), outputs);
  }
}

void check_pad(const NodeOperands& o) {
  one_of("mode", {"constant", "edge", "reflect"})(o);
  one_element(2)(o);
  const auto pads = list_of(o, o.has_attribute("paddings") ? "paddings" : "pads", 1).values;
  const auto rank = o.rank(0);
  if (!rank || !pads) return;
  o.require(static_cast<int64_t>(pads->size()) == 2 * *rank,
            "{} pads are given; {}, two for each axis of {}, are allowed", pads->size(), 2 * *rank,
            o.describe(0));
  for (int64_t k = 0; k < *rank; ++k) {
    const auto at = static_cast<size_t>(k);
    for (int64_t pad : {(*pads)[at], (*pads)[at + static_cast<size_t>(*rank)]}) {
      o.require(pad > -kLargestParameter && pad < kLargestParameter, "a pad of {}; less than 2^31 is allowed",
                pad);
    }
    const auto extent = o.extent(0, k);
    if (!extent || *extent >= kLargestParameter) continue;
    const int64_t result = *extent + (*pads)[at] + (*pads)[at + static_cast<size_t>(*rank)];
    o.require(result >= 0, "axis {} of {} would have {} elements after padding", k, o.describe(0), result);
  }
}

void check_tile(const NodeOperands& o) {
  if (o.since_version() < 6) return;  // other operands
  list_of_integers(1)(o);
  check_one_per_axis(o, o.size(1), 0, o.describe(1));
  if (const auto repeats = o.integers(1)) check_extents(o, *repeats, 0, o.describe(1));
}

void check_expand(const NodeOperands& o) {
  extents_operand(1)(o);
  const auto from = o.shape(0);
  const auto to = o.integers(1);
  if (!from || !to) return;
  for (size_t k = 1; k <= std::min(from->size(), to->size()); ++k) {
    const int64_t own = (*from)[from->size() - k];
    const int64_t wanted = (*to)[to->size() - k];
    o.require(own == wanted || own == 1 || wanted == 1, "{} can't be broadcast to {}", o.describe(0),
              shape_to_string(*to));
  }
}

void check_depth_to_space(const NodeOperands& o) {
  rank_of(0, 4)(o);
  positive("blocksize")(o);
  one_of("mode", {"DCR", "CRD"})(o);
  const auto channels = o.extent(0, 1);
  const int64_t block = o.integer("blocksize").value_or(1);
  int64_t area = 0;
  if (channels) {
    o.require(!__builtin_mul_overflow(block, block, &area) && *channels % area == 0,
              "{} has {} channels; a multiple of {}, the square of blocksize, is allowed", o.describe(0),
              *channels, area);
  }
}

void check_space_to_depth(const NodeOperands& o) {
  rank_of(0, 4)(o);
  positive("blocksize")(o);
  const int64_t block = o.integer("blocksize").value_or(1);
  if (!o.rank(0)) return;
  for (int64_t k : {2, 3}) {
    const auto extent = o.extent(0, k);
    if (extent) {
      o.require(*extent % block == 0,
                "axis {} of {} has {} elements; a multiple of {}, the blocksize, is allowed", k,
                o.describe(0), *extent, block);
    }
  }
}

void check_flatten(const NodeOperands& o) {
  integer_between("axis", -kLargestParameter, kLargestParameter)(o);
  const auto rank = o.rank(0);
  const int64_t value = o.integer("axis").value_or(1);
  if (rank) {
    o.require(value >= -*rank && value <= *rank, "attribute axis is {}; {} to {} is allowed for {}", value,
              -*rank, *rank, o.describe(0));
  }
}

}  // namespace

void add_shape_rules(RuleTable& rules) {
  rules["Reshape"] = {{check_reshape}, {1}};
  rules["Flatten"] = {{check_flatten}};
  rules["Squeeze"] = {{check_squeeze}, {1}};
  rules["Unsqueeze"] = {{check_unsqueeze}, {1}};
  rules["Transpose"] = {{check_transpose}};
  rules["Concat"] = {{check_concat}};
  rules["Split"] = {{check_split}, {1}};
  rules["Pad"] = {{check_pad}, {1}};
  rules["Expand"] = {{check_expand}, {1}};
  rules["Tile"] = {{check_tile}, {1}};
  rules["DepthToSpace"] = {{check_depth_to_space}};
  rules["SpaceToDepth"] = {{check_space_to_depth}};
}

}  // namespace kodama::compiler::rules
