#include "compiler/kernels/columns_problem.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace kodama::compiler {
namespace {

using Role = ContractLayer::Role;

/// Finds the dims of a contraction, each in its role: those that have more than one place.
class ColumnsMatch {
 public:
  ColumnsMatch(const ContractLayer& contract, bool operand_first)
      : contract_(contract),
        operand_(operand_first ? contract.a : contract.b),
        results_(operand_first ? contract.b : contract.a) {
    problem_.operand_first = operand_first;
  }

  std::vector<ColumnsProblem> find(TensorId output, const LayerGraph& graph) {
    const auto shape_of = [&](TensorId tensor) -> const Shape& {
      return graph.tensors[static_cast<size_t>(tensor)].shape;
    };
    const Shape& operand = shape_of(operand_.tensor);
    const Shape& results = shape_of(results_.tensor);
    if (operand.size() != 4 || results.size() != 4 || operand_.fill != 0 || results_.fill != 0) return {};
    const auto operand_picture = picture_of(operand_.tensor, operand, 1);
    const auto results_picture = picture_of(results_.tensor, results, 1);
    if (!operand_picture || !results_picture || operand_picture->tokens || results_picture->tokens) return {};
    problem_.operand = *operand_picture;
    problem_.results = *results_picture;
    problem_.operand_columns = operand[3];
    problem_.result_columns = results[3];
    if (!match_channels(operand[1], results[1]) || !match_images(operand[0], results[0]) ||
        !match_rows(results[2]) || !match_columns(results[3]) || !all_matched() || !match_sums(output))
      return {};
    std::vector<ColumnsProblem> found = {problem_};
    if (pack(output)) found.push_back(problem_);
    return found;
  }

 private:
  int64_t extent(int dim) const { return dim < 0 ? 1 : contract_.dims[static_cast<size_t>(dim)].extent; }
  bool has_role(int dim, Role role) const {
    const Role own = contract_.dims[static_cast<size_t>(dim)].role;
    // Rows of the matrix or columns: who is first doesn't matter.
    return role == Role::kM ? own == Role::kM || own == Role::kN : own == role;
  }
  /// The dims that an axis depends on.
  std::vector<int> used(const TensorAccess& access, size_t axis) const {
    std::vector<int> dims;
    for (size_t dim = 0; dim < contract_.dims.size(); ++dim) {
      if (contract_.dims[dim].extent > 1 && access.map.coefficient(axis, dim) != 0)
        dims.push_back(static_cast<int>(dim));
    }
    return dims;
  }
  int64_t coefficient(const TensorAccess& access, size_t axis, int dim) const {
    return access.map.coefficient(axis, static_cast<size_t>(dim));
  }
  /// The dim of a role among those of an axis, -1 if there is none; false where there are several.
  bool find_dim(const std::vector<int>& dims, Role role, int& found) {
    found = -1;
    for (const int dim : dims) {
      if (!has_role(dim, role)) continue;
      if (found >= 0) return false;
      found = dim;
    }
    if (found >= 0) matched_.push_back(found);
    return true;
  }

  /// A channel's axis is a dim of its own, or two with that of sections.
  bool match_channel(const TensorAccess& access, int64_t channels, int& dim, int& section) {
    const std::vector<int> dims = used(access, 1);
    if (!find_dim(dims, Role::kM, dim) || !find_dim(dims, Role::kBatch, section) ||
        static_cast<int64_t>(dims.size()) != (dim >= 0) + (section >= 0) || access.map.offset(1) != 0)
      return false;
    return extent(section) * extent(dim) == channels && (dim < 0 || coefficient(access, 1, dim) == 1) &&
           (section < 0 ||
            (coefficient(access, 1, section) == extent(dim) && extent(dim) % kChunkChannels == 0));
  }
  bool match_channels(int64_t of_operand, int64_t of_results) {
    int section = -1;
    if (!match_channel(operand_, of_operand, operand_channel_, section_) ||
        !match_channel(results_, of_results, problem_.result_channel, section) || section != section_)
      return false;
    if (section >= 0) matched_.pop_back();  // the same once more
    problem_.sections = extent(section_);
    problem_.channels = extent(operand_channel_);
    return true;
  }

