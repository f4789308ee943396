#include "compiler/graph/operator_rules.h"

#include <fmt/ranges.h>
#include <onnx/defs/data_type_utils.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <unordered_map>

#include "compiler/graph/onnx_model.h"
#include "compiler/reference/matmul.h"

namespace kodama::compiler {

namespace {

using Check = std::function<void(const NodeOperands&)>;
using Checks = std::vector<Check>;

/// Keeps products and sums of window parameters far from overflow.
constexpr int64_t kLargestParameter = int64_t{1} << 31;

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
/// A scalar, or a list of one.
Check one_element(int input) {
  return [=](const NodeOperands& o) {
    const auto size = o.size(input);
    if (size) o.require(*size == 1, "{} has {} elements; one is allowed", o.describe(input), *size);
  };
}
/// A list of integers, or a scalar.
Check list_of_integers(int input) {
  return [=](const NodeOperands& o) {
    rank_between(input, 0, 1)(o);
    const auto type = o.type(input);
    if (type) {
      o.require(*type == onnx::TensorProto_DataType_INT64 || *type == onnx::TensorProto_DataType_INT32,
                "{} is no list of integers", o.describe(input));
    }
  };
}
/// A vector with as many elements as `other` has along `axis`.
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
/// Broadcasting that must not make `to` larger.
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
/// All operands broadcast against each other (since opset 7, in the operators that broadcast differently
/// before).
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
/// An element type.
Check element_type(const char* name) {
  return [=](const NodeOperands& o) {
    const auto value = o.integer(name);
    if (!value) return;
    o.require(*value > 0 && onnx::TensorProto_DataType_IsValid(
                                static_cast<int>(std::clamp<int64_t>(*value, -1, 1 << 20))),
              "attribute {} is {}, which is no element type of ONNX", name, *value);
  };
}
/// An axis of `input`, counted from either end; `beyond` more are allowed.
Check axis(const char* name, int input = 0, int64_t beyond = 0) {
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

/// Axes of a tensor of this rank, each at most once. `what` names the list in messages.
void check_axes(const NodeOperands& o, const std::vector<int64_t>& values, int64_t rank,
                const std::string& what) {
  std::set<int64_t> seen;
  for (int64_t value : values) {
    o.require(value >= -rank && value < rank, "{} holds {}; {} to {} is allowed for rank {}", what, value,
              -rank, rank - 1, rank);
    o.require(seen.insert(value < 0 ? value + rank : value).second, "{} holds axis {} twice", what, value);
  }
}
/// The axes of a Reduce and the like: an attribute, or a constant operand since some opset.
Check axes(int input = 1) {
  return [=](const NodeOperands& o) {
    const auto rank = o.rank(0);
    if (!rank) return;
    if (const auto values = o.integers("axes")) check_axes(o, *values, *rank, "attribute axes");
    if (input < 0) return;
    if (const auto values = o.integers(input)) check_axes(o, *values, *rank, o.describe(input));
  };
}

// ------------------------------------------------------------------------------ relations of operators

/// Windows of Conv and the pools: x is the data, w the filter or -1.
struct WindowRule {
  int x = 0;
  int w = -1;
  bool transposed = false;

  void operator()(const NodeOperands& o) const {
    one_of("auto_pad", {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"})(o);
    rank_at_least(x, 3)(o);
    if (w >= 0) same_rank(w, x)(o);
    const auto rank = o.rank(x);
    const auto given = o.integers("kernel_shape");
    const auto stated = [&](const char* name, size_t count, int64_t lowest) {
      const auto values = o.integers(name);
      if (!values) return Shape();
      o.require(!rank || values->size() == count, "attribute {} has {} values; {} are needed for {}", name,
                values->size(), count, o.describe(x));
      for (int64_t value : *values) {
        o.require(value >= lowest && value < kLargestParameter,
                  "attribute {} holds {}; {} to 2^31-1 is allowed", name, value, lowest);
      }
      return *values;
    };
    const size_t spatial = rank ? static_cast<size_t>(*rank) - 2 : 0;
    Shape kernel = stated("kernel_shape", spatial, 1);
    Shape strides = stated("strides", spatial, 1);
    Shape dilations = stated("dilations", spatial, 1);
    Shape pads = stated("pads", 2 * spatial, 0);
    stated("output_padding", spatial, 0);
    stated("output_shape", spatial, 1);
    if (!rank) return;
    if (w >= 0 && o.rank(w)) {
      Shape filter;
      for (size_t k = 0; k < spatial; ++k) {
        const auto extent = o.extent(w, static_cast<int64_t>(k) + 2);
        if (!extent) return;
        o.require(*extent >= 1, "{} is an empty filter", o.describe(w));
        filter.push_back(*extent);
      }
      o.require(kernel.empty() || kernel == filter, "attribute kernel_shape is {}, but {} has extents {}",
                shape_to_string(kernel), o.describe(w), shape_to_string(filter));
      kernel = filter;
    }
    if (kernel.empty()) return;
    check_window_size(o, kernel);
    if (strides.empty()) strides.assign(spatial, 1);
    if (dilations.empty()) dilations.assign(spatial, 1);
    if (pads.empty()) pads.assign(2 * spatial, 0);
    const std::string auto_pad = o.text("auto_pad").value_or("NOTSET");
    if (auto_pad == "VALID") pads.assign(2 * spatial, 0);
    const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
    for (size_t k = 0; k < spatial; ++k) {
      const auto extent = o.extent(x, static_cast<int64_t>(k) + 2);
      const int64_t reach = (kernel[k] - 1) * dilations[k] + 1;
      if (!extent || same || transposed) continue;
      const int64_t room = std::min(*extent, kLargestParameter) + pads[k] + pads[spatial + k];
      o.require(room >= reach,
                "the kernel reaches over {} elements of spatial axis {}, but {} has {} there{}", reach, k,
                o.describe(x), *extent, room == *extent ? "" : fmt::format(" ({} with pads)", room));
    }
  }

  static void check_window_size(const NodeOperands& o, const Shape& kernel) {
    int64_t elements = 1;
    for (int64_t extent : kernel) {
      o.require(!__builtin_mul_overflow(elements, extent, &elements) && elements <= kMaxTensorElements,
                "the kernel is {}; a window of at most {} elements is allowed", shape_to_string(kernel),
                kMaxTensorElements);
    }
  }
};

/// Channels and groups of a convolution. `transposed`: the filter is [C, M / group, ...].
struct ChannelRule {
  int x = 0;
  int w = 1;
  int bias = 2;
  bool transposed = false;

  void operator()(const NodeOperands& o) const {
    positive("group")(o);
    const int64_t group = o.integer("group").value_or(1);
    if (!o.rank(x) || !o.rank(w)) return;
    const auto channels = o.extent(x, 1);
    const auto first = o.extent(w, 0);
    const auto second = o.extent(w, 1);
    if (!channels || !first || !second) return;
    if (transposed) {
      o.require(*channels == *first, "{} has {} channels, {} is for {}", o.describe(x), *channels,
                o.describe(w), *first);
    } else {
      int64_t expected = 0;
      o.require(!__builtin_mul_overflow(*second, group, &expected) && *channels == expected,
                "{} has {} channels, {} is for {} in each of {} groups", o.describe(x), *channels,
                o.describe(w), *second, group);
    }
    o.require(*first % group == 0, "axis 0 of {} isn't a multiple of attribute group, which is {}",
              o.describe(w), group);
    if (bias < 0 || !o.has(bias)) return;
    rank_of(bias, 1)(o);
    int64_t outputs = *first;
    if (transposed && __builtin_mul_overflow(*second, group, &outputs)) return;
    if (const auto size = o.extent(bias, 0)) {
      o.require(*size == outputs, "{} has {} elements; {}, the number of output channels, are allowed",
                o.describe(bias), *size, outputs);
    }
  }
};

void check_matmul(const NodeOperands& o, int a, int b) {
  rank_at_least(a, 1)(o);
  rank_at_least(b, 1)(o);
  auto left = o.shape(a);
  auto right = o.shape(b);
  if (!left || !right) return;
  if (left->size() == 1) left->insert(left->begin(), 1);
  if (right->size() == 1) right->push_back(1);
  const auto fits = [&] {
    if (left->back() != (*right)[right->size() - 2]) return false;
    for (size_t k = 3; k <= std::min(left->size(), right->size()); ++k) {
      const int64_t l = (*left)[left->size() - k];
      const int64_t r = (*right)[right->size() - k];
      if (l != r && l != 1 && r != 1) return false;
    }
    return true;
  };
  o.require(fits(),
            "{} times {}: the last axis of the first must be as long as the last but one of the second, and "
            "the axes before them must broadcast",
            o.describe(a), o.describe(b));
}
Check matmul(int a, int b) {
  return [=](const NodeOperands& o) { check_matmul(o, a, b); };
}

void check_gemm(const NodeOperands& o) {
  rank_of(0, 2)(o);
  rank_of(1, 2)(o);
  rank_between(2, 0, 2)(o);
  const auto a = o.shape(0);
  const auto b = o.shape(1);
  if (!a || !b) return;
  const bool transpose_a = o.integer("transA").value_or(0) != 0;
  const bool transpose_b = o.integer("transB").value_or(0) != 0;
  o.require((*a)[transpose_a ? 0 : 1] == (*b)[transpose_b ? 1 : 0],
            "{}{} times {}{}: the inner extents {} and {} differ", o.describe(0),
            transpose_a ? " transposed" : "", o.describe(1), transpose_b ? " transposed" : "",
            (*a)[transpose_a ? 0 : 1], (*b)[transpose_b ? 1 : 0]);
  const Shape result{(*a)[transpose_a ? 1 : 0], (*b)[transpose_b ? 0 : 1]};
  if (const auto c = o.shape(2); c && o.since_version() >= 7) {
    o.require(broadcasts_to(*c, result), "{} can't be broadcast to the product, which is {}", o.describe(2),
              shape_to_string(result));
  }
}

void check_reshape(const NodeOperands& o) {
  auto wanted = o.integers("shape");
  if (o.has(1)) {
    list_of_integers(1)(o);
    wanted = o.integers(1);
  }
  const auto rank = o.rank(0);
  if (!wanted) return;
  const std::string what = o.has(1) ? o.describe(1) : "attribute shape";
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
  auto values = o.integers("axes");
  if (o.has(1)) {
    list_of_integers(1)(o);
    values = o.integers(1);
  }
  if (!rank || !values) return;
  check_axes(o, *values, *rank, o.has(1) ? o.describe(1) : "attribute axes");
  for (int64_t value : *values) {
    const auto extent = o.extent(0, value < 0 ? value + *rank : value);
    if (extent) {
      o.require(*extent == 1, "axis {} of {} is squeezed, but has {} elements; 1 is allowed", value,
                o.describe(0), *extent);
    }
  }
}

void check_unsqueeze(const NodeOperands& o) {
  const auto rank = o.rank(0);
  auto values = o.integers("axes");
  if (o.has(1)) {
    list_of_integers(1)(o);
    values = o.integers(1);
  }
  if (!rank || !values) return;
  check_axes(o, *values, *rank + static_cast<int64_t>(values->size()),
             o.has(1) ? o.describe(1) : "attribute axes");
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
  rank_at_least(0, 1)(o);
  axis("axis")(o);
  auto parts = o.integers("split");
  if (o.has(1)) {
    list_of_integers(1)(o);
    parts = o.integers(1);
  }
  const auto rank = o.rank(0);
  if (!rank) return;
  const int64_t at = o.integer("axis").value_or(0);
  const auto extent = o.extent(0, at < 0 ? at + *rank : at);
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

void check_slice(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  const auto rank = o.rank(0);
  auto starts = o.integers("starts");
  auto ends = o.integers("ends");
  auto axes_given = o.integers("axes");
  for (int i = 1; i < o.input_count(); ++i) {
    list_of_integers(i)(o);
    if (const auto size = o.size(i), other = o.size(1); o.has(i) && size && other) {
      o.require(*size == *other, "{} has {} elements, {} has {}; as many are allowed", o.describe(i), *size,
                o.describe(1), *other);
    }
  }
  if (o.has(1)) starts = o.integers(1);
  if (o.has(2)) ends = o.integers(2);
  if (o.has(3)) axes_given = o.integers(3);
  if (starts && ends) {
    o.require(starts->size() == ends->size(), "{} starts and {} ends; as many are allowed", starts->size(),
              ends->size());
  }
  if (starts && axes_given) {
    o.require(starts->size() == axes_given->size(), "{} starts and {} axes; as many are allowed",
              starts->size(), axes_given->size());
  }
  if (rank && axes_given) check_axes(o, *axes_given, *rank, o.has(3) ? o.describe(3) : "attribute axes");
  if (rank && starts) {
    o.require(static_cast<int64_t>(starts->size()) <= *rank, "{} starts; {} has rank {}", starts->size(),
              o.describe(0), *rank);
  }
  if (const auto steps = o.integers(4)) {
    for (int64_t step : *steps) {
      o.require(step != 0 && step != std::numeric_limits<int64_t>::min(),
                "{} holds {}; steps other than 0 and -2^63 are allowed", o.describe(4), step);
    }
  }
}

void check_pad(const NodeOperands& o) {
  one_of("mode", {"constant", "edge", "reflect"})(o);
  one_element(2)(o);
  auto pads = o.integers("pads");
  if (!pads) pads = o.integers("paddings");
  if (o.has(1)) {
    list_of_integers(1)(o);
    pads = o.integers(1);
  }
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
  const auto rank = o.rank(0);
  if (const auto count = o.size(1); rank && count) {
    o.require(*count == *rank, "{} has {} elements; {}, one for each axis of {}, are allowed", o.describe(1),
              *count, *rank, o.describe(0));
  }
  if (const auto repeats = o.integers(1)) {
    for (int64_t repeat : *repeats) {
      o.require(repeat >= 0 && repeat <= kMaxTensorElements, "{} holds {}; 0 to {} is allowed", o.describe(1),
                repeat, kMaxTensorElements);
    }
  }
}

/// A shape as an operand: Expand, ConstantOfShape.
Check shape_operand(int input) {
  return [=](const NodeOperands& o) {
    rank_of(input, 1)(o);
    if (const auto extents = o.integers(input)) {
      for (int64_t extent : *extents) {
        o.require(extent >= 0 && extent <= kMaxTensorElements, "{} holds {}; extents of 0 to {} are allowed",
                  o.describe(input), extent, kMaxTensorElements);
      }
    }
  };
}

void check_expand(const NodeOperands& o) {
  shape_operand(1)(o);
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

void check_range(const NodeOperands& o) {
  for (int i = 0; i < 3; ++i) one_element(i)(o);
  double values[3];
  for (int i = 0; i < 3; ++i) {
    const Tensor* tensor = o.constant(i);
    if (tensor == nullptr || tensor->size() != 1 || element_size(tensor->type()) == 0) return;
    values[i] = element_as_double(*tensor, 0);
  }
  o.require(values[2] != 0, "{} is 0; a step other than 0 is allowed", o.describe(2));
  const double count = (values[1] - values[0]) / values[2];
  o.require(count <= static_cast<double>(kMaxTensorElements),
            "from {} to {} in steps of {} are {:.0f} elements; at most {} are allowed", values[0], values[1],
            values[2], count, kMaxTensorElements);
}

void check_top_k(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  axis("axis")(o);
  std::optional<int64_t> k = o.integer("k");
  std::string what = "attribute k";
  if (o.has(1)) {
    one_element(1)(o);
    what = o.describe(1);
    if (const auto values = o.integers(1); values && values->size() == 1) k = values->front();
  }
  const auto rank = o.rank(0);
  if (!k || !rank) return;
  const int64_t at = o.integer("axis").value_or(-1);
  const auto extent = o.extent(0, at < 0 ? at + *rank : at);
  o.require(*k >= 0 && (!extent || *k <= *extent),
            "{} holds k = {}; 0 to {}, the length of axis {} of {}, is allowed", what, *k,
            extent ? std::to_string(*extent) : "?", at, o.describe(0));
}

void check_gather(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  axis("axis")(o);
}

void check_gather_elements(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  axis("axis")(o);
  same_rank(1, 0)(o);
}

void check_scatter_elements(const NodeOperands& o) {
  check_gather_elements(o);
  same_rank(2, 1)(o);
  one_of("reduction", {"none", "add", "mul"})(o);
  const auto indices = o.shape(1);
  const auto updates = o.shape(2);
  if (indices && updates) {
    o.require(*indices == *updates, "{} and {} must have the same shape", o.describe(1), o.describe(2));
  }
}

void check_gather_nd(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  rank_at_least(1, 1)(o);
  const int64_t batch = o.integer("batch_dims").value_or(0);
  const auto rank = o.rank(0);
  const auto index_rank = o.rank(1);
  if (!rank || !index_rank) return;
  o.require(batch >= 0 && batch < std::min(*rank, *index_rank),
            "attribute batch_dims is {}; 0 to {} is allowed for {} and {}", batch,
            std::min(*rank, *index_rank) - 1, o.describe(0), o.describe(1));
  const auto depth = o.extent(1, *index_rank - 1);
  if (depth) {
    o.require(*depth >= 1 && *depth <= *rank - batch,
              "the last axis of {} has {} elements; 1 to {}, the axes of {}, is allowed", o.describe(1),
              *depth, *rank - batch, o.describe(0));
  }
}

void check_scatter_nd(const NodeOperands& o) {
  check_gather_nd(o);
  one_of("reduction", {"none", "add", "mul"})(o);
  const auto data = o.shape(0);
  const auto indices = o.shape(1);
  const auto updates = o.shape(2);
  if (!data || !indices || !updates) return;
  Shape wanted(indices->begin(), indices->end() - 1);
  wanted.insert(wanted.end(), data->begin() + indices->back(), data->end());
  o.require(*updates == wanted, "{} should have shape {}", o.describe(2), shape_to_string(wanted));
}

void check_one_hot(const NodeOperands& o) {
  axis("axis", 0, 1)(o);
  one_element(1)(o);
  const auto size = o.size(2);
  if (size) o.require(*size == 2, "{} has {} elements; 2 are allowed", o.describe(2), *size);
  if (const Tensor* depth = o.constant(1); depth != nullptr && depth->size() == 1) {
    const double value = element_as_double(*depth, 0);
    o.require(value >= 0 && value <= static_cast<double>(kMaxTensorElements),
              "{} holds {}; a depth of 0 to {} is allowed", o.describe(1), value, kMaxTensorElements);
  }
}

void check_compress(const NodeOperands& o) {
  if (!o.has_attribute("axis")) return;
  rank_at_least(0, 1)(o);
  axis("axis")(o);
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

void check_reverse_sequence(const NodeOperands& o) {
  rank_at_least(0, 2)(o);
  rank_of(1, 1)(o);
  flag("batch_axis")(o);
  flag("time_axis")(o);
  o.require(o.integer("batch_axis").value_or(1) != o.integer("time_axis").value_or(0),
            "attributes batch_axis and time_axis are the same");
  const int64_t batch = o.integer("batch_axis").value_or(1);
  vector_along(1, 0, batch)(o);
}

void check_batch_normalization(const NodeOperands& o) {
  rank_at_least(0, 1)(o);
  for (int i = 1; i < 5; ++i) vector_along(i, 0, 1)(o);
}

void check_layer_normalization(const NodeOperands& o) {
  axis("axis")(o);
  broadcasts_to_input(1, 0)(o);
  broadcasts_to_input(2, 0)(o);
}

/// Scale and zero point: one, or one for each element of an axis.
struct QuantizationRule {
  int x, scale, zero_point;

  void operator()(const NodeOperands& o) const {
    rank_between(scale, 0, 1)(o);
    if (o.has(zero_point)) same_rank(zero_point, scale)(o);
    const auto rank = o.rank(scale);
    if (!rank || *rank == 0 || o.extent(scale, 0) == 1) return;
    axis("axis", x)(o);
  }
};

/// Parameters of one tensor of a quantized operator, which are single numbers.
Check quantization_scalars(std::vector<int> inputs) {
  return [=](const NodeOperands& o) {
    for (int input : inputs) one_element(input)(o);
  };
}
Check quantization_vectors(std::vector<int> inputs) {
  return [=](const NodeOperands& o) {
    for (int input : inputs) rank_between(input, 0, 1)(o);
  };
}

void check_constant(const NodeOperands& o) {
  o.require(o.node().attribute_size() == 1, "{} attributes; one, the value, is allowed",
            o.node().attribute_size());
}

void check_constant_of_shape(const NodeOperands& o) {
  shape_operand(0)(o);
  const auto* value = find_attribute(o.node(), "value");
  if (value == nullptr) return;
  int64_t size = 1;
  for (int64_t extent : value->t().dims()) size *= extent == 1 ? 1 : 0;
  o.require(size == 1, "attribute value has shape {}; one element is allowed",
            shape_to_string(Shape(value->t().dims().begin(), value->t().dims().end())));
}

void check_dropout(const NodeOperands& o) {
  one_element(1)(o);
  one_element(2)(o);
}

void check_loss(const NodeOperands& o) {
  rank_at_least(0, 2)(o);
  one_of("reduction", {"none", "mean", "sum"})(o);
  const auto rank = o.rank(0);
  const auto target = o.rank(1);
  if (rank && target) {
    o.require(*target == *rank - 1, "{} has rank {}; rank {}, one less than {}, is allowed", o.describe(1),
              *target, *rank - 1, o.describe(0));
    for (int64_t k = 0; k < *target; ++k) {
      const auto own = o.extent(1, k);
      const auto wanted = o.extent(0, k == 0 ? 0 : k + 1);
      if (own && wanted) {
        o.require(*own == *wanted, "{} and {} don't fit on axis {}", o.describe(1), o.describe(0), k);
      }
    }
  }
  if (rank && o.has(2)) vector_along(2, 0, 1)(o);
}

void check_einsum(const NodeOperands& o) {
  std::vector<Shape> shapes;
  for (int i = 0; i < o.input_count(); ++i) {
    const auto shape = o.shape(i);
    if (!shape) return;
    shapes.push_back(*shape);
  }
  try {
    (void)reference::plan_einsum(o.text("equation").value_or(""), shapes);
  } catch (const isa::UserError& error) {
    o.require(false, "{}", error.what());
  }
}

void check_max_unpool(const NodeOperands& o) {
  WindowRule{.x = 0}(o);
  const auto data = o.shape(0);
  const auto indices = o.shape(1);
  if (data && indices) {
    o.require(*data == *indices, "{} and {} must have the same shape", o.describe(0), o.describe(1));
  }
  list_of_integers(2)(o);
  const auto count = o.size(2);
  const auto rank = o.rank(0);
  if (count && rank) {
    o.require(*count == *rank, "{} has {} elements; {}, one for each axis of {}, are allowed", o.describe(2),
              *count, *rank, o.describe(0));
  }
  if (const auto extents = o.integers(2)) {
    for (int64_t extent : *extents) {
      o.require(extent >= 0 && extent <= kMaxTensorElements, "{} holds {}; 0 to {} is allowed", o.describe(2),
                extent, kMaxTensorElements);
    }
  }
}

/// RNN, GRU and LSTM, with this many gates.
struct RecurrentRule {
  int64_t gates;

  void operator()(const NodeOperands& o) const {
    for (int i = 0; i < 3; ++i) rank_of(i, 3)(o);
    o.require(o.has_attribute("hidden_size"),
              "attribute hidden_size is missing; it must be the number of elements of the hidden state");
    integer_between("hidden_size", 1, kLargestParameter / 8)(o);
    one_of("direction", {"forward", "reverse", "bidirectional"})(o);
    flag("layout")(o);
    flag("input_forget")(o);
    const int64_t hidden = *o.integer("hidden_size");
    const int64_t directions = o.text("direction").value_or("forward") == "bidirectional" ? 2 : 1;
    const auto extent_is = [&](int input, int64_t at, int64_t wanted, const char* what) {
      const auto extent = o.extent(input, at);
      if (extent) {
        o.require(*extent == wanted, "axis {} of {} has {} elements; {}, {}, are allowed", at,
                  o.describe(input), *extent, wanted, what);
      }
    };
    for (int i : {1, 2}) {
      extent_is(i, 0, directions, "the directions");
      extent_is(i, 1, gates * hidden, "a row for each gate and element of the state");
    }
    extent_is(2, 2, hidden, "the elements of the state");
    if (const auto width = o.extent(0, 2)) extent_is(1, 2, *width, "as many as X has");
    rank_of(3, 2)(o);
    extent_is(3, 0, directions, "the directions");
    extent_is(3, 1, 2 * gates * hidden, "two for each row of W");
    rank_of(4, 1)(o);
    rank_of(5, 3)(o);
    if (gates == 4) {
      rank_of(6, 3)(o);
      rank_of(7, 2)(o);
    }
  }
};

/// Resize and Upsample: factors or extents, an operand or an attribute.
void check_resize(const NodeOperands& o) {
  one_of("mode", {"nearest", "linear", "cubic", "bilinear"})(o);
  const bool with_roi = o.node().op_type() == "Resize" && o.since_version() >= 11;
  const auto rank = o.rank(0);
  std::vector<double> scales;
  std::string what = "attribute scales";
  if (const auto* given = find_attribute(o.node(), "scales")) {
    scales.assign(given->floats().begin(), given->floats().end());
  }
  const int at = with_roi ? 2 : 1;
  for (int i = 1; i < o.input_count(); ++i) rank_of(i, 1)(o);
  if (o.has(at)) {
    what = o.describe(at);
    const Tensor* values = o.constant(at);
    for (int64_t k = 0; values != nullptr && k < values->size(); ++k) {
      scales.push_back(element_as_double(*values, k));
    }
  }
  if (with_roi) {
    if (const auto sizes = o.integers(3); sizes && rank) {
      o.require(static_cast<int64_t>(sizes->size()) == *rank,
                "{} has {} elements; {}, one for each axis of {}, are allowed", o.describe(3), sizes->size(),
                *rank, o.describe(0));
      for (int64_t extent : *sizes) {
        o.require(extent >= 1 && extent <= kMaxTensorElements, "{} holds {}; 1 to {} is allowed",
                  o.describe(3), extent, kMaxTensorElements);
      }
    }
  }
  if (!rank || scales.empty()) return;
  o.require(static_cast<int64_t>(scales.size()) == *rank,
            "{} has {} elements; {}, one for each axis of {}, are allowed", what, scales.size(), *rank,
            o.describe(0));
  for (size_t k = 0; k < scales.size(); ++k) {
    const auto extent = o.extent(0, static_cast<int64_t>(k));
    const double result = scales[k] * static_cast<double>(extent.value_or(1));
    o.require(scales[k] > 0 && result <= static_cast<double>(kMaxTensorElements),
              "{} holds {}; positive factors that give at most {} elements are allowed", what, scales[k],
              kMaxTensorElements);
  }
}

/// A list of extents as an attribute.
Check extents_attribute(const char* name) {
  return [=](const NodeOperands& o) {
    const auto extents = o.integers(name);
    if (!extents) return;
    for (int64_t extent : *extents) {
      o.require(extent >= 0 && extent <= kMaxTensorElements, "attribute {} holds {}; 0 to {} is allowed",
                name, extent, kMaxTensorElements);
    }
  };
}

using RuleTable = std::unordered_map<std::string, Checks>;

RuleTable make_rules() {
  RuleTable rules;
  for (const char* op :
       {"Add", "Sub", "Mul",      "Div",   "Max",  "Min",     "Sum",         "Mean",
        "Pow", "Mod", "BitShift", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
        "And", "Or",  "Xor",      "Where"}) {
    rules[op] = {check_broadcast};
  }
  rules["BitShift"].push_back(one_of("direction", {"LEFT", "RIGHT"}));
  rules["Cast"] = {element_type("to")};
  rules["Clip"] = {one_element(1), one_element(2)};
  rules["PRelu"] = {broadcasts_to_input(1, 0)};
  rules["Dropout"] = {check_dropout};

  rules["Conv"] = {WindowRule{.x = 0, .w = 1}, ChannelRule{.x = 0, .w = 1, .bias = 2}};
  rules["ConvInteger"] = {WindowRule{.x = 0, .w = 1}, ChannelRule{.x = 0, .w = 1, .bias = -1}, one_element(2),
                          quantization_vectors({3})};
  rules["QLinearConv"] = {WindowRule{.x = 0, .w = 3}, ChannelRule{.x = 0, .w = 3, .bias = 8},
                          quantization_scalars({1, 2, 6, 7}), quantization_vectors({4, 5})};
  rules["ConvTranspose"] = {WindowRule{.x = 0, .w = 1, .transposed = true},
                            ChannelRule{.x = 0, .w = 1, .bias = 2, .transposed = true}};
  for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) rules[op] = {WindowRule{.x = 0}};
  rules["LpPool"].push_back(positive("p"));
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"})
    rules[op] = {rank_at_least(0, 3)};
  rules["MaxUnpool"] = {check_max_unpool};

  rules["MatMul"] = {matmul(0, 1)};
  rules["MatMulInteger"] = {matmul(0, 1), quantization_vectors({2, 3})};
  rules["QLinearMatMul"] = {matmul(0, 3), quantization_vectors({1, 2, 4, 5, 6, 7})};
  rules["Gemm"] = {check_gemm};
  rules["Einsum"] = {check_einsum};

  for (const char* op : {"ReduceSum", "ReduceProd", "ReduceSumSquare", "ReduceL1", "ReduceL2", "ReduceLogSum",
                         "ReduceLogSumExp", "ReduceMean", "ReduceMax", "ReduceMin"}) {
    rules[op] = {list_of_integers(1), axes(), flag("keepdims")};
  }
  for (const char* op : {"ArgMax", "ArgMin"})
    rules[op] = {rank_at_least(0, 1), axis("axis"), flag("keepdims")};
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) rules[op] = {axis("axis")};
  rules["LpNormalization"] = {rank_at_least(0, 1), axis("axis"), integer_between("p", 1, 2)};
  rules["CumSum"] = {rank_at_least(0, 1), one_element(1), axes(1)};
  rules["MeanVarianceNormalization"] = {axes(-1)};
  rules["LRN"] = {rank_at_least(0, 2), positive("size")};
  rules["BatchNormalization"] = {check_batch_normalization};
  rules["InstanceNormalization"] = {rank_at_least(0, 3), vector_along(1, 0, 1), vector_along(2, 0, 1)};
  rules["LayerNormalization"] = {check_layer_normalization};
  rules["NegativeLogLikelihoodLoss"] = {check_loss};
  rules["SoftmaxCrossEntropyLoss"] = {check_loss};

  rules["Reshape"] = {check_reshape};
  rules["Flatten"] = {
      integer_between("axis", -kLargestParameter, kLargestParameter), [](const NodeOperands& o) {
        const auto rank = o.rank(0);
        const int64_t value = o.integer("axis").value_or(1);
        if (rank) {
          o.require(value >= -*rank && value <= *rank, "attribute axis is {}; {} to {} is allowed for {}",
                    value, -*rank, *rank, o.describe(0));
        }
      }};
  rules["Squeeze"] = {check_squeeze};
  rules["Unsqueeze"] = {check_unsqueeze};
  rules["Transpose"] = {check_transpose};
  rules["Concat"] = {check_concat};
  rules["Split"] = {check_split};
  rules["Slice"] = {check_slice};
  rules["Pad"] = {check_pad};
  rules["Expand"] = {check_expand};
  rules["Tile"] = {check_tile};
  rules["DepthToSpace"] = {check_depth_to_space};
  rules["SpaceToDepth"] = {check_space_to_depth};
  rules["ReverseSequence"] = {check_reverse_sequence};
  rules["Trilu"] = {rank_at_least(0, 2), one_element(1)};
  rules["Gather"] = {check_gather};
  rules["GatherElements"] = {check_gather_elements};
  rules["GatherND"] = {check_gather_nd};
  rules["Scatter"] = {check_scatter_elements};
  rules["ScatterElements"] = {check_scatter_elements};
  rules["ScatterND"] = {check_scatter_nd};
  rules["OneHot"] = {check_one_hot};
  rules["TopK"] = {check_top_k};
  rules["Compress"] = {check_compress, rank_of(1, 1)};

  rules["Constant"] = {check_constant};
  rules["ConstantOfShape"] = {check_constant_of_shape};
  rules["Range"] = {check_range};
  rules["EyeLike"] = {rank_of(0, 2), element_type("dtype")};

  for (const char* op : {"QuantizeLinear", "DequantizeLinear"}) {
    rules[op] = {QuantizationRule{.x = 0, .scale = 1, .zero_point = 2}};
  }
  rules["Bernoulli"] = {element_type("dtype")};
  rules["RNN"] = {RecurrentRule{1}};
  rules["GRU"] = {RecurrentRule{3}};
  rules["LSTM"] = {RecurrentRule{4}};
  for (const char* op : {"Resize", "Upsample"}) rules[op] = {rank_at_least(0, 1), check_resize};
  rules["RoiAlign"] = {rank_of(0, 4),
                       rank_of(1, 2),
                       rank_of(2, 1),
                       positive("output_height"),
                       positive("output_width"),
                       one_of("mode", {"avg", "max"})};
  rules["MaxRoiPool"] = {
      rank_of(0, 4), rank_of(1, 2), extents_attribute("pooled_shape"), [](const NodeOperands& o) {
        const auto pooled = o.integers("pooled_shape");
        o.require(pooled && pooled->size() == 2, "attribute pooled_shape must have 2 values");
      }};
  rules["NonMaxSuppression"] = {rank_of(0, 3), rank_of(1, 3), one_element(2), one_element(3), one_element(4)};
  rules["GridSample"] = {rank_of(0, 4), rank_of(1, 4)};
  rules["Det"] = {rank_at_least(0, 2)};
  rules["Unique"] = {axis("axis")};
  rules["Multinomial"] = {rank_of(0, 2), positive("sample_size"), element_type("dtype")};
  for (const char* op : {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"}) {
    rules[op] = {extents_attribute("shape"), element_type("dtype")};
  }
  for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
    rules[op] = {one_element(0), element_type("output_datatype")};
  }
  return rules;
}

/// Operators whose outputs' extents are read from elements of these operands; 0 is the data itself.
const std::unordered_map<std::string, std::vector<int>>& shape_deciders() {
  static const std::unordered_map<std::string, std::vector<int>> table = {{"Reshape", {1}},
                                                                          {"Expand", {1}},
                                                                          {"Tile", {1}},
                                                                          {"Pad", {1}},
                                                                          {"Slice", {1, 2, 3, 4}},
                                                                          {"Range", {0, 1, 2}},
                                                                          {"ConstantOfShape", {0}},
                                                                          {"TopK", {1}},
                                                                          {"OneHot", {1}},
                                                                          {"Squeeze", {1}},
                                                                          {"Unsqueeze", {1}},
                                                                          {"Split", {1}},
                                                                          {"ReduceSum", {1}},
                                                                          {"MaxUnpool", {2}},
                                                                          {"HannWindow", {0}},
                                                                          {"HammingWindow", {0}},
                                                                          {"BlackmanWindow", {0}},
                                                                          {"NonZero", {0}},
                                                                          {"Resize", {2, 3}},
                                                                          {"Unique", {0}},
                                                                          {"NonMaxSuppression", {0}},
                                                                          {"Compress", {1}}};
  return table;
}

/// Attributes and operands against the schema, whatever the operator.
void check_against_schema(const NodeOperands& o, const onnx::OpSchema& schema) {
  try {
    schema.Verify(o.node());
  } catch (const std::exception& error) {
    o.require(false, "{}", clean_onnx_message(error.what()));
  }
  const auto& formals = schema.inputs();
  std::map<std::string, int> of_variable;  // the first operand of each of the schema's type variables
  for (int i = 0; i < o.input_count(); ++i) {
    const auto type = o.type(i);
    if (!type || formals.empty()) continue;
    const auto& formal = formals[std::min<size_t>(static_cast<size_t>(i), formals.size() - 1)];
    onnx::TypeProto proto;
    proto.mutable_tensor_type()->set_elem_type(*type);
    const auto* text = onnx::Utils::DataTypeUtils::ToType(proto);
    if (!formal.GetTypes().contains(text)) {
      std::set<std::string> allowed;
      for (const auto* each : formal.GetTypes()) allowed.insert(*each);
      o.require(false, "{} is {}; allowed are {}", o.describe(i), data_type_name(*type),
                fmt::join(allowed, ", "));
    }
    if (formal.GetOption() == onnx::OpSchema::Variadic && !formal.GetIsHomogeneous()) continue;
    const auto [first, is_new] = of_variable.emplace(formal.GetTypeStr(), i);
    o.require(is_new || o.type(first->second) == type, "{} and {} must have the same element type",
              o.describe(first->second), o.describe(i));
  }
}

}  // namespace

// -------------------------------------------------------------------------------------- NodeOperands

const onnx::TensorShapeProto* NodeOperands::known_shape(int input) const {
  if (!has(input)) return nullptr;
  const auto* type = types_[static_cast<size_t>(input)];
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return nullptr;
  return &type->tensor_type().shape();
}

std::optional<DataType> NodeOperands::type(int input) const {
  if (!has(input)) return std::nullopt;
  const auto* type = types_[static_cast<size_t>(input)];
  if (type == nullptr || !type->has_tensor_type()) return std::nullopt;
  if (type->tensor_type().elem_type() == onnx::TensorProto_DataType_UNDEFINED) return std::nullopt;
  return static_cast<DataType>(type->tensor_type().elem_type());
}

std::optional<int64_t> NodeOperands::rank(int input) const {
  const auto* shape = known_shape(input);
  return shape == nullptr ? std::nullopt : std::optional<int64_t>(shape->dim_size());
}

std::optional<int64_t> NodeOperands::extent(int input, int64_t axis) const {
  const auto* shape = known_shape(input);
  if (shape == nullptr || axis < 0 || axis >= shape->dim_size()) return std::nullopt;
  const auto& dim = shape->dim(static_cast<int>(axis));
  return dim.has_dim_value() && dim.dim_value() >= 0 ? std::optional(dim.dim_value()) : std::nullopt;
}

std::optional<Shape> NodeOperands::shape(int input) const {
  return known_shape(input) == nullptr ? std::nullopt : static_shape(*types_[static_cast<size_t>(input)]);
}

std::optional<int64_t> NodeOperands::size(int input) const {
  const auto extents = shape(input);
  return extents ? std::optional(element_count(*extents)) : std::nullopt;
}

const Tensor* NodeOperands::constant(int input) const {
  return has(input) ? constants_[static_cast<size_t>(input)] : nullptr;
}

std::optional<std::vector<int64_t>> NodeOperands::integers(int input) const {
  const Tensor* tensor = constant(input);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->type() == onnx::TensorProto_DataType_INT64) {
    const auto data = tensor->data<int64_t>();
    return std::vector<int64_t>(data.begin(), data.end());
  }
  if (tensor->type() == onnx::TensorProto_DataType_INT32) {
    const auto data = tensor->data<int32_t>();
    return std::vector<int64_t>(data.begin(), data.end());
  }
  return std::nullopt;
}

const onnx::AttributeProto* NodeOperands::attribute(const char* name) const {
  if (const auto* own = find_attribute(node_, name)) return own;
  const auto declared = schema_.attributes().find(name);
  if (declared == schema_.attributes().end() || !declared->second.default_value.has_name()) return nullptr;
  return &declared->second.default_value;
}

std::optional<int64_t> NodeOperands::integer(const char* name) const {
  const auto* found = attribute(name);
  return found == nullptr ? std::nullopt : std::optional<int64_t>(found->i());
}

std::optional<std::vector<int64_t>> NodeOperands::integers(const char* name) const {
  const auto* found = attribute(name);
  if (found == nullptr) return std::nullopt;
  return std::vector<int64_t>(found->ints().begin(), found->ints().end());
}

std::optional<std::string> NodeOperands::text(const char* name) const {
  const auto* found = attribute(name);
  return found == nullptr ? std::nullopt : std::optional<std::string>(found->s());
}

bool NodeOperands::has_attribute(const char* name) const {
  return find_attribute(node_, name) != nullptr;
}

std::string NodeOperands::describe(int input) const {
  const auto& formals = schema_.inputs();
  std::string text = fmt::format("input {}", input);
  if (!formals.empty()) {
    const auto& formal = formals[std::min<size_t>(static_cast<size_t>(input), formals.size() - 1)];
    if (formal.GetOption() != onnx::OpSchema::Variadic) text = "input " + formal.GetName();
  }
  if (!has(input)) return text;
  text += fmt::format(" '{}'", node_.input(input));
  const auto* type = types_[static_cast<size_t>(input)];
  return type == nullptr ? text : text + " (" + type_to_string(*type) + ")";
}

void NodeOperands::fail(const std::string& message) const {
  throw isa::UserError(describe_node(node_) + ": " + message);
}

// ------------------------------------------------------------------------------------------- checks

namespace {

const Checks* find_rules(const onnx::NodeProto& node) {
  static const RuleTable rules = make_rules();
  if (!node.domain().empty() && node.domain() != "ai.onnx") return nullptr;
  const auto found = rules.find(node.op_type());
  return found == rules.end() ? nullptr : &found->second;
}

}  // namespace

bool has_operator_rules(const onnx::NodeProto& node) {
  return find_rules(node) != nullptr;
}

void check_operands(const NodeOperands& operands) {
  check_against_schema(operands, operands.schema());
  const Checks* checks = find_rules(operands.node());
  if (checks == nullptr) return;
  for (const Check& check : *checks) check(operands);
}

std::map<int, Shape> missing_inference(const NodeOperands& operands) {
  if (operands.node().op_type() != "Einsum") return {};
  std::vector<Shape> shapes;
  for (int i = 0; i < operands.input_count(); ++i) {
    const auto shape = operands.shape(i);
    if (!shape) return {};
    shapes.push_back(*shape);
  }
  return {{0, reference::plan_einsum(operands.text("equation").value_or(""), shapes).result_shape}};
}

int shape_deciding_input(const NodeOperands& operands) {
  const auto found = shape_deciders().find(operands.node().op_type());
  if (found == shape_deciders().end()) return -1;
  for (int input : found->second) {
    if (operands.has(input) && operands.constant(input) == nullptr) return input;
  }
  return -1;
}

}  // namespace kodama::compiler
