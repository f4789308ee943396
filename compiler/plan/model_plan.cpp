#include "compiler/plan/model_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include "compiler/plan/adopt_layouts.h"
#include "compiler/plan/placement_key.h"
#include "isa/arithmetic.h"
#include "isa/cancellation.h"
#include "isa/costs.h"
#include "isa/error.h"
#include "isa/parallel.h"
#include "layout/plan/planner.h"

namespace kodama::compiler {
namespace {

constexpr const char* kModelPlanPart = "model planner";
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Of branch and bound. Most networks are solved after a few; what more of them find for the others is at
/// most one percent better, and takes seconds.
constexpr int64_t kBranches = 60;

/// A LW of LM0 or LM1, in all PEs, is worth so many cycles at first, where constants that stay have no room;
/// then so many times as many, until they have.
constexpr double kFirstPrice = 8, kPriceFactor = 2;
constexpr int kPriceSteps = 4;

/// Of larger images and tensors the planner doesn't look at every word (58 bytes each while it does), but
/// counts with the size alone.
constexpr int64_t kLargeWords = int64_t{1} << 22;
constexpr int64_t kManyWords = int64_t{1} << 20;
constexpr int64_t kSomeWords = int64_t{1} << 17;
/// Of all different images together it looks at so many, of the smaller ones first, beside those of states:
/// less is large where there are many.
constexpr int64_t kMostWords = int64_t{3} << 27;
/// Elements whose places in images are kept, for the next conversion from there.
constexpr size_t kMostPlaces = size_t{1} << 25;

}  // namespace

class ModelPlanner::Impl {
 public:
  Impl(const LayerGraph& graph, const isa::Chip& chip, const KernelOptions& options,
       layout::SolutionCache* cache, std::vector<StateTensor> states)
      : graph_(graph),
        states_(std::move(states)),
        chip_(chip),
        options_(options),
        cache_(cache),
        origins_(graph, rearranges_read_through()) {
    candidates_.resize(graph.layers.size());
    const auto find = [&](size_t k) {
      const Layer& layer = graph.layers[k];
      if (layer.kind() == LayerKind::kRearrange || layer.kind() == LayerKind::kHost) return;
      candidates_[k] = layer_candidates(layer, graph, chip, options);
      if (candidates_[k].empty()) {
        throw isa::UnsupportedError(
            fmt::format("layer '{}' of node{} '{}' ({}): no kernel has room for it in the memories of chip "
                        "'{}'; split the "
                        "node, or take another chip",
                        layer.name, layer.onnx_nodes.size() == 1 ? "" : "s",
                        fmt::join(layer.onnx_nodes, "', '"), summary(layer, graph), chip.name));
      }
    };
    // Kernels of plugins are called one after the other.
    const bool has_plugins =
        std::ranges::any_of(kernels(), [](const Kernel& kernel) { return !kernel.plugin.empty(); });
    if (has_plugins) {
      for (size_t k = 0; k < graph.layers.size(); ++k) find(k);
    } else {
      isa::for_each_in_parallel(graph.layers.size(), find);
    }
    adopt_layouts(graph, chip, candidates_);
    placements_.expect(candidates_);
  }

  ModelPlan run(const std::string& planner, const Observer& observe) {
    on_host_ = planner == kHostPlanner;
    if (on_host_) {
      choice_.assign(graph_.layers.size(), 0);
      sent_.clear();
      price_ = kNever;
    } else {
      choose(planner, observe);
    }
    return stages(planner);
  }

  const std::vector<Candidate>& candidates(int layer) const {
    return candidates_[static_cast<size_t>(layer)];
  }

  layout::GatherProblem gather(const ModelPlan& plan, const PlannedStage& stage,
                               const std::vector<int64_t>& addresses) {
    const StreamPlacement& target = plan.images[static_cast<size_t>(stage.result)].placement;
    check_movable(size_of(target), graph_.tensors[static_cast<size_t>(target.access.tensor)].name);
    forget_places();
    std::map<TensorId, RootImage> images;
    for (size_t k = 0; k < stage.operands.size(); ++k) {
      const int image = stage.operands[k];
      const int id = layout_id(plan.images[static_cast<size_t>(image)].placement);
      images[stage.roots[k]] = {&places(id), addresses[static_cast<size_t>(image)]};
    }
    auto problem = gather_problem(WantedStream(target, graph_, chip_),
                                  addresses[static_cast<size_t>(stage.result)], images, origins_, graph_);
    isa::check_internal(problem.has_value(), kModelPlanPart, "an image lacks an element");
    return std::move(*problem);
  }

 private:
  // ---- what kinds of tensors there are
  bool has_words(TensorId tensor) const {
    return is_exact_word(graph_.tensors[static_cast<size_t>(tensor)].type);
  }
  /// Whether a tensor stays on the chip between layers.
  bool is_kept(TensorId tensor) const { return !on_host_ && has_words(tensor); }
  bool reads_through(TensorId tensor) const { return !on_host_ && origins_.reads_through(tensor); }

