#include "scheduler/packing/packing_generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "isa/error.h"
#include "scheduler/packing/packing_builtin.h"

namespace kodama::scheduler {
namespace {

/// A rectangle of time (indices of moments) x addresses (units).
struct Piece {
  int64_t t0, t1;
  int64_t a0, a1;
  int64_t time() const { return t1 - t0; }
  int64_t size() const { return a1 - a0; }
};

/// Where to cut [0, n): anywhere, but rarely near an end.
int64_t cut_of(PackingRandom& random, int64_t n) {
  return 1 + std::min<int64_t>(n - 2, static_cast<int64_t>((random.unit() + random.unit()) / 2 *
                                                           static_cast<double>(n - 1)));
}

/// Cuts `piece` into the returned ones; none if it is too small.
std::vector<Piece> cut(PackingRandom& random, const Piece& p, double pinwheels) {
  if (random.unit() < pinwheels && p.time() >= 6 && p.size() >= 6) {
    const int64_t t = 1 + random.below(p.time() - 3), u = t + 1 + random.below(p.time() - t - 2);
    const int64_t a = 1 + random.below(p.size() - 3), b = a + 1 + random.below(p.size() - a - 2);
    const int64_t t1 = p.t0 + t, t2 = p.t0 + u, a1 = p.a0 + a, a2 = p.a0 + b;
    return {{p.t0, t2, p.a0, a1},
            {t2, p.t1, p.a0, a2},
            {t1, p.t1, a2, p.a1},
            {p.t0, t1, a1, p.a1},
            {t1, t2, a1, a2}};
  }
  // Along time and along addresses equally often: a long piece of few bytes is as likely as a short one of
  // many.
  const bool by_time = p.time() >= 2 && (p.size() < 2 || random.below(2) == 0);
  if (by_time) {
    const int64_t t = p.t0 + cut_of(random, p.time());
    return {{p.t0, t, p.a0, p.a1}, {t, p.t1, p.a0, p.a1}};
  }
  if (p.size() < 2) return {};
  const int64_t a = p.a0 + cut_of(random, p.size());
  return {{p.t0, p.t1, p.a0, a}, {p.t0, p.t1, a, p.a1}};
}

/// Largest load at any moment.
int64_t highest_load(const std::vector<Piece>& pieces, int64_t moments) {
  std::vector<int64_t> change(moments + 1, 0);
  for (const Piece& p : pieces) {
    change[p.t0] += p.size();
    change[p.t1] -= p.size();
  }
  int64_t load = 0, most = 0;
  for (const int64_t c : change) most = std::max(most, load += c);
  return most;
}

int64_t moments_of(const PackingRequest& request) {
  return request.moments > 0 ? request.moments : std::max(4, request.buffers / 2);
}

}  // namespace

GeneratedPacking generate_packing(const PackingRequest& request) {
  const int64_t units = request.unit > 0 ? request.capacity / request.unit : 0;
  if (request.buffers < 1 || units < 1 || request.capacity % request.unit != 0 || request.horizon < units ||
      request.horizon % units != 0 || request.drop < 0 || request.drop > 0.5 || request.shrink < 0 ||
      request.shrink > 1 || units > (1 << 20) || request.moments < 0 || request.moments > units ||
      units < 8 || units * std::min<int64_t>(units, moments_of(request)) < 4 * int64_t{request.buffers}) {
    throw isa::UserError(fmt::format(
        "found {} buffers, capacity {} of units of {}, horizon {}, drop {}, shrink {}; allowed: at least one "
        "buffer, 1 to 2^20 units, 4 squares of units a buffer, a horizon that is a multiple of the number of "
        "units, drop 0 to 0.5, shrink 0 to 1",
        request.buffers, request.capacity, request.unit, request.horizon, request.drop, request.shrink));
  }
  PackingRandom random(request.seed);
  const int dropped = static_cast<int>(std::lround(request.drop * request.buffers));
  const size_t wanted = static_cast<size_t>(request.buffers + dropped);
  // Buffers of a network begin and end with its layers: time is cut at few moments, at unequal distances.
  const int64_t moments = std::min(units, moments_of(request));
  std::vector<int64_t> inner(static_cast<size_t>(units - 1));
  for (size_t i = 0; i < inner.size(); ++i) inner[i] = static_cast<int64_t>(i) + 1;
  random.shuffle(inner);
  std::vector<int64_t> time_of(inner.begin(), inner.begin() + (moments - 1));
  time_of.push_back(0);
  time_of.push_back(units);
  std::sort(time_of.begin(), time_of.end());

  std::vector<Piece> pieces = {{0, moments, 0, units}};
  while (pieces.size() < wanted) {
    // Of a few pieces, the one of the largest area is cut.
    size_t chosen = random.below(static_cast<int64_t>(pieces.size()));
    for (int more = 0; more < 3; ++more) {
      const size_t other = random.below(static_cast<int64_t>(pieces.size()));
      if (pieces[other].time() * pieces[other].size() > pieces[chosen].time() * pieces[chosen].size()) {
        chosen = other;
      }
    }
    const double pinwheels = wanted - pieces.size() >= 4 ? request.pinwheels : 0;
    const std::vector<Piece> parts = cut(random, pieces[chosen], pinwheels);
    if (parts.empty()) continue;
    pieces[chosen] = parts.front();
    pieces.insert(pieces.end(), parts.begin() + 1, parts.end());
  }

  // A change that would take the highest load below 0.95 of the capacity is left out, and a smaller piece
  // dropped in the end, so that the number of buffers is right.
  const int64_t least = (units * 95 + 99) / 100;
  random.shuffle(pieces);
  int left = dropped;
  for (size_t i = 0; i < pieces.size() && left > 0;) {
    std::vector<Piece> without = pieces;
    without.erase(without.begin() + static_cast<std::ptrdiff_t>(i));
    if (highest_load(without, moments) < least) {
      ++i;
      continue;
    }
    pieces = std::move(without);
    --left;
  }
  int shrunk = static_cast<int>(std::lround(request.shrink * request.buffers));
  for (size_t i = 0; i < pieces.size() && shrunk > 0; ++i) {
    if (pieces[i].size() < 4) continue;
    const int64_t before = pieces[i].a1;
    pieces[i].a1 -= random.between(1, pieces[i].size() / 4);
    if (highest_load(pieces, moments) < least) pieces[i].a1 = before;
    --shrunk;
  }
  random.shuffle(pieces);

  GeneratedPacking result;
  result.problem.name = fmt::format("generated-{}", request.seed);
  result.problem.capacity = request.capacity;
  const int64_t tick = request.horizon / units;
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < pieces.size(); ++i) {
    PackingBuffer buffer;
    buffer.name = fmt::format("b{}", i);
    buffer.lower = time_of[pieces[i].t0] * tick;
    buffer.upper = time_of[pieces[i].t1] * tick;
    buffer.size = pieces[i].size() * request.unit;
    result.problem.buffers.push_back(buffer);
    offsets.push_back(pieces[i].a0 * request.unit);
  }
  result.known = finish_packing(result.problem, std::move(offsets), 0, "by construction");
  verify_packing(result.problem, result.known);
  result.load =
      static_cast<double>(packing_load(result.problem)) / static_cast<double>(result.problem.capacity);
  return result;
}

}  // namespace kodama::scheduler
