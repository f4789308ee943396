#include "compiler/graph/operator_checks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace kodama::compiler::rules {

// ------------------------------------------------------------------------------ rules for one operand

Check rank_between(int input, int64_t lowest, int64_t highest) {
  return [=](const NodeOperands& o) {
    const auto rank = o.rank(input);
    if (!rank) return;
    o.require(*rank >= lowest && *rank <= highest, "{} has rank {}; {} is allowed", o.describe(input), *rank,
              lowest == highest ? fmt::format("rank {}", lowest)
                                : fmt::format("a rank from {} to {}", lowest, highest));
  };
}

Check rank_of(int input, int64_t rank) {
  return rank_between(input, rank, rank);
}

Check rank_at_least(int input, int64_t lowest) {
  return [=](const NodeOperands& o) {
    const auto rank = o.rank(input);
    if (rank) {
      o.require(*rank >= lowest, "{} has rank {}; a rank of at least {} is allowed", o.describe(input), *rank,
                lowest);
    }
  };
}

Check same_rank(int input, int other) {
  return [=](const NodeOperands& o) {
    const auto rank = o.rank(input);
    const auto wanted = o.rank(other);
    if (rank && wanted) {
      o.require(*rank == *wanted, "{} has rank {}; rank {}, that of {}, is allowed", o.describe(input), *rank,
                *wanted, o.describe(other));
    }
  };
}

Check extent_is(int input, int64_t axis, int64_t wanted, const char* what) {
  return [=](const NodeOperands& o) {
    const auto extent = o.extent(input, axis);
    if (extent) {
      o.require(*extent == wanted, "axis {} of {} has {} elements; {}, {}, are allowed", axis,
                o.describe(input), *extent, wanted, what);
    }
  };
}

Check same_extent(int input, int64_t axis, int other, int64_t other_axis, const char* what) {
  return [=](const NodeOperands& o) {
    if (const auto wanted = o.extent(other, other_axis)) extent_is(input, axis, *wanted, what)(o);
  };
}

Check one_element(int input) {
  return [=](const NodeOperands& o) {
    const auto size = o.size(input);
    if (size) o.require(*size == 1, "{} has {} elements; one is allowed", o.describe(input), *size);
  };
}

Check list_of_integers(int input) {
  return [=](const NodeOperands& o) {
    rank_between(input, 0, 1)(o);
    const auto type = o.type(input);
    if (type) {
      o.require(*type == DataType::kInt64 || *type == DataType::kInt32, "{} is no list of integers",
                o.describe(input));
    }
  };
}

Check vector_along(int input, int other, int64_t axis) {
  return [=](const NodeOperands& o) {
    rank_of(input, 1)(o);
    const auto size = o.extent(input, 0);
    const auto rank = o.rank(other);
    const auto wanted = rank && *rank > axis ? o.extent(other, axis) : std::nullopt;
    if (size && wanted) {
      o.require(*size == *wanted, "{} has {} elements; {}, as axis {} of {}, are allowed", o.describe(input),
                *size, *wanted, axis, o.describe(other));
    }
  };
}

Check extents_operand(int input) {
  return [=](const NodeOperands& o) {
    rank_of(input, 1)(o);
    if (const auto extents = o.integers(input)) check_extents(o, *extents, 0, o.describe(input));
  };
}

bool broadcasts_to(const Shape& from, const Shape& to) {
  if (from.size() > to.size()) return false;
  for (size_t k = 1; k <= from.size(); ++k) {
    if (from[from.size() - k] != 1 && from[from.size() - k] != to[to.size() - k]) return false;
  }
  return true;
}

Check broadcasts_to_input(int input, int other) {
  return [=](const NodeOperands& o) {
    const auto from = o.shape(input);
    const auto to = o.shape(other);
    if (from && to) {
      o.require(broadcasts_to(*from, *to),
                "{} can't be broadcast to {}; 1 or the same extent is allowed "
                "on each axis, counted from the last",
                o.describe(input), o.describe(other));
    }
  };
}

void check_broadcast(const NodeOperands& o) {
  if (o.since_version() < 7) return;
  Shape result;
  int widest = 0;
  for (int i = 0; i < o.input_count(); ++i) {
    const auto shape = o.shape(i);
    if (!shape) return;
    if (shape->size() > result.size()) {
      result.insert(result.begin(), shape->size() - result.size(), 1);
      widest = i;
    }
    for (size_t k = 1; k <= shape->size(); ++k) {
      int64_t& extent = result[result.size() - k];
      const int64_t own = (*shape)[shape->size() - k];
      o.require(extent == own || extent == 1 || own == 1,
                "{} and {} can't be broadcast together: 1 or the same extent is allowed on each axis, "
                "counted from the last",
                o.describe(i == widest ? 0 : widest), o.describe(i));
      if (extent == 1) extent = own;
    }
  }
}

