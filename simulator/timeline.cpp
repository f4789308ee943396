#include "simulator/timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

namespace kodama::simulator {
namespace {

constexpr std::array<const char*, 6> kTrackNames{"regions", "stalls", "L2BM", "L1BM", "MAU", "ALU"};

}  // namespace

Timeline::Timeline(const isa::Chip& chip, const TimelineOptions& options) : chip_(chip), options_(options) {}

void Timeline::begin_program(const std::string& name, std::vector<Region> regions) {
  program_ = name;
  present_ = name;
  regions_ = std::move(regions);
  open_.clear();
  if (!name.empty()) open_.push_back({kProgram, 0});
}

void Timeline::end_program(int64_t cycle) {
  while (!open_.empty()) {
    add({kRegions, 0, open_.back().begin, cycle, region_name(open_.back().region), ""});
    open_.pop_back();
  }
  origin_ += cycle;
  ends_.push_back(origin_);
}

std::vector<int64_t> Timeline::program_begins() const {
  std::vector<int64_t> begins{0};
  begins.insert(begins.end(), ends_.begin(), ends_.end());
  return begins;
}

bool Timeline::is_over(int64_t cycle) {
  if (origin_ + cycle >= options_.to) return true;
  truncated_ |= is_full();
  return truncated_;
}

bool Timeline::is_full() const {
  return static_cast<int64_t>(spans_.size() + transfers_.size()) >= options_.limit;
}

std::string Timeline::region_name(int32_t region) const {
  return region == kProgram ? program_ : regions_[static_cast<size_t>(region)].name;
}

std::string Timeline::region_path(int32_t region) const {
  std::string path;
  for (int32_t at = known(region); at != -1; at = parent(at))
    path = path.empty() ? region_name(at) : region_name(at) + "/" + path;
  return path;
}

int32_t Timeline::parent(int32_t region) const {
  return region == kProgram ? -1 : known(regions_[static_cast<size_t>(region)].parent);
}

int32_t Timeline::known(int32_t region) const {
  if (program_.empty()) return region;
  if (region < 0) return kProgram;
  // The compiler names the outermost region as its layer, and so the program: they are one.
  const Region& named = regions_[static_cast<size_t>(region)];
  return named.parent < 0 && named.name == program_ ? kProgram : region;
}

void Timeline::add(Span span) {
  span.begin += origin_;
  span.end += origin_;
  if (span.end <= options_.from || span.begin >= options_.to || span.end <= span.begin) return;
  truncated_ |= is_full();
  if (truncated_) return;
  (span.track >= kFirstEngine ? transfers_ : spans_).push_back(std::move(span));
}

void Timeline::step(const isa::Statement& statement, int64_t begin, int64_t end) {
  const auto* step = std::get_if<isa::Step>(&statement.kind);
  if (step == nullptr) return;
  // Two of the three MAU groups may share a step: one span names both.
  std::string mau;
  for (const isa::Instruction& instruction : step->instructions) {
    Track track = kAlu;
    switch (isa::issue_group(instruction)) {
      case isa::IssueGroup::kL2bm:
      case isa::IssueGroup::kL2bmDarw:
        track = kL2bm;
        break;
      case isa::IssueGroup::kL1bm:
      case isa::IssueGroup::kL1bmTurnaround:
        track = kL1bm;
        break;
      case isa::IssueGroup::kMauCalc:
      case isa::IssueGroup::kMauMwrite:
      case isa::IssueGroup::kMauMread:
        mau += (mau.empty() ? "" : " + ") + isa::mnemonic(instruction);
        continue;
      case isa::IssueGroup::kAlu:
        break;
      default:
        continue;
    }
    const auto same_slot = [&](const Span& span) {
      return span.track == track && span.begin == begin + origin_;
    };
    // The same of an L1BM instruction and one that reads the turnaround register.
    if (spans_.size() >= 1 && same_slot(spans_.back())) {
      spans_.back().name += " + " + isa::mnemonic(instruction);
      continue;
    }
    add({track, statement.line, begin, end, isa::mnemonic(instruction), present_});
  }
  if (!mau.empty()) add({kMau, statement.line, begin, end, std::move(mau), present_});
}

void Timeline::stall(const std::string& cause, int32_t line, int64_t begin, int64_t end) {
  add({kSequencer, line, begin, end, cause, present_});
}

void Timeline::enter(int32_t region, int64_t cycle) {
  region = known(region);
  if ((open_.empty() ? -1 : open_.back().region) == region) return;
  std::vector<int32_t> path;  // from the region outwards
  for (int32_t at = region; at != -1; at = parent(at)) path.push_back(at);
  const auto inside = [&](int32_t open) { return std::ranges::find(path, open) != path.end(); };
  while (!open_.empty() && !inside(open_.back().region)) {
    add({kRegions, 0, open_.back().begin, cycle, region_name(open_.back().region), ""});
    open_.pop_back();
  }
  for (size_t depth = open_.size(); depth < path.size(); ++depth)
    open_.push_back({path[path.size() - 1 - depth], cycle});
  present_ = region_path(region);
}

void Timeline::transfer(const isa::TransferRecord& record) {
  std::vector<bool> seen(static_cast<size_t>(chip_.groups));
  Transfer kept{{}, 0, {}, record.issued + origin_, record.done + origin_};
  for (const isa::TransferPart& part : record.parts) {
    const bool is_l2bm =
        part.port == isa::TransferPort::kL2bmRead || part.port == isa::TransferPort::kL2bmWrite;
    const int group = is_l2bm ? part.index / chip_.l2b_per_group : part.index;
    if (part.port == isa::TransferPort::kGroupPath || seen[static_cast<size_t>(group)]) continue;
    seen[static_cast<size_t>(group)] = true;
    kept.groups |= uint64_t{1} << group;
    const isa::Instruction& mv = record.request.mv;
    std::string name = fmt::format("{}/n{}", isa::mnemonic(mv), mv.size_lw);
    if (mv.tag > 0) name += fmt::format("i{:02x}", mv.tag);
    add({kFirstEngine + group, record.request.line, record.issued, record.done, std::move(name),
         region_path(record.request.region)});
  }
  if (!options_.keeps_transfers || truncated_ || kept.done <= options_.from || kept.issued >= options_.to)
    return;
  kept.mv = record.request.mv;
  kept.region = region_path(record.request.region);
  kept_transfers_.push_back(std::move(kept));
}

std::vector<Timeline::Span> Timeline::with_lanes(std::vector<std::string>* tracks) const {
  std::vector<Span> all = spans_;
  std::vector<Span> transfers = transfers_;
  std::ranges::stable_sort(transfers, [](const Span& a, const Span& b) {
    return std::tie(a.track, a.begin, a.end) < std::tie(b.track, b.begin, b.end);
  });
  std::map<int32_t, std::vector<std::pair<int64_t, int32_t>>> lanes;  // of a group: free from, track
  for (Span& span : transfers) {
    auto& of_group = lanes[span.track];
    auto lane = std::ranges::find_if(of_group, [&](const auto& l) { return l.first <= span.begin; });
    if (lane == of_group.end()) {
      of_group.emplace_back(0, static_cast<int32_t>(kFirstEngine + tracks->size()));
      tracks->push_back(
          fmt::format("transfers of group {}, lane {}", span.track - kFirstEngine, of_group.size() - 1));
      lane = of_group.end() - 1;
    }
    lane->first = span.end;
    span.track = lane->second;
    all.push_back(std::move(span));
  }
  return all;
}

std::string Timeline::chrome_json() const {
  std::vector<std::string> tracks;
  std::vector<Span> all = with_lanes(&tracks);
  tracks.insert(tracks.begin(), kTrackNames.begin(), kTrackNames.end());
  // Of spans that begin together, the outer one first.
  std::ranges::stable_sort(all, [](const Span& a, const Span& b) {
    return std::tuple(a.track, a.begin, -a.end) < std::tuple(b.track, b.begin, -b.end);
  });
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  events.push_back({{"name", "process_name"}, {"ph", "M"}, {"pid", 1}, {"args", {{"name", chip_.name}}}});
  for (size_t track = 0; track < tracks.size(); ++track) {
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", track},
                      {"args", {{"name", tracks[track]}}}});
    events.push_back({{"name", "thread_sort_index"},
                      {"ph", "M"},
                      {"pid", 1},
                      {"tid", track},
                      {"args", {{"sort_index", track}}}});
  }
  for (const Span& span : all) {
    nlohmann::ordered_json event = {{"name", span.name},
                                    {"cat", tracks[static_cast<size_t>(span.track)]},
                                    {"ph", "X"},
                                    {"ts", span.begin},
                                    {"dur", span.end - span.begin},
                                    {"pid", 1},
                                    {"tid", span.track}};
    if (span.line > 0) event["args"]["line"] = span.line;
    if (!span.region.empty()) event["args"]["region"] = span.region;
    events.push_back(std::move(event));
  }
  nlohmann::ordered_json file = {{"traceEvents", std::move(events)},
                                 {"otherData",
                                  {{"chip", chip_.name},
                                   {"clock_hz", chip_.clock_hz},
                                   {"unit", "1 us = 1 cycle"},
                                   {"truncated", truncated_}}}};
  return file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Timeline::vcd() const {
  std::vector<std::string> lanes;
  const std::vector<Span> all = with_lanes(&lanes);
  // A busy bit and the name per track; regions nest, the innermost shows.
  std::vector<std::string> tracks(kTrackNames.begin(), kTrackNames.end());
  for (std::string lane : lanes) {
    for (const std::string_view word : {"transfers of ", ","})
      if (const size_t at = lane.find(word); at != std::string::npos) lane.erase(at, word.size());
    std::ranges::replace(lane, ' ', '_');
    tracks.push_back(lane);
  }
  const auto code = [](size_t number) {
    std::string text;
    do {
      text += static_cast<char>('!' + number % 94);
      number /= 94;
    } while (number > 0);
    return text;
  };
  std::string out = fmt::format(
      "$comment kodama, chip {}: 1 ns = 1 cycle{} $end\n$timescale 1 ns $end\n$scope module "
      "{} "
      "$end\n",
      chip_.name, truncated_ ? "; spans beyond the limit are missing" : "", chip_.name);
  for (size_t track = 0; track < tracks.size(); ++track) {
    out += fmt::format("$var wire 1 {} {} $end\n", code(2 * track), tracks[track]);
    out += fmt::format("$var string 1 {} {}_name $end\n", code(2 * track + 1), tracks[track]);
  }
  out += "$upscope $end\n$enddefinitions $end\n";

  // Per track, at each time where something begins or ends, the span that holds from there on.
  std::map<int64_t, std::map<size_t, std::string>> changes;
  std::vector<std::vector<const Span*>> by_track(tracks.size());
  for (const Span& span : all) by_track[static_cast<size_t>(span.track)].push_back(&span);
  for (size_t track = 0; track < tracks.size(); ++track) {
    auto& spans = by_track[track];
    std::ranges::stable_sort(spans, [](const Span* a, const Span* b) {
      return std::tuple(a->begin, -a->end) < std::tuple(b->begin, -b->end);
    });
    changes[0][track];
    std::vector<const Span*> open;
    const auto close_until = [&](int64_t time) {
      while (!open.empty() && open.back()->end <= time) {
        const int64_t end = open.back()->end;
        open.pop_back();
        changes[end][track] = open.empty() ? "" : open.back()->name;
      }
    };
    for (const Span* span : spans) {
      close_until(span->begin);
      changes[span->begin][track] = span->name;
      open.push_back(span);
    }
    close_until(std::numeric_limits<int64_t>::max());
  }
  for (const auto& [time, values] : changes) {
    out += fmt::format("#{}\n", time);
    for (const auto& [track, name] : values) {
      std::string text = name;
      std::ranges::replace(text, ' ', '_');
      out += fmt::format("{}{}\ns{} {}\n", name.empty() ? 0 : 1, code(2 * track), text.empty() ? "-" : text,
                         code(2 * track + 1));
    }
  }
  return out;
}

}  // namespace kodama::simulator
