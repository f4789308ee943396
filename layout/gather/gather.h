#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "isa/chip.h"
#include "isa/program.h"
#include "layout/moves/step_packer.h"

/// Gathers: DRAM to DRAM, every word from anywhere.
///
/// Conversions (layout/search/conversion.h) move whole digits of an index and need both sides to be layouts.
/// What a convolution reads is not one: its windows overlap, its border is padding, and 5 x 5 windows of 28 x
/// 28 pixels share no digit with the order in which the layer before wrote them. A gather makes any image of
/// words from words that are in DRAM already, and constants:
///
///     tables      an entry of 16 bits per word of the image, made by the host with the program: the window
///                 in which the word comes (4 bits), and where it is then in LM0 (12 bits)
///     windows     the words that the PEs of an L1B want, as many as LM0 holds, are broadcast to all of them
///     picking     every PE sets T from its table and reads LM0 through it, four words per step
///
/// A PE makes what its place in the image asks for. In window w it takes min(entry - w * 4096, 4096) as the
/// address, which T reads modulo 4096: that of a word that is in the window, and 0, where LM0 holds zero, for
/// all others. The windows' results are joined by `or`, which is exact for any bits.
///
/// Example, image {w7, w2, 0.0, w3} of four words by one PE, window 1 has w0 .. w7 at LM0 words 16 .. 23: the
/// table's LW holds 0x1017, 0x1012, 0x1000, 0x1013 from its lower end up, and
///
///     sub $n… $r… $s0v;  umin $s0v 4096 $t $s8v;  passa $mt $n0 …;  lsr $s8v 16 $t;  passa $mt $n1 …;  …
///
/// Everything is in lock step: an instruction serves all L1Bs and L2Bs, each with data of its own. A *slot*
/// has a block for every L1B, the n-th that it wants, or the n-th of all if cheaper. Copies bring them
/// to L1BM such that the octets of 8 LW that are wanted begin at one address; a broadcast for each octet
/// follows. A *load* is what slots one behind the other take from L2BM. One transfer starts in 16 cycles, so
/// what groups want of their own DRAM at one address, for one L2B or both, comes by one.
///
/// The image consists of rows of `4 * PEs per L1B * L1Bs` LW; a row is one *vector* of four LW in every PE,
/// what l1bmd and l2bmd bring up in the order of DRAM. An image in parts, of which each L2B of a group will
/// read its own, is made by those L2Bs, so that it may stay in their L2BM. Of others any L2B may make any
/// row: those of the image's group, each its share, or all of the chip, each what comes from its own group's
/// DRAM as far as there is; then it is the rows that cross between groups, 2048 LW each, and not the short
/// runs that they are made of. The cheaper of the two is taken.
///
/// Where L1Bs want the same quarter of blocks that follow one another, l2bmb2 brings them that of four blocks
/// in a step, to all L1Bs whose quarters are equally far from what l2bmb2 deals to them: a *dealt* copy.
///
/// What it costs: DRAM passes what is wanted, tables of half the image, and the image; broadcasts bring 2 LW
/// per cycle. So a gather is as fast as its image is local: where an L1B makes what comes from few blocks.
namespace kodama::layout {

/// Where a word of an image comes from: a 32-bit word of a group's DRAM, or a constant of the problem.
class GatherSource {
 public:
  GatherSource() = default;
  /// `word` = 2 * address in LW, plus 1 for the lower half.
  static GatherSource dram(int group, int64_t word) {
    return GatherSource(int64_t{group} * kWordsPerGroup + word);
  }
  static GatherSource constant(int64_t index) { return GatherSource(-1 - index); }

  bool is_constant() const { return code_ < 0; }
  int64_t constant_index() const { return -1 - code_; }
  int group() const { return static_cast<int>(code_ / kWordsPerGroup); }
  int64_t word() const { return code_ & (kWordsPerGroup - 1); }
  /// The block of 64 LW of DRAM it is in, groups one after the other.
  int64_t block() const { return code_ >> kBlockShift; }
  static constexpr int kBlockShift = 7;
  static constexpr int64_t kWordsPerBlock = isa::kMvUnitLw * isa::kWordsPerLong;
  static_assert(kWordsPerBlock == int64_t{1} << kBlockShift);
  /// More than any DRAM has.
  static constexpr int64_t kWordsPerGroup = int64_t{1} << 48;
  bool operator==(const GatherSource&) const = default;

