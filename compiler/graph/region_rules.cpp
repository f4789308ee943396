#include <algorithm>

#include "compiler/graph/onnx_model.h"
#include "compiler/graph/operator_checks.h"
#include "compiler/reference/kernels/resize.h"

namespace kodama::compiler::rules {

namespace {

// ------------------------------------------------------------------------------- Resize and Upsample

/// Where the factors of Resize and Upsample are; -1 for an attribute or none.
struct ResizeOperands {
  int roi = -1;
  int scales = -1;
  int sizes = -1;
};

ResizeOperands resize_operands(const NodeOperands& o) {
  if (o.node().op_type() == "Upsample") return {.scales = o.since_version() >= 9 ? 1 : -1};
  if (o.since_version() < 11) return {.scales = 1};
  return {.roi = 1, .scales = 2, .sizes = 3};
}

/// An operand of no elements stands for one that is left out.
bool is_given(const NodeOperands& o, int input) {
  return input >= 0 && o.has(input) && o.size(input) != 0;
}

bool crops(const NodeOperands& o) {
  return o.text("coordinate_transformation_mode") == "tf_crop_and_resize";
}

std::optional<std::vector<double>> elements_of(const NodeOperands& o, int input) {
  const Tensor* tensor = input < 0 ? nullptr : o.constant(input);
  if (tensor == nullptr) return std::nullopt;
  std::vector<double> values;
  for (int64_t k = 0; k < tensor->size(); ++k) values.push_back(element_as_double(*tensor, k));
  return values;
}

/// The factors of all axes as far as they are known; those of a region are of the part that it covers.
std::optional<std::vector<double>> resize_scales(const NodeOperands& o) {
  const ResizeOperands operands = resize_operands(o);
  std::optional<std::vector<double>> scales = elements_of(o, operands.scales);
  if (const auto* given = find_attribute(o.node(), "scales")) {
    scales = std::vector<double>(given->floats().begin(), given->floats().end());
  } else if (find_attribute(o.node(), "height_scale") != nullptr) {
    scales = std::vector<double>{1, 1, find_attribute(o.node(), "height_scale")->f(),
                                 find_attribute(o.node(), "width_scale")->f()};
  }
  if (!scales || !crops(o)) return scales;
  const auto roi = elements_of(o, operands.roi);
  if (!roi || roi->size() != 2 * scales->size()) return std::nullopt;
  for (size_t k = 0; k < scales->size(); ++k) (*scales)[k] *= (*roi)[k + scales->size()] - (*roi)[k];
  return scales;
}

void check_resize(const NodeOperands& o) {
  one_of("mode", {"nearest", "linear", "cubic", "bilinear"})(o);
  one_of("coordinate_transformation_mode", {"half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                                            "tf_half_pixel_for_nn", "tf_crop_and_resize"})(o);
  one_of("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})(o);
  flag("exclude_outside")(o);
  for (int i = 1; i < o.input_count(); ++i) rank_of(i, 1)(o);
  const auto rank = o.rank(0);
  const ResizeOperands operands = resize_operands(o);
  if (operands.roi >= 0) {
    const bool has_scales = is_given(o, operands.scales);
    const bool has_sizes = is_given(o, operands.sizes);
    // Of unknown lists one may be empty.
    o.require(!has_scales || !has_sizes || !o.size(operands.scales) || !o.size(operands.sizes),
              "{} and {} are both given; one of them is allowed", o.describe(operands.scales),
              o.describe(operands.sizes));
    o.require(has_scales || has_sizes, "neither scales nor sizes are given");
    o.require(!crops(o) || is_given(o, operands.roi), "tf_crop_and_resize needs a roi");
    if (crops(o) && rank && o.size(operands.roi)) {
      o.require(*o.size(operands.roi) == 2 * *rank,
                "{} has {} elements; {}, a start and an end for each axis, are allowed",
                o.describe(operands.roi), *o.size(operands.roi), 2 * *rank);
    }
    if (has_sizes) {
      check_one_per_axis(o, o.size(operands.sizes), 0, o.describe(operands.sizes));
      if (const auto sizes = o.integers(operands.sizes)) {
        check_extents(o, *sizes, 0, o.describe(operands.sizes));
        for (size_t k = 0; k < sizes->size(); ++k) {
          const auto extent = o.extent(0, static_cast<int64_t>(k));
          o.require(!extent || (*extent == 0) == ((*sizes)[k] == 0),
                    "axis {} of {} can't be resized to {} elements", k, o.describe(0), (*sizes)[k]);
        }
      }
      return;
    }
  }
  const std::string what = operands.scales >= 0 ? o.describe(operands.scales) : "attribute scales";
  if (operands.scales >= 0) check_one_per_axis(o, o.size(operands.scales), 0, what);
  const auto scales = resize_scales(o);
  if (!rank || !scales) return;
  check_one_per_axis(o, std::ssize(*scales), 0, what);
  for (size_t k = 0; k < scales->size(); ++k) {
    const auto extent = o.extent(0, static_cast<int64_t>(k));
    const double result = (*scales)[k] * static_cast<double>(extent.value_or(1));
    o.require(
        ((*scales)[k] > 0 || crops(o)) && result >= 0 && result <= static_cast<double>(kMaxTensorElements),
        "{} holds {}; positive factors that give at most {} elements are allowed", what, (*scales)[k],
        kMaxTensorElements);
  }
}

/// libonnx knows nothing of regions.
std::map<int, Shape> infer_resize(const NodeOperands& o) {
  const auto shape = o.shape(0);
  const ResizeOperands operands = resize_operands(o);
  if (operands.sizes >= 0) {
    if (const auto sizes = o.integers(operands.sizes); sizes && !sizes->empty()) return {{0, *sizes}};
  }
  const auto scales = resize_scales(o);
  if (!shape || !scales || scales->size() != shape->size()) return {};
  Shape result;
  for (size_t k = 0; k < shape->size(); ++k) {
    result.push_back(reference::axis_of_scale((*shape)[k], static_cast<float>((*scales)[k])).resized);
  }
  return {{0, result}};
}

// --------------------------------------------------------------------------------------------- regions

void check_roi_align(const NodeOperands& o) {
  rank_of(0, 4)(o);
  rank_of(1, 2)(o);
  rank_of(2, 1)(o);
  extent_is(1, 1, 4, "two corners")(o);
  same_extent(2, 0, 1, 0, "one for each region")(o);
  positive("output_height")(o);
  positive("output_width")(o);
  integer_between("sampling_ratio", 0, 1 << 16)(o);
  one_of("mode", {"avg", "max"})(o);
  one_of("coordinate_transformation_mode", {"half_pixel", "output_half_pixel"})(o);
}

void check_max_roi_pool(const NodeOperands& o) {
  rank_of(0, 4)(o);
  rank_of(1, 2)(o);
  extent_is(1, 1, 5, "the picture and two corners")(o);
  const auto pooled = o.integers("pooled_shape");
  o.require(pooled && pooled->size() == 2, "attribute pooled_shape must have 2 values");
  check_extents(o, *pooled, 1, "attribute pooled_shape");
}

/// The regions, with what is pooled of each.
std::map<int, Shape> infer_pooled_regions(const NodeOperands& o) {
  const auto regions = o.extent(1, 0);
  const auto channels = o.extent(0, 1);
  if (!regions || !channels) return {};
  const auto pooled = o.integers("pooled_shape");
  const int64_t height = pooled ? (*pooled)[0] : o.integer("output_height").value_or(1);
  const int64_t width = pooled ? (*pooled)[1] : o.integer("output_width").value_or(1);
  return {{0, {*regions, *channels, height, width}}};
}

void check_grid_sample(const NodeOperands& o) {
  rank_of(0, 4)(o);
  rank_of(1, 4)(o);
  extent_is(1, 3, 2, "x and y")(o);
  same_extent(1, 0, 0, 0, "the batch")(o);
  one_of("mode", {"bilinear", "nearest", "bicubic"})(o);
  one_of("padding_mode", {"zeros", "border", "reflection"})(o);
  flag("align_corners")(o);
  const auto shape = o.shape(0);
  const auto grid = o.shape(1);
  if (!shape || !grid) return;
  o.require((*shape)[2] * (*shape)[3] > 0 || (*grid)[1] * (*grid)[2] == 0, "{} has nothing to sample",
            o.describe(0));
}

std::map<int, Shape> infer_grid_sample(const NodeOperands& o) {
  const auto shape = o.shape(0);
  const auto grid = o.shape(1);
  if (!shape || !grid) return {};
  return {{0, {(*shape)[0], (*shape)[1], (*grid)[1], (*grid)[2]}}};
}

void check_non_max_suppression(const NodeOperands& o) {
  rank_of(0, 3)(o);
  rank_of(1, 3)(o);
  extent_is(0, 2, 4, "the coordinates of a box")(o);
  same_extent(1, 0, 0, 0, "the batch")(o);
  same_extent(1, 2, 0, 1, "one for each box")(o);
  for (int i = 2; i < 5; ++i) one_element(i)(o);
  flag("center_point_box")(o);
}

}  // namespace

void add_region_rules(RuleTable& rules) {
  for (const char* op : {"Resize", "Upsample"}) {
    rules[op] = {{rank_at_least(0, 1), check_resize}, {1, 2, 3}, infer_resize, kNotByLibrary};
  }
  rules["RoiAlign"] = {{check_roi_align}, {}, infer_pooled_regions};
  rules["MaxRoiPool"] = {{check_max_roi_pool}, {}, infer_pooled_regions};
  rules["NonMaxSuppression"] = {{check_non_max_suppression}, {0}};
  rules["GridSample"] = {{check_grid_sample}, {}, infer_grid_sample};
}

}  // namespace kodama::compiler::rules