  /// Outputs of the Rearrange layers of words.
  std::set<TensorId> rearranges_read_through() const {
    std::set<TensorId> tensors;
    for (const Layer& layer : graph_.layers) {
      if (layer.kind() == LayerKind::kRearrange && has_words(layer.outputs[0]))
        tensors.insert(graph_.storage(layer.outputs[0]));
    }
    return tensors;
  }
  /// Tensors (storage) that the host reads: outputs of the model, operands of Host and host-side Rearrange
  /// layers.
  std::set<TensorId> read_by_host() const {
    std::set<TensorId> tensors;
    for (const TensorId id : graph_.outputs) tensors.insert(graph_.storage(id));
    for (const Layer& layer : graph_.layers) {
      const bool host_rearrange = layer.kind() == LayerKind::kRearrange && !reads_through(layer.outputs[0]);
      if (layer.kind() != LayerKind::kHost && !host_rearrange) continue;
      const std::vector<TensorId> inputs =
          layer.kind() == LayerKind::kHost ? layer.host_inputs : layer_inputs(layer);
      for (const TensorId id : inputs) {
        if (id >= 0) tensors.insert(graph_.storage(id));
      }
    }
    return tensors;
  }
  static bool is_kernel(const Layer& layer) {
    return layer.kind() != LayerKind::kRearrange && layer.kind() != LayerKind::kHost;
  }
  /// Roots of an operand that images are made of.
  std::vector<TensorId> image_roots(TensorId tensor) {
    if (!reads_through(tensor)) return {graph_.storage(tensor)};
    return origins_.roots(tensor);
  }

  /// Whether the host reads the output of a Rearrange that is otherwise read through.
  bool is_fetched_rearrange(const Layer& rearrange, const std::set<TensorId>& fetched) const {
    return reads_through(rearrange.outputs[0]) && fetched.contains(graph_.storage(rearrange.outputs[0]));
  }
  StreamPlacement fetched_placement(const Layer& rearrange) const {
    const TensorId result = rearrange.outputs[0];
    return natural_placement(result, graph_.tensors[static_cast<size_t>(result)].shape, chip_);
  }

  // ---- layouts by number

  int layout_id(const StreamPlacement& placement) { return placements_.number_of(placement); }
  const StreamPlacement& placement(int id) const { return placements_[id]; }
  const Shape& shape_of(const StreamPlacement& placement) const {
    return graph_.tensors[static_cast<size_t>(placement.access.tensor)].shape;
  }
  /// Valid until forget_places().
  const std::vector<StreamWord>& places(int id) {
    const auto [found, is_new] = places_.try_emplace(id);
    if (is_new) {
      found->second = places_of(id);
      known_places_ += found->second.size();
    }
    return found->second;
  }
  std::vector<StreamWord> places_of(int id) const {
    return stream_places(placement(id), shape_of(placement(id)), chip_);
  }
  /// Those of large networks' images together would take gigabytes.
  void forget_places() {
    if (known_places_ <= kMostPlaces) return;
    places_.clear();
    known_places_ = 0;
  }
  int natural(TensorId storage) {
    return layout_id(natural_placement(storage, graph_.tensors[static_cast<size_t>(storage)].shape, chip_));
  }

  // ---- costs

