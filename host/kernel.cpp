#include "host/kernel.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>

#include "assembler/program_file.h"
#include "isa/error.h"
#include "isa/file.h"

namespace kodama::host {
namespace {

namespace fs = std::filesystem;

using isa::Statement;

/// Longest program whose loops are unrolled because a wait for the host stands in one.
constexpr int64_t kMostUnrolled = int64_t{1} << 22;

int mv_tag(const Statement& statement) {
  const auto* mv = std::get_if<isa::Mv>(&statement.kind);
  return mv == nullptr ? 0 : mv->instruction.tag;
}

bool has_loops(const std::vector<Statement>& statements) {
  return std::ranges::any_of(
      statements, [](const Statement& next) { return std::holds_alternative<isa::Loop>(next.kind); });
}

/// Calls visit(statement, index, times) for MVs and waits. Of a loop's iterations two are enough to see what
/// tags go through: the second begins as all others do. `index` is that of the outermost statement.
template <typename Visit>
void for_each_tagged(const std::vector<Statement>& statements, size_t from, size_t to, Visit&& visit) {
  const std::function<void(const Statement&, size_t)> look = [&](const Statement& statement, size_t index) {
    if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
      for (int64_t k = 0; k < std::min<int64_t>(loop->count, 2); ++k) {
        for (const Statement& inner : loop->body) look(inner, index);
      }
    } else {
      visit(statement, index);
    }
  };
  for (size_t i = from; i < to; ++i) look(statements[i], i);
}

void add_bytes(const Statement& statement, uint64_t times, std::array<uint64_t, kTags>& bytes) {
  if (const auto* loop = std::get_if<isa::Loop>(&statement.kind)) {
    if (isa::is_idle(*loop)) return;
    for (const Statement& inner : loop->body)
      add_bytes(inner, times * static_cast<uint64_t>(loop->count), bytes);
  } else if (const int tag = mv_tag(statement); tag > 0) {
    const auto lw = static_cast<uint64_t>(std::get<isa::Mv>(statement.kind).instruction.size_lw);
    bytes[static_cast<size_t>(tag)] += 8 * lw * times;
  }
}

/// Names that may stand for a path that isn't there, best one first.
std::vector<std::string> other_names(const std::string& path) {
  constexpr std::string_view kLoaderEnding = ".idma.dat";
  std::vector<std::string> stems;
  if (path.ends_with(kLoaderEnding)) stems.push_back(path.substr(0, path.size() - kLoaderEnding.size()));
  const fs::path name(path);
  if (name.has_extension()) stems.push_back((name.parent_path() / name.stem()).string());
  stems.push_back(path);
  std::vector<std::string> names;
  for (const std::string& stem : stems) {
    for (const char* ending : {".asm", ".vsm"}) names.push_back(stem + ending);
  }
  return names;
}

isa::Program read_kernel(const std::string& path, const isa::Chip& chip) {
  const std::string file = find_kernel_file(path);
  std::error_code error;
  if (fs::file_size(file, error) == 0) throw isa::UserError({file}, "found an empty file; expected a kernel");
  return assembler::read_program(file, chip);
}

}  // namespace

int wait_tag(const Statement& statement) {
  if (const auto* nop = std::get_if<isa::Nop>(&statement.kind)) return nop->wait_tag;
  if (const auto* step = std::get_if<isa::Step>(&statement.kind)) {
    for (const isa::Instruction& instruction : step->instructions) {
      if (instruction.opcode == isa::Opcode::kWait) return instruction.tag;
    }
  }
  return 0;
}

std::string find_kernel_file(const std::string& path) {
  constexpr size_t kLongestShown = 4096;  // no system has longer paths
  if (path.empty() || path.size() > kLongestShown) {
    throw isa::UserError(fmt::format("found a kernel's name of {} characters; allowed are 1 to {}",
                                     path.size(), kLongestShown));
  }
  std::error_code error;
  std::vector<std::string> names = other_names(path);
  names.insert(names.begin(), path);
  for (const std::string& name : names) {
    const fs::file_status status = fs::status(name, error);
    if (!fs::exists(status)) continue;
    if (!fs::is_regular_file(status))
      throw isa::UserError({name}, "found no regular file; expected a kernel");
    return name;
  }
  names.erase(names.begin());
  throw isa::UserError({path},
                       fmt::format("there is no such kernel, and none of {}", fmt::join(names, ", ")));
}

Kernel::Kernel(const std::string& path, const isa::Chip& chip) : Kernel(read_kernel(path, chip), path) {}

Kernel::Kernel(isa::Program program, std::string name)
    : name_(std::move(name)), program_(std::move(program)) {
  std::vector<Statement>& statements = program_.statements;
  const auto quit = std::ranges::find_if(
      statements, [](const Statement& next) { return std::holds_alternative<isa::Quit>(next.kind); });
  statements.erase(quit, statements.end());
  find_waits();
  if (host_waits_.empty() || !has_loops(statements)) return;
  if (const int64_t lines = isa::count(program_).statements; lines > kMostUnrolled) {
    throw isa::UnsupportedError(fmt::format(
        "{}: waits for tags of the host, and its loops make {} statements; allowed are {}, or waits "
        "for tags that MVs of the kernel carry",
        name_, lines, kMostUnrolled));
  }
  std::vector<Statement> unrolled;
  std::vector<int64_t> counters;
  isa::for_each_executed(statements, counters, [&](const Statement& next, const auto& at) {
    unrolled.push_back(isa::resolved(next, at));
    return !std::holds_alternative<isa::Quit>(next.kind);
  });
  statements = std::move(unrolled);
  find_waits();
}

void Kernel::find_waits() {
  host_waits_.clear();
  waits_again_ = false;
  Tags own = 0;
  Tags host = 0;
  for_each_tagged(program_.statements, 0, size(), [&](const Statement& statement, size_t index) {
    if (const int tag = mv_tag(statement); tag > 0) {
      own |= tag_bit(tag);
      carried_ |= tag_bit(tag);
    }
    const int tag = wait_tag(statement);
    if (tag == 0) return;
    waited_ |= tag_bit(tag);
    if ((own & tag_bit(tag)) == 0) {
      host_waits_.push_back({index, tag});
      waits_again_ |= (host & tag_bit(tag)) != 0;
      host |= tag_bit(tag);
    }
  });
}

isa::Program Kernel::part(size_t from, size_t to) const {
  isa::Program part;
  part.source_name = program_.source_name;
  const auto begin = program_.statements.begin();
  for (size_t i = from; i-- > 0;) {  // a block mask holds until the next one
    if (!std::holds_alternative<isa::MaskControl>(program_.statements[i].kind)) continue;
    part.statements.push_back(program_.statements[i]);
    break;
  }
  part.statements.insert(part.statements.end(), begin + static_cast<ptrdiff_t>(from),
                         begin + static_cast<ptrdiff_t>(to));
  return part;
}

Kernel::TagEvents Kernel::tag_events(size_t from, size_t to) const {
  TagEvents events;
  for_each_tagged(program_.statements, from, to, [&](const Statement& statement, size_t) {
    const Tags brought = mv_tag(statement) > 0 ? tag_bit(mv_tag(statement)) : 0;
    const Tags taken = wait_tag(statement) > 0 ? tag_bit(wait_tag(statement)) : 0;
    events.brought = (events.brought | brought) & ~taken;
    events.taken = (events.taken | taken) & ~brought;
  });
  for (size_t i = from; i < to; ++i) add_bytes(program_.statements[i], 1, events.bytes);
  return events;
}

}  // namespace kodama::host