  /// An axis of results: `size` places, of parts of which each has some.
  bool match_parts(size_t axis, int64_t size, size_t which, int& inner, int& part) {
    const std::vector<int> dims = used(results_, axis);
    if (!find_dim(dims, Role::kK, inner) || !find_dim(dims, Role::kBatch, part) ||
        static_cast<int64_t>(dims.size()) != (inner >= 0) + (part >= 0) || results_.map.offset(axis) != 0)
      return false;
    if (inner >= 0 && coefficient(results_, axis, inner) != 1) return false;
    problem_.part_size.at(which) = extent(inner);
    problem_.parts.at(which) = extent(part);
    if (part >= 0 && coefficient(results_, axis, part) != extent(inner)) return false;
    const int64_t covered = extent(part) * extent(inner);
    return covered >= size && covered - size < extent(inner);
  }

  bool match_images(int64_t of_operand, int64_t of_results) {
    int& image = problem_.image_dim;
    int part = -1;
    if (of_operand != of_results || !match_parts(0, of_results, 0, image, part)) return false;
    if (operand_.map.offset(0) != 0 || used(operand_, 0) != used(results_, 0)) return false;
    return (image < 0 || coefficient(operand_, 0, image) == 1) &&
           (part < 0 || coefficient(operand_, 0, part) == problem_.part_size[0]);
  }

  /// What the operand's axis has of the results' place: `place`, or a part of it, and of the kernel.
  bool match_window(size_t way, int place, int part) {
    const size_t axis = way + 2;
    const std::vector<int> dims = used(operand_, axis);
    int position = -1;
    if (!find_dim(dims, Role::kM, position)) return false;
    RowsWindow& window = problem_.window;
    window.pad.at(way) = -operand_.map.offset(axis);
    if (place >= 0) window.stride.at(way) = coefficient(operand_, axis, place);
    if (position >= 0) {
      window.kernel.at(way) = extent(position);
      window.dilation.at(way) = coefficient(operand_, axis, position);
    }
    kernel_dims_.at(way) = position;
    if (part >= 0) {
      // A part of one row alone is what tells how far apart rows are.
      if (place < 0) window.stride.at(way) = coefficient(operand_, axis, part);
      if (coefficient(operand_, axis, part) != window.stride.at(way) * problem_.part_size[1]) return false;
    }
    return static_cast<int64_t>(dims.size()) == (place >= 0) + (part >= 0) + (position >= 0) &&
           window.stride.at(way) >= 1 && window.dilation.at(way) >= 1 && window.pad.at(way) >= 0;
  }
  bool match_rows(int64_t rows) {
    int part = -1;
    return match_parts(2, rows, 1, problem_.row_dim, part) && match_window(0, problem_.row_dim, part);
  }
  bool match_columns(int64_t columns) {
    const std::vector<int> dims = used(results_, 3);
    int column = -1;
    if (!find_dim(dims, Role::kK, column) || dims.size() > 1 || extent(column) != columns ||
        results_.map.offset(3) != 0 || (column < 0 ? !dims.empty() : coefficient(results_, 3, column) != 1))
      return false;
    return match_window(1, column, -1);
  }
  /// Whether every dim with several places is one of them, and none is two.
  bool all_matched() const {
    std::vector<int> own = matched_;
    std::ranges::sort(own);
    if (std::ranges::adjacent_find(own) != own.end()) return false;
    const auto several = [](const ContractLayer::Dim& dim) { return dim.extent > 1; };
    return std::ranges::count_if(contract_.dims, several) == std::ssize(own);
  }