  /// What `conversion` is at least, by sizes and layouts alone, 0 where the images may be the same; or what
  /// it is, if another solution has asked for it.
  double at_least(TensorId root, int from, int to) {
    const auto known = conversions_.find({root, from, to});
    if (known != conversions_.end()) return known->second;
    const auto [found, is_new] = at_least_.try_emplace({root, from, to}, 0);
    if (is_new) found->second = least_conversion(root, from, to);
    return found->second;
  }
  double least_conversion(TensorId root, int from, int to) {
    if (is_same_by_description(root, from, to).value_or(true)) return 0;
    if (has_halves(from) || has_halves(to)) return sending_beside(root, to);
    if (is_sampled(from, to)) {
      if (const auto refused = refused_conversion(from, to)) return *refused;
    }
    const StreamPlacement& image = placement(to);
    const TensorId tensor = image.access.tensor;
    // What the image leaves out of its tensor may be the root's, each once.
    const int64_t left_out = element_count(shape_of(image)) - different_elements(image, shape_of(image));
    const int64_t words = std::max<int64_t>(origins_.different(tensor, root) - left_out, 0);
    return static_cast<double>(layout::least_gather_cycles(stream_group_lw(image),
                                                           image.transport.parts_per_group(),
                                                           image.transport.groups_used(), words, chip_));
  }
  bool has_halves(int id) const { return placement(id).element == StreamElement::kHalf; }
  /// What nothing on the chip makes of another image of a root: the host sends it, too.
  double sending_beside(TensorId root, int to) const {
    const bool is_root = graph_.storage(placement(to).access.tensor) == root;
    return is_root && graph_.is_packed(root) ? static_cast<double>(link_cycles(placement(to))) : kNever;
  }
  /// Whether an operand is an image of its own beside that which is sent of its tensor by choice.
  bool is_sent_beside(TensorId tensor, int id) {
    const auto chosen = sent_.find(graph_.storage(tensor));
    const bool is_chosen = chosen != sent_.end();
    if (!has_halves(id) && !(is_chosen && has_halves(chosen->second))) return false;
    return !is_chosen || !is_same(chosen->first, chosen->second, id);
  }
  std::optional<double> refused_conversion(int from, int to) const {
    if (!has_all_elements(from)) return kNever;
    if (!is_movable(size_of(placement(to)))) return kRefusedCycles;
    return std::nullopt;
  }
  int64_t sampled_cycles(const PlannedStage& relayout, const ModelPlan& plan, const StreamPlacement& to) {
    double cycles = 0;
    for (size_t k = 0; k < relayout.operands.size(); ++k) {
      const PlannedImage& source = plan.images[static_cast<size_t>(relayout.operands[k])];
      cycles += large_gather_cycles(to, relayout.roots[k], source.placement, origins_, graph_, chip_);
    }
    return static_cast<int64_t>(cycles);
  }
  /// Cycles of making image `to` of the elements that come from `root`, which is there as image `from`.
  double conversion(TensorId root, int from, int to) {
    isa::stop_if_cancelled();
    const auto [found, is_new] = conversions_.try_emplace({root, from, to}, 0);
    if (!is_new) return found->second;
    if (has_halves(from) || has_halves(to))
      return found->second = is_same(root, from, to) ? 0 : sending_beside(root, to);
    return found->second = remembered_conversion(root, from, to);
  }
  double remembered_conversion(TensorId root, int from, int to) {
    KnownCosts& known = known_costs(root, to);
    const std::string& key = placements_.key(from);
    const auto remembered = known.costs.find(key);
    if (remembered != known.costs.end()) return remembered->second;
    Gathering gathering = described(root, from, to);
    if (!gathering.is_done) {
      forget_places();
      origins_.all_of(placement(to).access.tensor);
      look_at_words(gathering, gathering.needs_places() ? &places(from) : nullptr);
    }
    note(gathering);
    return gathering.cycles;
  }
  /// What a conversion is found to be.
  struct Gathering {
    TensorId root = -1;
    int from = -1, to = -1;
    std::optional<bool> is_same = {};
    double cycles = 0;  ///< at least, as long as it isn't done
    bool is_done = false;
    bool is_sampled = false;
    bool needs_places() const { return !is_sampled || !is_same; }
  };
  /// As far as no words have to be looked at.
  Gathering described(TensorId root, int from, int to) {
    Gathering found{root, from, to, known_same(root, from, to)};
    found.is_done = found.is_same.value_or(false);
    if (found.is_done || !is_sampled(from, to)) return found;
    found.is_sampled = true;
    const auto refused = refused_conversion(from, to);
    found.cycles = refused ? *refused : least_conversion(root, from, to);
    found.is_done = refused && found.is_same;
    return found;
  }
  /// Does the rest, word by word. May run beside others: the origins of the target's tensor are known.
  void look_at_words(Gathering& found, const std::vector<StreamWord>* places) {
    found.is_done = true;
    if (found.needs_places()) {
      const WantedStream wanted(placement(found.to), graph_, chip_);
      if (!found.is_same)
        found.is_same =
            is_same_image(wanted, found.root, placement(found.from), *places, origins_, graph_, chip_);
      if (*found.is_same) found.cycles = 0;
      if (*found.is_same || found.cycles >= kRefusedCycles) return;
      if (!found.is_sampled) {
        const auto problem = gather_problem(wanted, 0, {{found.root, {places, 0}}}, origins_, graph_);
        found.cycles =
            problem ? static_cast<double>(layout::Gather(*problem, chip_).estimated_cycles()) : kNever;
        return;
      }
    }
    // No sample says less than what is known of the whole: a plan's bound is a bound.
    found.cycles = std::max(
        found.cycles,
        large_gather_cycles(placement(found.to), found.root, placement(found.from), origins_, graph_, chip_));
  }
  void note(const Gathering& found) {
    KnownCosts& known = known_costs(found.root, found.to);
    const std::string& key = placements_.key(found.from);
    known.costs[key] = found.cycles;
    known.same[key] = *found.is_same;
    known.has_new = true;
  }
  /// Works out conversions that will be asked for, side by side. `changes` are between images of `roots`.
  void expect(const std::vector<layout::PlanProblem::Change>& changes, const std::vector<TensorId>& roots) {
    std::vector<Gathering> gatherings;
    std::set<std::pair<const KnownCosts*, std::string>> seen;  // layers that are alike have the same
    for (const auto& [tensor, from, to] : changes) {
      const TensorId root = roots[static_cast<size_t>(tensor)];
      if (root < 0 || conversions_.contains({root, from, to}) || has_halves(from) || has_halves(to)) continue;
      const KnownCosts& known = known_costs(root, to);
      const std::string& key = placements_.key(from);
      if (known.costs.contains(key) || !seen.insert({&known, key}).second) continue;
      Gathering found = described(root, from, to);
      if (!found.is_done) gatherings.push_back(found);
    }
    for (size_t first = 0, end = 0; first < gatherings.size(); first = end) {
      forget_places();
      std::vector<int> missing;
      std::set<int> sources;
      for (size_t elements = known_places_; end < gatherings.size() && elements <= kMostPlaces; ++end) {
        const int from = gatherings[end].from;
        origins_.all_of(placement(gatherings[end].to).access.tensor);
        if (!gatherings[end].needs_places()) continue;
        if (places_.contains(from) || !sources.insert(from).second) continue;
        missing.push_back(from);
        elements += static_cast<size_t>(element_count(shape_of(placement(from))));
      }
      std::vector<std::vector<StreamWord>> found(missing.size());
      isa::for_each_in_parallel(missing.size(), [&](size_t k) { found[k] = places_of(missing[k]); });
      for (size_t k = 0; k < missing.size(); ++k) {
        known_places_ += found[k].size();
        places_[missing[k]] = std::move(found[k]);
      }
      isa::for_each_in_parallel(end - first, [&](size_t k) {
        Gathering& own = gatherings[first + k];
        look_at_words(own, own.needs_places() ? &places_.at(own.from) : nullptr);
      });
      for (size_t k = first; k < end; ++k) note(gatherings[k]);
    }
  }

  /// What is known of the ways to an image, by the key of where they start: one entry of the cache. It names
  /// no tensor, so that layers that are alike have the same.
  struct KnownCosts {
    std::map<std::string, double> costs;
    std::map<std::string, bool> same;  ///< is_same_image
    bool has_new = false;
  };
  KnownCosts& known_costs(TensorId root, int to) {
    KnownCosts*& entry = known_of_[{root, to}];
    if (entry != nullptr) return *entry;
    const StreamPlacement& target = placement(to);
    const std::string key_of_ends = fmt::format(
        "gather {}, samples of {}\nchip {}\nroot {}\nelements {}\ntensor {}\n{}\n", layout::solver_version(),
        kSampleWords, chip_.hash, shape_to_string(graph_.tensors[static_cast<size_t>(root)].shape),
        origins_.describe(target.access.tensor, root), shape_to_string(shape_of(target)),
        placements_.key(to));
    const auto [found, is_new] = known_.try_emplace(key_of_ends);
    KnownCosts& known = found->second;
    entry = &known;
    if (!is_new || cache_ == nullptr) return known;
    if (const auto text = cache_->find(key_of_ends)) {
      std::istringstream lines(*text);
      for (std::string line; std::getline(lines, line);) {
        // The cost, a blank, the key; a key has no line ends.
        const size_t blank = line.find(' ');
        if (blank != std::string::npos)
          known.costs[line.substr(blank + 1)] = std::strtod(line.c_str(), nullptr);
      }
    }
    return known;
  }
  void remember_costs() {
    if (cache_ == nullptr) return;
    for (auto& [key, known] : known_) {
      if (!known.has_new) continue;
      std::string text;
      for (const auto& [from, cost] : known.costs) text += fmt::format("{} {}\n", cost, from);
      cache_->store(key, text);
      known.has_new = false;
    }
  }

