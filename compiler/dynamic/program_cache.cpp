#include "compiler/dynamic/program_cache.h"

#include <algorithm>

namespace kodama::compiler {

namespace {

bool fits(const Program& program, const Frame& frame) {
  for (size_t k = 0; k < program.bound.size(); ++k) {
    const Frame::Known* const known = frame.find(program.region.bound[k]);
    if (known == nullptr || !(known->value == program.bound[k])) return false;
  }
  return true;
}

}  // namespace

ProgramCache::ProgramCache(int64_t limit) : limit_(std::max<int64_t>(limit, 1)) {}

std::shared_ptr<Program> ProgramCache::find(const std::string& key, const Frame& frame) {
  const auto [begin, end] = by_key_.equal_range(key);
  // What is bound to fewer values fits more often: those with values first.
  auto best = end;
  for (auto it = begin; it != end; ++it) {
    const Program& program = *it->second->program;
    if (fits(program, frame) && (best == end || program.bound.size() > best->second->program->bound.size()))
      best = it;
  }
  if (best == end) return nullptr;
  used_.splice(used_.begin(), used_, best->second);
  return used_.front().program;
}

void ProgramCache::add(const std::string& key, std::shared_ptr<Program> program) {
  // Programs of one code are small, but there may be one for every length of a bucket.
  constexpr int64_t kMostPrograms = 64;
  for (const std::string& of : program->variant_of) ++variants_[of];
  if (program->code != nullptr) ++codes_[program->code.get()];
  used_.push_front({key, std::move(program)});
  by_key_.emplace(key, used_.begin());
  while (size() > limit_ || static_cast<int64_t>(used_.size()) > limit_ * kMostPrograms) drop_last();
}

void ProgramCache::drop_last() {
  const auto last = std::prev(used_.end());
  const auto [begin, end] = by_key_.equal_range(last->key);
  by_key_.erase(std::find_if(begin, end, [&](const auto& each) { return each.second == last; }));
  for (const std::string& of : last->program->variant_of) {
    if (--variants_[of] == 0) variants_.erase(of);
  }
  const auto code = codes_.find(last->program->code.get());
  if (code != codes_.end() && --code->second == 0) {
    codes_.erase(code);
    ++dropped_;
  }
  used_.pop_back();
}

int64_t ProgramCache::variants(const std::string& of) const {
  const auto found = variants_.find(of);
  return found == variants_.end() ? 0 : found->second;
}

}  // namespace kodama::compiler
