#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

/// The plot of `kodama sweep`, which gnuplot draws.
namespace kodama::compiler {

/// Cycles over the values of the first key that changes; a line for each combination of the others.
struct SweepPlot {
  struct Line {
    std::string name;
    std::vector<std::optional<int64_t>> cycles;  ///< by value; nothing where there is none
  };
  std::string title;
  std::string key;
  std::vector<std::string>
      values;  ///< numbers get their places, if all are numbers; else they stand in a row
  std::vector<Line> lines;
};

/// UnsupportedError if there is no gnuplot. Tried before the work.
void check_gnuplot();
/// What gnuplot is told. Texts may be anybody's: they are quoted so that none of it is a command.
std::string gnuplot_script(const SweepPlot& plot);
/// The picture as SVG.
std::string plot_svg(const SweepPlot& plot);

}  // namespace kodama::compiler