  bool is_large(int id) const {
    const int64_t size = size_of(placement(id));
    return size > kLargeWords || (size > large_words_ && !is_of_state(id));
  }
  int64_t size_of(const StreamPlacement& image) const {
    return std::max(words(image), element_count(shape_of(image)));
  }
  bool is_of_state(int id) const {
    const TensorId storage = graph_.storage(placement(id).access.tensor);
    return is_state(storage) || stays_as_state(storage);
  }
  /// Chooses what is large, by all images that there may be. Those of states are looked at besides: they may
  /// stay in any of them, and a wrong one costs as much in every run.
  void set_large_words() {
    std::map<int, int64_t> of_width;  // words of images, by the width of their number
    std::set<std::string_view> seen;
    for (const auto& [image, id] : placements_.numbers()) {
      if (!seen.insert(image.second).second) continue;
      const int64_t size = size_of(placement(id));
      if (size > kLargeWords || is_of_state(id)) continue;
      of_width[std::bit_width(static_cast<uint64_t>(size))] += size;
    }
    large_words_ = kLargeWords;
    int64_t sum = 0;
    for (const auto& [width, all] : of_width) {
      sum += all;
      if (sum <= kMostWords) continue;
      large_words_ = std::max((int64_t{1} << width) / 2 - 1, kSomeWords);
      break;
    }
  }
  /// Whether a relayout is counted by a part of it: what is large; from or to images of rows, whose kernels
  /// are to agree anyway; and what the host sends as it is, where there are many ways to take it. What it
  /// sends otherwise is counted so, too, but for states: these stay, and their place is worth the time.
  bool is_sampled(int from, int to) const {
    if (is_large(from) || is_large(to)) return true;
    const int64_t most = std::max(words(placement(from)), words(placement(to)));
    if (placement(from).is_output)
      return (placement(from).is_rows || placement(to).is_rows) && most > kSomeWords;
    if (placement(to).is_rows || most <= kManyWords) return false;
    return is_natural(from) || !is_state(graph_.storage(placement(from).access.tensor));
  }
  /// All of a tensor as it is.
  bool is_natural(int id) const {
    const StreamPlacement& image = placement(id);
    return placements_.key(id) == key_of(natural_placement(image.access.tensor, shape_of(image), chip_));
  }
  static int64_t words(const StreamPlacement& image) {
    return isa::kWordsPerLong * stream_group_lw(image) * image.transport.groups_used();
  }
  /// Whether an image surely has them: it is a kernel's result, or all of the tensor as it is. What an
  /// operand is sent as may leave some out.
  bool has_all_elements(int id) const { return placement(id).is_output || is_natural(id); }
  /// Whether is_same, as far as it can be told without looking at every word.
  std::optional<bool> is_same_by_description(TensorId root, int from, int to) {
    if (from == to) return true;
    if (has_halves(from) || has_halves(to)) {
      return placement(from).element == placement(to).element &&
             graph_.storage(placement(to).access.tensor) == root && essential_key(to) == essential_key(from);
    }
    if (placement(from).is_rows || placement(to).is_rows) {
      const StreamPlacement& there = placement(from);
      const StreamPlacement& wanted = placement(to);
      if (!there.is_rows || !wanted.is_rows) return false;
      if (there.access.tensor == wanted.access.tensor) {
        // Rows that no L2B has are never read; channels that fill a chunk up are what the maker says.
        const bool is_filled = wanted.layout.padding() == layout::Padding::kUndefined ||
                               wanted.layout.padding() == there.layout.padding();
        return is_filled && placements_.key_as(to, there.layout.padding(), there.is_output, false) ==
                                placements_.key(from);
      }
    }
    if (is_large(from) || is_large(to)) {
      // The same words in either role; a kernel's result has no padding and no fill that can be relied on.
      const StreamPlacement& wanted = placement(to);
      const StreamPlacement& there = placement(from);
      const bool is_free =
          wanted.layout.padding() == layout::Padding::kUndefined && is_whole(wanted, shape_of(wanted));
      if ((there.is_output && !is_free) || graph_.storage(wanted.access.tensor) != root) return false;
      return placements_.key_as(to, wanted.layout.padding(), there.is_output, true) == essential_key(from) ||
             (is_free && is_whole(there, shape_of(there)) && are_alike(wanted, there));
    }
    if (!may_be_same_image(placement(to), root, placement(from), origins_, graph_)) return false;
    return std::nullopt;
  }
  const std::string& essential_key(int id) {
    return placements_.key_as(id, placement(id).layout.padding(), placement(id).is_output, true);
  }
  /// Whether image `from` of a root can be read as image `to`.
  bool is_same(TensorId root, int from, int to) {
    if (const auto known = known_same(root, from, to)) return *known;
    const WantedStream wanted(placement(to), graph_, chip_);
    forget_places();
    const bool same = is_same_image(wanted, root, placement(from), places(from), origins_, graph_, chip_);
    known_costs(root, to).same[placements_.key(from)] = same;
    return same;
  }
  /// As far as it is known, by description or because it has been asked for.
  std::optional<bool> known_same(TensorId root, int from, int to) {
    const auto [found, is_new] = same_.try_emplace({root, from, to});
    if (is_new) found->second = is_same_by_description(root, from, to);
    if (!found->second) {
      const std::map<std::string, bool>& same = known_costs(root, to).same;
      const auto known = same.find(placements_.key(from));
      if (known != same.end()) found->second = known->second;
    }
    return found->second;
  }
  static int64_t link_bytes(const StreamPlacement& placement) {
    return stream_group_lw(placement) * placement.transport.groups_used() *
           static_cast<int64_t>(sizeof(uint64_t));
  }
  int64_t link_cycles(const StreamPlacement& placement) const {
    return isa::host_link_cycles(link_bytes(placement), chip_);
  }