 private:
  explicit GatherSource(int64_t code) : code_(code) {}
  int64_t code_ = -1;
};

struct GatherProblem {
  int64_t address = 0;  ///< of the image, LW, the same in every group; a multiple of 64
  int64_t size_lw = 0;  ///< of the image in one group, a multiple of 64
  int64_t parts = 1;    ///< of equal size: 1, or the number of L2Bs of a group
  /// Two words per LW for every group that has a part of the image; empty for the others.
  std::vector<std::vector<GatherSource>> words;
  /// LW of LM0 that it may write, from the begin on, at most.
  int64_t lm0_lw = INT64_MAX;
  /// Bits of constants; the first is zero, and words that nobody reads have it.
  std::vector<uint32_t> constants{0};
};

struct GatherCode {
  isa::Program program;
  std::vector<PackedItem> items;  ///< what was packed into its steps, in the order in which it was written
  /// What must be in every group's DRAM before it runs, from the address that `emit` was given.
  std::vector<std::vector<uint64_t>> tables;
  int64_t cycles = 0;  ///< predicted, which is what the simulator counts
};

/// What `Gather::estimated_cycles` is at least, when all that is known of a problem is the size of its image
/// (`size_lw`, `parts`, how many `groups` have it) and that it has at least `words` different words of DRAM.
int64_t least_gather_cycles(int64_t size_lw, int64_t parts, int64_t groups, int64_t words,
                            const isa::Chip& chip);

/// A gather that has been cut into windows.
class Gather {
 public:
  /// UnsupportedError when the constants don't fit beside a window.
  /// `problem` and `chip` must outlive it.
  Gather(const GatherProblem& problem, const isa::Chip& chip);

  /// Cycles among other programs, without making the program: what a plan counts with. Tests hold it within
  /// 2/3 and 3/2 of what `emit` finds.
  int64_t estimated_cycles() const;
  /// What DRAM alone takes when the gather reads and writes it, and nothing stays on the chip: LW that cross
  /// its port in the busiest group, over the port's rate; each LW that is wanted once, and the image. No
  /// program of this kind is faster. It is no bound for others: what a layer before left in L2BM need not be
  /// read, and padding that nobody reads need not be written.
  int64_t dram_cycles() const;
  size_t window_count() const;
  /// LW of LM1 that it writes at most, from the begin on.
  int64_t lm1_lw() const;
  /// How it was cut, in words.
  std::string describe() const;
  /// LW that the tables take in each group's DRAM.
  int64_t tables_lw() const;
  GatherCode emit(int64_t tables_address) const;

 private:
  class Emitter;

