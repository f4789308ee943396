#pragma once

#include <string>
#include <vector>

#include "scheduler/problem/schedule_problem.h"

/// `--draw` of `kodama schedule` and `kodama opt`: what depends on what, and what issues when.
namespace kodama::tools {

/// A block or loop and its schedules, of which the last says when the drawn dependences' operations issue.
struct DrawnBlock {
  struct Chart {
    std::string title;
    scheduler::Schedule schedule;
  };
  std::string title;
  scheduler::ScheduleProblem problem;
  std::vector<Chart> charts;  ///< one at least
};

/// As SVG, one block below the other: the dependences, drawn by Graphviz, and below them for each schedule
/// the steps from left to right with a row for every unit (resources that operations name "unit …"; others,
/// if there are none), each operation by its number. Of a loop the first iteration, with a line at every
/// interval. UnsupportedError for more steps than a picture shows.
std::string schedules_svg(const std::string& title, const std::vector<DrawnBlock>& blocks);
/// The dependences alone, in Graphviz' own language, for other drawings of them: a graph for each block.
std::string schedules_dot(const std::vector<DrawnBlock>& blocks);
/// Writes the one or the other, by the end of the file's name: .dot, or anything else.
void write_drawing(const std::string& file, const std::string& title, const std::vector<DrawnBlock>& blocks);

}  // namespace kodama::tools