  static const StreamPlacement& result_of(const Candidate& candidate) {
    const auto found = std::ranges::find_if(candidate.placements, &StreamPlacement::is_output);
    return *found;
  }

  // ---- the problem

  /// A tensor that candidates of a layer read or make: one stream of each that does.
  struct Operand {
    TensorId tensor = -1;
    bool is_output = false;
    std::vector<const StreamPlacement*> placements;  ///< by candidate
  };
  static std::vector<Operand> operands_of(const std::vector<Candidate>& candidates) {
    std::vector<Operand> operands;
    for (size_t number = 0; number < candidates.size(); ++number) {
      for (const StreamPlacement& placement : candidates[number].placements) {
        const auto is_it = [&](const Operand& operand) {
          return operand.tensor == placement.access.tensor && operand.is_output == placement.is_output &&
                 operand.placements[number] == nullptr;
        };
        auto found = std::ranges::find_if(operands, is_it);
        if (found == operands.end()) {
          operands.push_back({placement.access.tensor, placement.is_output, {}});
          operands.back().placements.resize(candidates.size());
          found = operands.end() - 1;
        }
        found->placements[number] = &placement;
      }
    }
    return operands;
  }

  void choose(const std::string& planner, const Observer& observe) {
    layout::PlanProblem problem;
    const std::set<TensorId> fetched = read_by_host();
    std::map<TensorId, int> tensor_number;  // by root
    std::map<int, int> node_of_layer;
    // What reads tensors: operands of kernels, and relayouts whose result the host fetches.
    struct Reader {
      int node = 0;
      int operand = 0;
      Operand stream;
    };
    std::vector<Reader> readers;
    const auto add_tensor = [&](TensorId root, int node, int operand) {
      layout::PlanProblem::Tensor tensor;
      tensor.name = graph_.tensors[static_cast<size_t>(root)].name;
      tensor.maker = {node, operand};
      tensor.conversion = [this, root](int from, int to) { return conversion(root, from, to); };
      tensor.at_least = [this, root](int from, int to) { return at_least(root, from, to); };
      tensor_number[root] = static_cast<int>(problem.tensors.size());
      problem.tensors.push_back(std::move(tensor));
    };
    for (size_t k = 0; k < graph_.layers.size(); ++k) {
      const Layer& layer = graph_.layers[k];
      if (!is_kernel(layer)) continue;
      layout::PlanProblem::Node node;
      node.name = layer.name;
      const TensorId result = graph_.storage(layer.outputs[0]);
      std::vector<Operand> operands = operands_of(candidates_[k]);
      for (size_t number = 0; number < candidates_[k].size(); ++number) {
        const Candidate& candidate = candidates_[k][number];
        layout::PlanProblem::Candidate choice;
        choice.name = candidate.kernel;
        choice.cost = cost(candidate, price_);
        if ((fetched.contains(result) && !stays_as_state(result)) || !is_kept(result))
          choice.cost += static_cast<double>(link_cycles(result_of(candidate)));
        for (const Operand& operand : operands) {
          const StreamPlacement* placement = operand.placements[number];
          choice.layouts.push_back(placement != nullptr ? layout_id(*placement)
                                                        : layout::PlanProblem::kUnread);
        }
        node.candidates.push_back(std::move(choice));
      }
      node_of_layer[static_cast<int>(k)] = static_cast<int>(problem.nodes.size());
      const auto node_number = static_cast<int>(problem.nodes.size());
      for (size_t operand = 0; operand < operands.size(); ++operand) {
        Operand& stream = operands[operand];
        if (stream.is_output && is_kept(result)) {
          add_tensor(result, node_number, static_cast<int>(operand));
        } else if (!stream.is_output && !graph_.is_constant(stream.tensor) && is_kept(stream.tensor)) {
          readers.push_back({node_number, static_cast<int>(operand), std::move(stream)});
        }
      }
      problem.nodes.push_back(std::move(node));
    }
    for (const Layer& layer : graph_.layers) {
      if (layer.kind() != LayerKind::kRearrange || !is_fetched_rearrange(layer, fetched)) continue;
      const StreamPlacement to = fetched_placement(layer);
      readers.push_back({static_cast<int>(problem.nodes.size()),
                         0,
                         {to.access.tensor, false, {&placement(layout_id(to))}}});
      problem.nodes.push_back(
          {layer.name, {{static_cast<double>(link_cycles(to)), {layout_id(to)}, "fetched"}}});
    }
    // Tensors from the host, as soon as something reads them.
    std::map<TensorId, int> sender;
    for (const Reader& reader : readers) {
      const TensorId tensor = reader.stream.tensor;
      for (const TensorId root : image_roots(tensor)) {
        if (graph_.is_constant(root)) continue;
        if (!tensor_number.contains(root)) {
          layout::PlanProblem::Node source;
          source.name = graph_.tensors[static_cast<size_t>(root)].name;
          source.candidates.push_back(sending(root, natural(root)));
          sender[root] = static_cast<int>(problem.nodes.size());
          problem.nodes.push_back(std::move(source));
          add_tensor(root, sender[root], 0);
        }
        problem.tensors[static_cast<size_t>(tensor_number[root])].readers.push_back(
            {reader.node, reader.operand});
        const auto from_host = sender.find(root);
        if (from_host == sender.end() || reads_through(tensor)) continue;
        for (const StreamPlacement* placement : reader.stream.placements) {
          if (placement == nullptr) continue;
          // A tie brings what has the state's own shape.
          if (is_state(root) && shape_of(*placement) != graph_.tensors[static_cast<size_t>(root)].shape)
            continue;
          problem.nodes[static_cast<size_t>(from_host->second)].candidates.push_back(
              sending(root, layout_id(*placement)));
        }
      }
    }
    // What the next run finds in a state's place lies as it does: a node behind both reads both in one
    // layout.
    for (const StateTensor& state : states_) {
      const auto node = sender.find(graph_.storage(state.input));
      const auto made = tensor_number.find(graph_.storage(state.output));
      if (node == sender.end() || made == tensor_number.end() || sender.contains(made->first)) continue;
      if (graph_.tensors[static_cast<size_t>(made->first)].shape !=
          graph_.tensors[static_cast<size_t>(node->first)].shape)
        continue;
      layout::PlanProblem::Tensor same;
      same.name = "place of " + problem.nodes[static_cast<size_t>(node->second)].name;
      same.maker = {node->second, 1};
      same.conversion = same.at_least = [](int from, int to) { return from == to ? 0 : kNever; };
      const auto keeper = static_cast<int>(problem.nodes.size());
      same.readers = {{keeper, 0}};
      problem.tensors.push_back(std::move(same));
      problem.tensors[static_cast<size_t>(made->second)].readers.push_back({keeper, 1});
      layout::PlanProblem::Node kept;
      kept.name = problem.tensors.back().name;
      for (layout::PlanProblem::Candidate& choice :
           problem.nodes[static_cast<size_t>(node->second)].candidates) {
        const int there = choice.layouts.front();
        StreamPlacement next = placement(there);
        next.access.tensor = made->first;
        choice.layouts.push_back(there);
        kept.candidates.push_back({0, {there, layout_id(next)}, "kept"});
      }
      problem.nodes.push_back(std::move(kept));
    }
    std::vector<TensorId> roots(problem.tensors.size(), -1);
    for (const auto& [root, tensor] : tensor_number) roots[static_cast<size_t>(tensor)] = root;
    for (size_t t = problem.tensors.size(); t-- > 0;) {
      if (!problem.tensors[t].readers.empty()) continue;
      problem.tensors.erase(problem.tensors.begin() + static_cast<ptrdiff_t>(t));
      roots.erase(roots.begin() + static_cast<ptrdiff_t>(t));
    }
    set_large_words();
    problem.expect = [&](const std::vector<layout::PlanProblem::Change>& changes) { expect(changes, roots); };
    const auto solve = [&](int64_t branches) {
      return layout::plan(problem, planner, {.branches = branches, .given = options_.passes});
    };
    // What constants that stay would take of the PEs' memories.
    const auto demand = [&](const layout::Plan& plan) {
      int64_t lw = 0;
      for (const auto& [k, node] : node_of_layer) {
        const Candidate& chosen =
            candidates_[static_cast<size_t>(k)][static_cast<size_t>(plan.choice[static_cast<size_t>(node)])];
        if (stays(chosen, price_)) lw += chosen.constant_lw;
      }
      return lw;
    };
    const auto set_price = [&](double price) {
      const double was = std::exchange(price_, price);
      for (const auto& [k, node] : node_of_layer) {
        std::vector<layout::PlanProblem::Candidate>& list =
            problem.nodes[static_cast<size_t>(node)].candidates;
        for (size_t number = 0; number < list.size(); ++number) {
          const Candidate& candidate = candidates_[static_cast<size_t>(k)][number];
          list[number].cost += cost(candidate, price) - cost(candidate, was);
        }
      }
    };
    set_price(options_.constants_stay ? 0 : kNever);
    // While the price is sought, a good plan will do.
    const auto fits = [&] { return demand(solve(0)) <= room_for_constants(); };
    if (options_.constants_stay && !fits()) {
      // About the lowest price for which there is room; for the highest there always is.
      double low = 0, high = kNever;
      for (int step = 0; step < kPriceSteps || high == kNever; ++step) {
        set_price(high == kNever ? (low == 0 ? kFirstPrice : kPriceFactor * low)
                  : low == 0     ? high / kPriceFactor
                                 : std::sqrt(low * high));
        (fits() ? high : low) = price_;
      }
      set_price(high);
    }
    const layout::Plan found = solve(kBranches);
    if (observe) observe(problem, found);
    remember_costs();
    choice_.assign(graph_.layers.size(), 0);
    for (const auto& [k, node] : node_of_layer)
      choice_[static_cast<size_t>(k)] = found.choice[static_cast<size_t>(node)];
    sent_.clear();
    for (const auto& [root, node] : sender) {
      sent_[root] = problem.nodes[static_cast<size_t>(node)]
                        .candidates[static_cast<size_t>(found.choice[static_cast<size_t>(node)])]
                        .layouts[0];
    }
    bound_ = found.bound;
    proven_ = found.proven;
  }
  /// What a kernel's constants take of DRAM in every run, of which none stay: loads come ahead, behind other
  /// layers' cycles, so that DRAM is what all of them share.
  int64_t streamed_cycles(const Candidate& candidate) const {
    if (options_.constants_stay) return 0;
    int64_t lw = 0;
    for (const StreamPlacement& operand : candidate.placements) {
      if (graph_.is_constant(operand.access.tensor)) lw += stream_group_lw(operand);
    }
    return static_cast<int64_t>(std::ceil(static_cast<double>(lw) / chip_.transfer.dram_lw_per_cycle));
  }
  /// Cycles of a kernel, with what its constants cost: of DRAM, or at a price for a LW of LM0 or LM1 that
  /// stays theirs.
  double cost(const Candidate& candidate, double price) const {
    const auto all = static_cast<double>(candidate.predicted_cycles + streamed_cycles(candidate));
    if (!stays(candidate, price)) return all;
    return all - static_cast<double>(candidate.constant_cycles) +
           price * static_cast<double>(candidate.constant_lw);
  }
  static bool stays(const Candidate& candidate, double price) {
    return candidate.constant_lw > 0 && price < kNever &&
           price * static_cast<double>(candidate.constant_lw) <
               static_cast<double>(candidate.constant_cycles);
  }
  /// LW of LM0 and LM1 that stages leave to constants, about.
  int64_t room_for_constants() const {
    constexpr double kRoom = 0.6;
    return static_cast<int64_t>(kRoom * 2 * static_cast<double>(chip_.memory.lm_words / isa::kWordsPerLong));
  }