  /// A block of 64 LW of DRAM that an L1B wants words of.
  struct Wanted {
    int64_t address = 0;  ///< GatherSource::block
    uint8_t octets = 0;   ///< bit k: LW 8 k .. 8 k + 7
    int8_t shift = 0;  ///< octets before the first that its slot has; less than 0: that the slot has before
    int32_t slot = -1;
  };
  /// One l2bmb: a block of L2BM to some L1Bs, so many octets before the slot's place in L1BM. Or one l2bmb2
  /// (`is_dealt`): of four blocks a quarter each, to the slot's place, `shift` octets behind the one that
  /// l2bmb2 deals to the L1B.
  struct Copy {
    int32_t place = 0;  ///< in the half of L2BM whose turn it is
    int32_t shift = 0;
    uint32_t l1bs = 0;
    bool is_dealt = false;
  };
  /// Octets that one broadcast each brings to all PEs, of another block in every L1B.
  struct Slot {
    uint8_t octets = 0;  ///< counted from `shift` of the blocks
    int32_t window = 0;
    int64_t in_window = 0;  ///< its first octet in LM0
    std::vector<Copy> copies;
  };
  /// What half of L2BM holds at a time.
  struct Load {
    int32_t first_slot = 0;
    std::vector<std::vector<int64_t>> places;  ///< by place and L2B: the block there; kNoBlock: any
  };
  static constexpr int64_t kNoBlock = -1;
  /// What LM0 holds at a time.
  struct Window {
    int32_t first_slot = 0;
    std::vector<int32_t> vectors;  ///< that find words here, in order
  };
  /// As many windows as an entry of a table can tell apart. Two vectors share a table, which is brought when
  /// the first of the windows needs it.
  struct Round {
    int64_t first_table = 0;
    std::vector<int32_t> table_of_pair;  ///< counted from first_table; -1: no word comes in these windows
  };
  /// Vectors whose results LM1 holds at a time.
  struct Tile {
    int32_t first_vector = 0;
    int32_t vector_count = 0;
    std::vector<std::vector<Wanted>> wanted;  ///< by L1B of the chip, by address
    std::vector<Slot> slots;
    std::vector<Load> loads;
    std::vector<Window> windows;
    std::vector<Round> rounds;
    std::vector<int32_t> first_window, last_window;  ///< of each vector
  };
  /// LW of a group's image that an L2B makes as a vector; empty: none.
  struct Row {
    int group = 0;
    int64_t begin = 0;
    int64_t size = 0;
    bool operator==(const Row&) const = default;
  };
  /// By L2B of the chip, and vector.
  using Rows = std::vector<std::vector<Row>>;
  /// Who makes what, and how that is cut.
  struct Division {
    Rows rows;
    std::vector<Tile> tiles;
    int64_t tables = 0;
    int64_t picks = 0;  ///< tables times windows that look at them
    int64_t vectors() const { return rows.empty() ? 0 : static_cast<int64_t>(rows[0].size()); }
  };
  Rows own_rows(int64_t vectors) const;
  /// Which of the rows that a group makes each of its L2Bs makes.
  enum class Share : uint8_t {
    kOfSource,  ///< by the first of their words: L2Bs have parts of the group's DRAM
    kOfImages,  ///< by their place
  };
  std::vector<Rows> rows_by_source(const Rows& own) const;
  Rows shared_rows(const std::vector<std::vector<std::pair<Row, int64_t>>>& made, Share share) const;
  Division divide(Rows rows) const;
  int64_t estimated_cycles(const Division& division) const;
  bool crosses_groups(const Rows& rows) const;

  /// Where a word of DRAM is when an L1B has it in LM0.
  struct Home {
    int32_t window = 0;
    int64_t word = 0;
  };
  Home home(const Tile& tile, size_t l1b, const GatherSource& source) const;
  /// Of the chip, of the one that makes a LW of a row.
  size_t l1b_of(int l2b, int64_t lw) const {
    return static_cast<size_t>(l2b * chip_.l1b_per_l2b + lw / isa::kL2bmdRunLw % chip_.l1b_per_l2b);
  }

  /// Consecutive blocks of DRAM that one transfer brings.
  struct Run {
    enum class To : uint8_t {
      kL2b,         ///< one L2B
      kAll,         ///< all, from one group
      kGroups,      ///< one L2B of every group, each from its own group
      kAllOfGroup,  ///< all, each from its own group
    };
    To to = To::kL2b;
    int l2b = 0;  ///< kGroups: of the group
    int64_t first_place = 0;
    int64_t address = 0;
    int64_t blocks = 0;
    bool operator==(const Run&) const = default;
  };
  std::vector<Run> runs(const Load& load) const;

  /// The order in which blocks come.
  enum class Order : uint8_t {
    kByRank,     ///< the n-th block of every L1B together, or the n-th four where they can be dealt
    kByAddress,  ///< the n-th block of all that an L2B's L1Bs want
  };
  void cut(Tile& tile, Division& division) const;
  void make_slots(Tile& tile, Order order) const;
  class SlotMaker;
  static void number_tables(Tile& tile, Division& division);
  /// Steps that bring the slots of a tile, and cycles of the transfers before them.
  static int64_t slot_steps(const Tile& tile);
  double load_cycles(const Load& load) const;
  double tile_cycles(const Tile& tile) const;
  template <typename Visit>
  void for_each_word(const Tile& tile, const Rows& rows, Visit&& visit) const;
  std::vector<std::vector<uint64_t>> make_tables() const;

  const GatherProblem& problem_;
  const isa::Chip& chip_;
  int64_t row_lw_ = 0;   ///< of one vector of all PEs of an L2B
  int64_t used_lw_ = 0;  ///< of its beginning, whole lines, that images of one row need; else all
  int64_t constant_octets_ = 0;
  int64_t window_octets_ = 0;
  int64_t tile_vectors_ = 0;
  Division division_;
};

}  // namespace kodama::layout
