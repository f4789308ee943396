#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>

#include "isa/chip.h"
#include "isa/program.h"
#include "simulator/machine.h"

/// The vendor emulator's text of `d get` (section 10.2 of the ISA page), and the walk over places that
/// `d get` and `d set` share.
namespace kodama::simulator {

using ReadLong = std::function<uint64_t(isa::Space, const Place&, int64_t address)>;
using WriteLong = std::function<void(isa::Space, const Place&, int64_t address, uint64_t value)>;

/// `(<x>, <y>) (0x…, 0x…)` of type 'f' and so on; type 0 is the untyped form.
std::string debug_value(uint64_t value, char type);

/// Every place that a debug statement's indices select (-1 = all), in the order n, c, b, m, p. UserError for
/// an index that does not exist.
void for_each_place(isa::Space space, const std::array<int16_t, 5>& wanted, const isa::Chip& chip,
                    const std::function<void(const Place&)>& visit);
/// "n0c1b2m3p0", as far as the memory has these levels.
std::string place_text(isa::Space space, const Place& place);

/// All lines of one statement, in order.
void debug_get(const isa::DebugGet& get, const isa::Chip& chip, const ReadLong& read,
               const std::function<void(const std::string&)>& line);
void debug_set(const isa::DebugSet& set, const isa::Chip& chip, const WriteLong& write);

/// A memory as the output of d get calls it: "LM0", …
const char* dump_name(isa::Space space);
/// Number of LW addresses of a memory as `d get` counts them (words for LM and GRF), and how many levels
/// of the tree its place has (1 = group … 5 = PE).
int64_t space_size(isa::Space space, const isa::Chip& chip);
int space_levels(isa::Space space);
/// From one LW to the next: 2 in memories of words, else 1.
int address_step(isa::Space space);
/// Throws UserError unless the place and address exist.
void check_place(isa::Space space, const Place& place, int64_t address, const isa::Chip& chip);
/// The same for `count` LWs one after the other.
void check_range(isa::Space space, const Place& place, int64_t address, size_t count, const isa::Chip& chip);

}  // namespace kodama::simulator