  /// Whether an input stays on the chip from run to run, or a result as what the next run reads.
  bool is_state(TensorId root) const { return has_state(&StateTensor::input, root); }
  bool stays_as_state(TensorId storage) const { return has_state(&StateTensor::output, storage); }
  bool has_state(TensorId StateTensor::*end, TensorId storage) const {
    return std::ranges::any_of(states_,
                               [&](const StateTensor& s) { return graph_.storage(s.*end) == storage; });
  }
  layout::PlanProblem::Candidate sending(TensorId root, int id) const {
    if (is_state(root)) return {0, {id}, "kept"};
    return {static_cast<double>(link_cycles(placement(id))), {id}, "sent"};
  }

  // ---- the stages

  ModelPlan stages(const std::string& planner) {
    ModelPlan plan;
    std::map<std::pair<TensorId, int>, int> made;  // image by root (or tensor) and layout
    std::map<TensorId, int> home;                  // the image that a kernel made or the host sends
    const std::set<TensorId> fetched = read_by_host();
    plan.summary.planner = planner;
    plan.summary.bound = on_host_ ? 0 : bound_;
    plan.summary.proven = !on_host_ && proven_;

    const auto add_image = [&](PlannedImage::Kind kind, const StreamPlacement& placement) {
      plan.images.push_back({kind, placement, -1, -1});
      return static_cast<int>(plan.images.size() - 1);
    };
    const auto add_stage = [&](PlannedStage stage) {
      const auto number = static_cast<int>(plan.stages.size());
      const auto touch = [&](int image) {
        PlannedImage& used = plan.images[static_cast<size_t>(image)];
        if (used.first_stage < 0) used.first_stage = number;
        used.last_stage = number;
      };
      for (const int image : stage.operands) touch(image);
      if (stage.result >= 0) touch(stage.result);
      plan.stages.push_back(std::move(stage));
    };
    const auto send = [&](const StreamPlacement& placement) {
      plan.summary.link_cycles += link_cycles(placement);
      return add_image(PlannedImage::Kind::kSent, placement);
    };
    // The image that has a root's elements.
    const auto home_of = [&](TensorId root) {
      const auto found = home.find(root);
      if (found != home.end()) return found->second;
      int image = -1;
      if (graph_.is_constant(root)) {
        image = add_image(PlannedImage::Kind::kConstant, placement(natural(root)));
      } else {
        const auto chosen = sent_.find(root);
        image = send(placement(chosen != sent_.end() ? chosen->second : natural(root)));
      }
      return home[root] = image;
    };
    // A relayout on the chip to an image of `tensor`.
    const auto move = [&](int layer, TensorId tensor, const StreamPlacement& to, bool fetch) {
      PlannedStage stage;
      stage.kind = PlannedStage::Kind::kRelayout;
      stage.layer = layer;
      stage.fetch = fetch;
      stage.rearrange_layers = origins_.rearrange_layers(tensor);
      for (const TensorId root : image_roots(tensor)) {
        stage.roots.push_back(root);
        stage.operands.push_back(home_of(root));
      }
      stage.result = add_image(PlannedImage::Kind::kRelaid, to);
      const int target = layout_id(to);
      const auto is_large_source = [&](int image) {
        return is_large(layout_id(plan.images[static_cast<size_t>(image)].placement));
      };
      if (is_large(target) || std::ranges::any_of(stage.operands, is_large_source)) {
        // Nothing is made for what nobody can run: the origins of a tensor that is read through.
        if (is_movable(size_of(to)) || !reads_through(tensor))
          stage.estimated_cycles = sampled_cycles(stage, plan, to);
        plan.summary.relayout_cycles += stage.estimated_cycles;
        ++plan.summary.relayouts;
        plan.summary.constant_bytes += link_bytes(to) / 2;
        const int image = stage.result;
        add_stage(std::move(stage));
        return image;
      }
      // Addresses don't matter for the estimate, as long as images don't overlap.
      std::vector<int64_t> addresses;
      int64_t at = 0;
      for (const PlannedImage& image : plan.images) {
        addresses.push_back(at);
        at += isa::round_up(stream_group_lw(image.placement), kImageAlignmentLw);
      }
      const layout::GatherProblem problem = gather(plan, stage, addresses);
      const layout::Gather found(problem, chip_);
      stage.estimated_cycles = found.estimated_cycles();
      plan.summary.relayout_cycles += stage.estimated_cycles;
      plan.summary.constant_bytes +=
          found.tables_lw() * chip_.groups * static_cast<int64_t>(sizeof(uint64_t));
      ++plan.summary.relayouts;
      const int image = stage.result;
      add_stage(std::move(stage));
      return image;
    };

    for (size_t k = 0; k < graph_.layers.size(); ++k) {
      const Layer& layer = graph_.layers[k];
      const auto number = static_cast<int>(k);
      if (layer.kind() == LayerKind::kRearrange && reads_through(layer.outputs[0])) {
        if (!is_fetched_rearrange(layer, fetched)) continue;
        const StreamPlacement to = fetched_placement(layer);
        move(number, layer.outputs[0], to, true);
        plan.summary.link_cycles += link_cycles(to);
        continue;
      }
      PlannedStage stage;
      stage.layer = number;
      if (!is_kernel(layer)) {
        stage.kind = layer.kind() == LayerKind::kRearrange ? PlannedStage::Kind::kHostRearrange
                                                           : PlannedStage::Kind::kHost;
        add_stage(std::move(stage));
        continue;
      }
      stage.kind = PlannedStage::Kind::kKernel;
      stage.candidate = candidates_[k][static_cast<size_t>(choice_[k])];
      stage.estimated_cycles = stage.candidate.predicted_cycles;
      if (stays(stage.candidate, price_)) stage.estimated_cycles -= stage.candidate.constant_cycles;
      plan.summary.kernel_cycles += stage.estimated_cycles + streamed_cycles(stage.candidate);
      for (const StreamPlacement& operand : stage.candidate.placements) {
        const TensorId tensor = operand.access.tensor;
        if (operand.is_output) {
          stage.result = add_image(PlannedImage::Kind::kMade, operand);
          const TensorId storage = graph_.storage(tensor);
          stage.fetch = fetched.contains(storage) || !is_kept(tensor);
          if (stage.fetch) plan.summary.link_cycles += link_cycles(operand);
          if (is_kept(tensor)) home[storage] = stage.result;
        } else if (graph_.is_constant(tensor)) {
          stage.operands.push_back(add_image(PlannedImage::Kind::kConstant, operand));
        } else if (!is_kept(tensor)) {
          stage.operands.push_back(send(operand));
        } else {
          const int id = layout_id(operand);
          const auto known = made.find({graph_.storage(tensor), id});
          int image = -1;
          if (known != made.end()) {
            image = known->second;
          } else {
            const std::vector<TensorId> roots = image_roots(tensor);
            if (is_sent_beside(tensor, id)) {
              image = send(operand);
            } else if (roots.size() == 1 && !graph_.is_constant(roots[0])) {
              const int there = home_of(roots[0]);
              const int from = layout_id(plan.images[static_cast<size_t>(there)].placement);
              if (is_same(roots[0], from, id)) image = there;
            }
            if (image < 0) image = move(number, tensor, operand, false);
            made[{graph_.storage(tensor), id}] = image;
          }
          stage.operands.push_back(image);
        }
      }
      add_stage(std::move(stage));
    }
    for (const PlannedImage& image : plan.images) {
      if (image.kind == PlannedImage::Kind::kConstant)
        plan.summary.constant_bytes += link_bytes(image.placement);
    }
    if (plan.summary.constant_bytes > 0)
      plan.summary.constant_cycles = isa::host_link_cycles(plan.summary.constant_bytes, chip_);
    return plan;
  }