  bool match_sums(TensorId output) {
    const AffineMap& map = contract_.output;
    std::vector<int> single;
    axis_of_.assign(contract_.dims.size(), -1);
    for (size_t axis = 0; axis < map.axes(); ++axis) {
      int own = -1;
      int64_t places = 1;
      for (size_t dim = 0; dim < contract_.dims.size(); ++dim) {
        if (contract_.dims[dim].extent == 1 || map.coefficient(axis, dim) == 0) continue;
        if (static_cast<int>(dim) == section_) {
          places = extent(section_);
          if (map.coefficient(axis, dim) != extent(problem_.result_channel)) return false;
          continue;
        }
        if (own >= 0 || map.coefficient(axis, dim) != 1) return false;
        own = static_cast<int>(dim);
      }
      if (map.offset(axis) != 0 || extent(own) * places != contract_.output_shape[axis] ||
          (places > 1 && own != problem_.result_channel))
        return false;
      (own < 0 ? single.emplace_back() : axis_of_[static_cast<size_t>(own)]) = static_cast<int>(axis);
    }
    // Axes of one place are those of dims that have one.
    const auto take = [&](int dim) {
      if (dim >= 0) return axis_of_[static_cast<size_t>(dim)];
      if (single.empty()) return -1;
      const int axis = single.front();
      single.erase(single.begin());
      return axis;
    };
    Picture::Tokens tokens;
    tokens.channel = take(problem_.result_channel);
    tokens.tokens = {take(operand_channel_)};
    for (const int dim : part_dims()) {
      if (dim >= 0) tokens.entries.push_back(axis_of_[static_cast<size_t>(dim)]);
    }
    tokens.entries.insert(tokens.entries.end(), single.begin(), single.end());
    if (tokens.channel < 0 || tokens.tokens[0] < 0 || std::ranges::count(tokens.entries, -1) > 0)
      return false;
    problem_.sums = token_picture(output, contract_.output_shape, tokens);
    return problem_.sums.images == problem_.parts[0] * problem_.parts[1] * problem_.sum_images() &&
           problem_.sums.channels == problem_.results.channels;
  }

  /// Makes it the same with a packed operand.
  bool pack(TensorId output) {
    if (kernel_dims_[1] < 0 || problem_.sections > 1) return false;
    const auto packed = packed_picture(problem_.operand, problem_.window, problem_.results.columns);
    if (!packed) return false;
    const int64_t columns = problem_.window.kernel[1], channels = packed->packed->channels;
    const bool as_they_are = channels == problem_.operand.channels;
    // A vector's channels are those of one column of the kernel.
    if (!as_they_are && channels % isa::kCyclesPerStep != 0) return false;
    Picture::Tokens tokens = *problem_.sums.tokens;
    if (as_they_are) {
      const int axis = axis_of_[static_cast<size_t>(kernel_dims_[1])];
      std::erase(tokens.entries, axis);
      tokens.tokens.insert(tokens.tokens.begin(), axis);
    } else {
      problem_.column_images = columns;
    }
    problem_.operand = *packed;
    problem_.channels = packed->packed->window_words();
    problem_.window.kernel[1] = problem_.window.stride[1] = 1;
    problem_.window.pad[1] = 0;
    problem_.sums = token_picture(output, contract_.output_shape, tokens);
    return true;
  }
  /// Parts of images, of rows, and the kernel's positions: as images of the sums follow each other.
  std::array<int, 4> part_dims() const {
    std::array<int, 4> dims = {-1, -1, kernel_dims_[0], kernel_dims_[1]};
    for (const int dim : matched_) {
      if (!has_role(dim, Role::kBatch) || dim == section_) continue;
      dims.at(coefficient(results_, 0, dim) != 0 ? 0 : 1) = dim;
    }
    return dims;
  }

  const ContractLayer& contract_;
  const TensorAccess& operand_;
  const TensorAccess& results_;
  ColumnsProblem problem_;
  int operand_channel_ = -1;
  int section_ = -1;
  std::array<int, 2> kernel_dims_{-1, -1};
  std::vector<int> axis_of_;  ///< of the sums, by dim
  std::vector<int> matched_;
};

}  // namespace

std::vector<ColumnsProblem> columns_problems(const ContractLayer& contract, TensorId output,
                                             const LayerGraph& graph) {
  if (contract.epilogue != ScalarExpr::identity() || graph.is_constant(contract.a.tensor) ||
      graph.is_constant(contract.b.tensor))
    return {};
  for (const bool operand_first : {false, true}) {
    auto found = ColumnsMatch(contract, operand_first).find(output, graph);
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace kodama::compiler
