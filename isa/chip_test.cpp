#include "isa/chip.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "isa/error.h"
#include "isa/file.h"

namespace kodama::isa {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string tiny_text() {
  std::ifstream stream(source_path("configs/tiny.yaml"));
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// tiny.yaml without comments, and the number of the line that starts with `start`.
struct Edited {
  std::string text;
  int line = 0;
};
Edited edit(const std::string& start, const std::string& replacement) {
  std::istringstream in(tiny_text());
  Edited out;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    const size_t first = line.find_first_not_of(' ');
    if (first != std::string::npos && line.compare(first, start.size(), start) == 0) {
      out.line = number;
      line = replacement;
    }
    out.text += line + "\n";
  }
  EXPECT_GT(out.line, 0) << start;
  return out;
}

template <typename Call>
std::string error_of_call(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "no error";
}
std::string error_of(const std::string& text) {
  return error_of_call([&] { parse_chip(text, "x.yaml"); });
}

TEST(Chips, ShippedFilesAreValid) {
  const Chip two = find_chip("mncore2");
  EXPECT_EQ(two.name, "mncore2");
  EXPECT_EQ(two.pe_count(), 4096);
  EXPECT_EQ(two.mab_count(), 1024);
  EXPECT_EQ(two.memory.dram_lw * 8, int64_t{4} << 30);
  EXPECT_EQ(two.l1bmd_lw_per_cycle(), 64);
  EXPECT_EQ(two.l2bmd_lw_per_cycle(), 64);
  EXPECT_NEAR(two.transfer.dram_lw_per_cycle * 8 * two.clock_hz, 102.4e9, 1);

  const Chip one = find_chip("mncore1");
  EXPECT_EQ(one.mab_count(), 2048);
  EXPECT_NEAR(one.mab_count() * 512 * one.clock_hz, 524e12, 1e12);

  const Chip tiny = find_chip("tiny");
  EXPECT_EQ(tiny.pe_count(), 128);
  EXPECT_EQ(tiny.memory.lm_words, two.memory.lm_words);
  EXPECT_EQ(tiny.memory.grf_words, two.memory.grf_words);
  for (const char* name : {"mncore1", "mncore2", "tiny"}) EXPECT_THAT(chip_names(), Contains(name));
}

TEST(Chips, HashCoversHardwareOnly) {
  const std::string base = parse_chip(tiny_text(), "a.yaml").hash;
  EXPECT_EQ(base.size(), 16U);
  EXPECT_EQ(parse_chip(edit("name:", "name: other").text, "b.yaml").hash, base);
  EXPECT_NE(parse_chip(edit("startup_cycles:", "  startup_cycles: 65").text, "b.yaml").hash, base);
  EXPECT_NE(find_chip("mncore2").hash, base);
}

TEST(Chips, PeGapsFollowFromTheCompletionTime) {
  const HazardGaps hazard = find_chip("mncore2").hazard;
  EXPECT_EQ(hazard.pe_gap(0, 0), 1);
  EXPECT_EQ(hazard.pe_gap(3, 3), 1);
  EXPECT_EQ(hazard.pe_gap(1, 0), 1);
  EXPECT_EQ(hazard.pe_gap(2, 0), 2);
  EXPECT_EQ(hazard.pe_gap(3, 0), 2);
  EXPECT_EQ(hazard.pe_gap(0, 3), 0);
}

TEST(ChipErrors, UnknownMissingAndDuplicateKeys) {
  Edited e = edit("groups:", "  grups: 2");
  EXPECT_EQ(error_of(e.text),
            fmt::format("x.yaml:{}:3: unknown key 'grups' in section 'counts'; allowed: groups, "
                        "l2b_per_group, l1b_per_l2b, mab_per_l1b",
                        e.line));
  e = edit("groups:", "");
  EXPECT_EQ(error_of(e.text),
            fmt::format("x.yaml:{}:3: missing key 'groups' in section 'counts': number of groups of "
                        "the chip, in groups; allowed: a power of two from 1 to 16",
                        e.line + 1));
  e = edit("clock_hz:", "");
  EXPECT_THAT(error_of(e.text), HasSubstr("missing key 'clock_hz' in a chip file"));
  e = edit("groups:", "  groups: 2\n  groups: 4");
  EXPECT_EQ(error_of(e.text),
            fmt::format("x.yaml:{}:3: duplicate key 'groups' in section 'counts'; first given in "
                        "line {}",
                        e.line + 1, e.line));
  e = edit("clock_hz:", "clock_hz: 1e9\nextra: {a: 1}");
  EXPECT_THAT(error_of(e.text), StartsWith(fmt::format("x.yaml:{}:1: unknown key 'extra'", e.line + 1)));
  e = edit("groups:", "  [a, b]: 2");
  EXPECT_THAT(error_of(e.text), HasSubstr("found a list as a key of section 'counts'"));
}

TEST(ChipErrors, WrongTypes) {
  struct Case {
    const char *start, *line, *message;
  };
  for (const Case& c : {
           Case{"groups:", "  groups: two",
                "'counts.groups' is 'two'; allowed: a power of two from 1 to 16, in groups"},
           Case{"groups:", "  groups: 2.0", "'counts.groups' is '2.0'; allowed"},
           Case{"groups:", "  groups: \"2\"", "'counts.groups' is the quoted text \"2\"; allowed"},
           Case{"groups:", "  groups: [2]", "'counts.groups' is a list; allowed"},
           Case{"groups:", "  groups: {a: 2}", "'counts.groups' is a section; allowed"},
           Case{"groups:", "  groups:", "'counts.groups' is nothing; allowed"},
           Case{"groups:", "  groups: 99999999999999999999",
                "'counts.groups' is 99999999999999999999, out of range"},
           Case{"clock_hz:", "clock_hz: fast", "'clock_hz' is 'fast'; allowed: a number from"},
           Case{"clock_hz:", "clock_hz: inf", "'clock_hz' is 'inf'; allowed: a number from"},
           Case{"clock_hz:", "clock_hz: nan", "'clock_hz' is 'nan'; allowed: a number from"},
           Case{"name:", "name: \"\"", "'name' is the quoted text \"\"; allowed: text that isn't empty"},
       }) {
    const Edited e = edit(c.start, c.line);
    EXPECT_THAT(error_of(e.text), StartsWith(fmt::format("x.yaml:{}:", e.line))) << c.line;
    EXPECT_THAT(error_of(e.text), HasSubstr(c.message)) << c.line;
  }
  EXPECT_THAT(error_of("counts: 3\n"),
              StartsWith("x.yaml:1:9: found '3', but section 'counts' is a section with"));
}

TEST(ChipErrors, OutOfRange) {
  for (const auto& [start, line, message] : std::vector<std::array<std::string, 3>>{
           {"groups:", "  groups: 3", "'counts.groups' is 3; allowed: a power of two from 1 to 16"},
           {"groups:", "  groups: 0", "'counts.groups' is 0; allowed: a power of two from 1 to 16"},
           {"groups:", "  groups: -2", "'counts.groups' is -2; allowed"},
           {"l1b_per_l2b:", "  l1b_per_l2b: 16", "is 16; allowed: a power of two from 2 to 8"},
           {"mab_per_l1b:", "  mab_per_l1b: 2", "is 2; allowed: a power of two from 4 to 16"},
           {"lm_words:", "  lm_words: 8192",
            "is 8192; allowed: a power of two from 64 to 4096, in words per PE"},
           {"dram_lw:", "  dram_lw: 16777217",
            "is 16777217; allowed: a multiple of 64 from 4096 to 68719476736"},
           {"mask_entries:", "  mask_entries: 16", "is 16; allowed: exactly 32"},
           {"startup_cycles:", "  startup_cycles: -1",
            "is -1; allowed: an integer from 0 to 1000000, in cycles"},
           {"pdm_lw_per_cycle:", "  pdm_lw_per_cycle: 0", "is 0; allowed: a number from 0.001"},
       }) {
    const Edited e = edit(start, line);
    EXPECT_THAT(error_of(e.text), StartsWith(fmt::format("x.yaml:{}:", e.line))) << line;
    EXPECT_THAT(error_of(e.text), HasSubstr(message)) << line;
  }
}

TEST(ChipErrors, InconsistentSizes) {
  Edited e = edit("l1bm_lw:", "  l1bm_lw: 64");
  EXPECT_EQ(error_of(e.text), "no error");  // 4 MABs: one l1bmd is 64 LW
  std::string text = e.text;
  const size_t at = text.find("mab_per_l1b: 4");
  text.replace(at, 14, "mab_per_l1b: 8");
  EXPECT_EQ(error_of(text),
            fmt::format("x.yaml:{}:12: 'memory.l1bm_lw' is 64, but with 8 MABs per L1B one l1bmd moves "
                        "128 LW; allowed: at least 128",
                        e.line));
  e = edit("dram_lw:", "  dram_lw: 4160");
  EXPECT_THAT(error_of(e.text),
              HasSubstr("16 banks with rows of 2048 bytes make 4096 LW; allowed: a multiple of that"));
  e = edit("dram_refresh_ns:", "  dram_refresh_ns: 3900");
  EXPECT_THAT(error_of(e.text),
              HasSubstr("allowed: less than 'transfer.dram_refresh_interval_ns', which is 3900"));
}

TEST(ChipErrors, Syntax) {
  EXPECT_THAT(error_of("name: [1, 2\nclock_hz: 3\n"), StartsWith("x.yaml:2:"));
  EXPECT_THAT(error_of("name: [1, 2\nclock_hz: 3\n"), HasSubstr("not valid YAML"));
  EXPECT_THAT(error_of("\tname: x\n"), StartsWith("x.yaml:1:"));
  EXPECT_THAT(error_of(""),
              StartsWith("x.yaml:1:1: found nothing, but a chip file is a section with the keys name"));
  EXPECT_THAT(error_of("just text"), HasSubstr("found 'just text'"));
  EXPECT_THAT(error_of(tiny_text() + "---\nname: b\n"), HasSubstr("found a second YAML document"));
  EXPECT_THAT(error_of(std::string("\0\1\2", 3)), StartsWith("x.yaml:1:1: "));
}

TEST(ChipBase, HasWhatTheFileDoesNotSay) {
  const Chip tiny = find_chip("tiny");
  const Chip mine = parse_chip("name: mine\nbase: tiny\nmemory: {l2bm_lw: 16384}\nclock_hz: 1e9\n", "x.yaml");
  EXPECT_EQ(mine.name, "mine");
  EXPECT_EQ(mine.memory.l2bm_lw, 16384);
  EXPECT_EQ(mine.clock_hz, 1e9);
  EXPECT_EQ(mine.memory.l1bm_lw, tiny.memory.l1bm_lw);
  EXPECT_EQ(mine.groups, tiny.groups);
  EXPECT_NE(mine.hash, tiny.hash);
  EXPECT_EQ(parse_chip("base: tiny\nname: same\n", "x.yaml").hash, tiny.hash);

  const fs::path folder = fs::path(::testing::TempDir()) / "kodama_chip_base";
  fs::create_directories(folder);
  std::ofstream(folder / "first.yaml") << "name: first\nbase: tiny\nclock_hz: 2e9\n";
  std::ofstream(folder / "second.yaml") << "name: second\nbase: first.yaml\nmemory: {l2bm_lw: 16384}\n";
  const Chip second = find_chip((folder / "second.yaml").string() + ",counts.groups=4");
  EXPECT_EQ(second.clock_hz, 2e9);
  EXPECT_EQ(second.memory.l2bm_lw, 16384);
  EXPECT_EQ(second.groups, 4);
  std::ofstream(folder / "a.yaml") << "name: a\nbase: b.yaml\n";
  std::ofstream(folder / "b.yaml") << "name: b\nbase: a.yaml\n";
  EXPECT_THAT(error_of_call([&] { load_chip_file((folder / "a.yaml").string()); }),
              HasSubstr("allowed: chips that end at one without a base"));
  fs::remove_all(folder);
}

TEST(ChipBase, WhatIsWrongIsSaidOfItsLine) {
  EXPECT_THAT(error_of("name: x\nbase: [tiny]\n"), StartsWith("x.yaml:2:7: 'base' is a list"));
  EXPECT_THAT(error_of("name: x\nbase: \n"), HasSubstr("'base' is nothing"));
  EXPECT_THAT(error_of("name: x\nbase: huge\n"),
              StartsWith("x.yaml:2:7: no chip is named 'huge'; allowed: "));
  EXPECT_THAT(error_of("name: x\nbase: no.yaml\n"), HasSubstr("no.yaml: can't read"));
  EXPECT_THAT(error_of("base: tiny\n"), HasSubstr("missing key 'name'"));
  EXPECT_THAT(error_of("name: x\nbase: tiny\nmemory: {l3_lw: 4}\n"),
              StartsWith("x.yaml:3:10: unknown key 'l3_lw'"));
  EXPECT_THAT(error_of("name: x\nbase: tiny\nmemory: {pdm_lw: 64}\ncounts: {groups: 16}\n"),
              StartsWith("x.yaml:3:18: 'memory.pdm_lw' is 64"));
  EXPECT_THAT(error_of("name: x\nbase: tiny\ncounts: {groups: 8, l2b_per_group: 16}\nmemory: {}\n"),
              HasSubstr("x.yaml:"));
}

TEST(FindChip, LooksInFoldersAndExplains) {
  try {
    find_chip("nochip");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no chip is named 'nochip'; allowed: mncore1, mncore2, tiny"));
  }
  EXPECT_THROW(find_chip(""), UserError);
  try {
    find_chip("/nowhere/chip.yaml");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "/nowhere/chip.yaml: can't read the chip file: No such file or directory");
  }
  EXPECT_THROW(load_chip_file("/"), UserError);

  const auto folder = std::filesystem::temp_directory_path() / fmt::format("kodama_chip_test_{}", ::getpid());
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "mine.yaml") << edit("name:", "name: mine").text;
  ::setenv("KODAMA_CONFIG_DIR", folder.c_str(), 1);
  EXPECT_EQ(find_chip("mine").name, "mine");
  EXPECT_THAT(chip_names(), Contains("mine"));
  EXPECT_EQ(find_chip("tiny").name, "tiny");
  ::unsetenv("KODAMA_CONFIG_DIR");
  std::filesystem::remove_all(folder);
}

TEST(Documentation, DescribesEveryKey) {
  const std::vector<ChipKey> keys = describe_chip_keys();
  EXPECT_GT(keys.size(), 40U);
  for (const ChipKey& key : keys) {
    EXPECT_FALSE(key.meaning.empty()) << key.path;
    EXPECT_FALSE(key.allowed.empty()) << key.path;
  }
}

}  // namespace
}  // namespace kodama::isa