  const LayerGraph& graph_;
  const std::vector<StateTensor> states_;
  const isa::Chip& chip_;
  const KernelOptions options_;
  layout::SolutionCache* cache_;
  ElementOrigins origins_;
  std::vector<std::vector<Candidate>> candidates_;
  bool on_host_ = false;

  NumberedPlacements placements_;  ///< layouts of the planner's problem
  std::map<int, std::vector<StreamWord>> places_;
  size_t known_places_ = 0;
  int64_t large_words_ = kLargeWords;
  std::map<std::tuple<TensorId, int, int>, double> conversions_;
  std::map<std::tuple<TensorId, int, int>, double> at_least_;
  std::map<std::tuple<TensorId, int, int>, std::optional<bool>> same_;
  std::map<std::string, KnownCosts> known_;
  std::map<std::pair<TensorId, int>, KnownCosts*> known_of_;

  // Of the plan being made.
  std::vector<int> choice_;
  std::map<TensorId, int> sent_;
  double bound_ = 0;
  double price_ = kNever;  ///< of a LW of LM0 or LM1 for constants that stay
  bool proven_ = false;
};

ModelPlanner::ModelPlanner(const LayerGraph& graph, const isa::Chip& chip, const KernelOptions& options,
                           layout::SolutionCache* cache, std::vector<StateTensor> states)
    : impl_(std::make_unique<Impl>(graph, chip, options, cache, std::move(states))) {}
ModelPlanner::~ModelPlanner() = default;

std::vector<std::string> ModelPlanner::planner_names() {
  std::vector<std::string> names;
  for (const layout::Planner& planner : layout::planners()) names.push_back(planner.name);
  names.emplace_back(kHostPlanner);
  return names;
}

ModelPlan ModelPlanner::plan(const std::string& planner, const Observer& observe) {
  const std::vector<std::string> names = planner_names();
  if (std::ranges::find(names, planner) == names.end()) {
    throw isa::UserError(
        fmt::format("there is no planner '{}'; allowed are {}", planner, fmt::join(names, ", ")));
  }
  return impl_->run(planner, observe);
}

const std::vector<Candidate>& ModelPlanner::candidates(int layer) const {
  return impl_->candidates(layer);
}

layout::GatherProblem ModelPlanner::gather(const ModelPlan& plan, const PlannedStage& stage,
                                           const std::vector<int64_t>& addresses) {
  return impl_->gather(plan, stage, addresses);
}

}  // namespace kodama::compiler