// --------------------------------------------------------------------------------- rules for attributes

Check one_of(const char* name, std::vector<std::string> allowed) {
  return [=](const NodeOperands& o) {
    const auto value = o.text(name);
    if (!value) return;
    o.require(std::find(allowed.begin(), allowed.end(), *value) != allowed.end(),
              "attribute {} is '{}'; allowed are {}", name, *value, fmt::join(allowed, ", "));
  };
}

Check integer_between(const char* name, int64_t lowest, int64_t highest) {
  return [=](const NodeOperands& o) {
    const auto value = o.integer(name);
    if (value) {
      o.require(*value >= lowest && *value <= highest, "attribute {} is {}; {} to {} is allowed", name,
                *value, lowest, highest);
    }
  };
}

Check positive(const char* name) {
  return integer_between(name, 1, kLargestParameter - 1);
}

Check flag(const char* name) {
  return integer_between(name, 0, 1);
}

Check element_type(const char* name) {
  return [=](const NodeOperands& o) {
    const auto value = o.integer(name);
    if (!value) return;
    o.require(*value > 0 && is_data_type(static_cast<int>(std::clamp<int64_t>(*value, -1, 1 << 20))),
              "attribute {} is {}, which is no element type of ONNX", name, *value);
  };
}

Check axis(const char* name, int input, int64_t beyond) {
  return [=](const NodeOperands& o) {
    const auto value = o.integer(name);
    const auto rank = o.rank(input);
    if (value && rank) {
      const int64_t end = *rank + beyond;
      o.require(*value >= -end && *value < end, "attribute {} is {}; {} has rank {}, so {} to {} is allowed",
                name, *value, o.describe(input), *rank, -end, end - 1);
    }
  };
}

Check axes(int input) {
  return [=](const NodeOperands& o) {
    const auto rank = o.rank(0);
    if (!rank) return;
    if (const auto values = o.integers("axes")) check_axes(o, *values, *rank, "attribute axes");
    if (input < 0) return;
    if (const auto values = o.integers(input)) check_axes(o, *values, *rank, o.describe(input));
  };
}

Check extents_attribute(const char* name) {
  return [=](const NodeOperands& o) {
    const auto extents = o.integers(name);
    if (extents) check_extents(o, *extents, 0, fmt::format("attribute {}", name));
  };
}

// ------------------------------------------------------------------------------------- values and shapes

IntegerList list_of(const NodeOperands& o, const char* attribute, int input) {
  if (!o.has(input)) return {o.integers(attribute), fmt::format("attribute {}", attribute)};
  list_of_integers(input)(o);
  return {o.integers(input), o.describe(input)};
}

std::optional<int64_t> extent_along(const NodeOperands& o, int input, int64_t axis) {
  const auto rank = o.rank(input);
  return rank ? o.extent(input, axis < 0 ? axis + *rank : axis) : std::nullopt;
}

void check_extents(const NodeOperands& o, const std::vector<int64_t>& values, int64_t lowest,
                   const std::string& what) {
  for (int64_t value : values) {
    o.require(value >= lowest && value <= kMaxTensorElements, "{} holds {}; {} to {} is allowed", what, value,
              lowest, kMaxTensorElements);
  }
}

void check_one_per_axis(const NodeOperands& o, std::optional<int64_t> count, int input,
                        const std::string& what) {
  const auto rank = o.rank(input);
  if (!count || !rank) return;
  o.require(*count == *rank, "{} has {} elements; {}, one for each axis of {}, are allowed", what, *count,
            *rank, o.describe(input));
}

void check_same_shape(const NodeOperands& o, int input, int other) {
  const auto own = o.shape(input);
  const auto wanted = o.shape(other);
  if (own && wanted) {
    o.require(*own == *wanted, "{} and {} must have the same shape", o.describe(input), o.describe(other));
  }
}

void check_axes(const NodeOperands& o, const std::vector<int64_t>& values, int64_t rank,
                const std::string& what) {
  std::set<int64_t> seen;
  for (int64_t value : values) {
    o.require(value >= -rank && value < rank, "{} holds {}; {} to {} is allowed for rank {}", what, value,
              -rank, rank - 1, rank);
    o.require(seen.insert(value < 0 ? value + rank : value).second, "{} holds axis {} twice", what, value);
  }
}

}  // namespace kodama::compiler::rules
