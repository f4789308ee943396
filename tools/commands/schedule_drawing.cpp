#include "tools/commands/schedule_drawing.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "compiler/report/graph_drawing.h"
#include "isa/error.h"
#include "isa/output.h"

namespace kodama::tools {
namespace {

using scheduler::Schedule;
using scheduler::ScheduleProblem;

constexpr double kMargin = 20;
constexpr double kNodeWidth = 270;
constexpr double kNodeHeight = 38;
constexpr double kStep = 30;  ///< width of a step
constexpr int64_t kMostSteps = 10000;
constexpr double kRow = 26;    ///< height of a row of units
constexpr double kName = 190;  ///< of the rows

/// Texts are anybody's.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '<') {
      result += "&lt;";
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      result += ' ';
    } else {
      result += c;
    }
  }
  return result;
}
/// The first characters of a text in UTF-8, none of them in half.
std::string shortened(const std::string& text, size_t length) {
  if (text.size() <= length) return text;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  return text.substr(0, length) + "..";
}
std::string distance_text(const ScheduleProblem::Dependence& dependence) {
  return dependence.iterations == 0 ? std::to_string(dependence.distance)
                                    : fmt::format("{} over {}", dependence.distance, dependence.iterations);
}

/// The rows of the chart: resources that are units; all, if none is.
std::vector<int> rows_of(const ScheduleProblem& problem) {
  std::vector<int> units, all;
  for (size_t k = 0; k < problem.resources.size(); ++k) {
    all.push_back(static_cast<int>(k));
    if (problem.resources[k].name.starts_with("unit ")) units.push_back(static_cast<int>(k));
  }
  return units.empty() ? all : units;
}

class Svg {
 public:
  void add(const DrawnBlock& block) {
    draw_dependences(block.title, block.problem, block.charts.back().schedule);
    for (const DrawnBlock::Chart& chart : block.charts) {
      const int64_t steps = scheduler::schedule_steps(block.problem, chart.schedule);
      if (steps <= kMostSteps) {
        draw_steps(chart.title, block.problem, chart.schedule);
      } else if (&chart != &block.charts.back()) {
        end_ += 2 * kMargin;
        add_text(kMargin, end_, fmt::format("{}: {} steps, too many for a picture", chart.title, steps));
      } else {
        throw isa::UnsupportedError(
            fmt::format("{}: {} steps are too many for a picture, which may have {}; a name that ends "
                        "in .dot gets the dependences alone",
                        block.problem.name, steps, kMostSteps));
      }
    }
  }

  std::string text(const std::string& title) const {
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 "
        "{0:.0f} "
        "{1:.0f}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
        "<title>{2}</title>\n<style>\n"
        "svg {{ background: #fff; color: #1c2430; --fill: #dce9fa; --line: #5b6675; --last: #b4531f }}\n"
        "@media (prefers-color-scheme: dark) {{ svg {{ background: #12161c; color: #e6eaf0; --fill: #22344d; "
        "--line: #9aa7b7; --last: #e08a4f }} }}\n"
        "text {{ fill: currentColor }} rect {{ fill: var(--fill); stroke: var(--line) }}\n"
        "path, line {{ fill: none; stroke: var(--line) }} .around {{ stroke-dasharray: 4 3 }} "
        ".interval {{ stroke: var(--last); stroke-width: 2 }} .small {{ font-size: 10px }}\n</style>\n"
        "<defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" "
        "orient=\"auto\"><path d=\"M0 0L8 4L0 8\"/></marker></defs>\n{3}</svg>\n",
        width_ + kMargin, end_ + kMargin, escaped(title), body_);
  }

 private:
  void add_text(double x, double y, const std::string& text, const char* attributes = "") {
    body_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" {}>{}</text>\n", x, y, attributes, escaped(text));
    width_ = std::max(width_, x);
  }

  void draw_dependences(const std::string& title, const ScheduleProblem& problem, const Schedule& schedule) {
    compiler::GraphToDraw graph{kNodeWidth, kNodeHeight, problem.operations.size(), {}};
    for (const auto& dependence : problem.dependences)
      graph.edges.push_back({static_cast<size_t>(dependence.from), static_cast<size_t>(dependence.to)});
    const compiler::DrawnGraph drawn = compiler::draw_graph(graph);
    const double top = end_ + 2 * kMargin + 10;
    add_text(kMargin, end_ + kMargin + 5, title, "font-weight=\"bold\"");
    body_ += fmt::format("<g transform=\"translate({} {})\">\n", kMargin, top);
    for (size_t k = 0; k < drawn.edges.size(); ++k) {
      const auto& dependence = problem.dependences[k];
      body_ +=
          fmt::format("<path d=\"{}\" marker-end=\"url(#a)\"{}><title>{} to {}: {} steps</title></path>\n",
                      drawn.edges[k].path, dependence.iterations > 0 ? " class=\"around\"" : "",
                      dependence.from, dependence.to, distance_text(dependence));
    }
    for (size_t k = 0; k < drawn.nodes.size(); ++k) {
      const auto& node = drawn.nodes[k];
      const std::string& operation = problem.operations[k].text;
      body_ += fmt::format(
          "<g><title>{}</title><rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\" rx=\"4\"/>",
          escaped(operation), node.x - kNodeWidth / 2, node.y - kNodeHeight / 2, kNodeWidth, kNodeHeight);
      body_ += fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>", node.x,
                           node.y - 3, escaped(shortened(operation, 34)));
      body_ += fmt::format(
          "<text class=\"small\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{} in step {}</text></g>\n",
          node.x, node.y + 12, k, schedule.issue[k]);
    }
    body_ += "</g>\n";
    width_ = std::max(width_, drawn.width + kMargin);
    end_ = top + drawn.height;
  }

  void draw_steps(const std::string& title, const ScheduleProblem& problem, const Schedule& schedule) {
    const double top = end_ + kMargin;
    const std::vector<int> rows = rows_of(problem);
    const int64_t steps = std::max<int64_t>(scheduler::schedule_steps(problem, schedule), 1);
    add_text(kMargin, top + 15,
             fmt::format("{}: {} steps{}", title, steps,
                         problem.is_loop ? fmt::format(", interval {}", schedule.interval) : ""),
             "font-weight=\"bold\"");
    const double left = kMargin + kName;
    const double first = top + 45;
    const auto x = [&](int64_t step) { return left + kStep * static_cast<double>(step); };
    const double bottom = first + kRow * static_cast<double>(std::max<size_t>(rows.size(), 1));
    for (int64_t step = 0; step <= steps; ++step) {
      const bool is_interval = problem.is_loop && schedule.interval > 0 && step % schedule.interval == 0;
      body_ +=
          fmt::format("<line x1=\"{0:.0f}\" x2=\"{0:.0f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\"{3}/>\n", x(step),
                      first - 4, bottom, is_interval ? " class=\"interval\"" : " stroke-opacity=\"0.25\"");
      if (step < steps && (steps < 60 || step % 10 == 0))
        add_text(x(step) + kStep / 2, first - 8, std::to_string(step),
                 "class=\"small\" text-anchor=\"middle\"");
    }
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto& resource = problem.resources[static_cast<size_t>(rows[row])];
      const double y = first + kRow * static_cast<double>(row);
      add_text(kMargin, y + 17, shortened(resource.name, 26));
      // Several may share a place: they stand side by side.
      std::vector<std::vector<size_t>> at(static_cast<size_t>(steps) + 1);
      for (size_t k = 0; k < problem.operations.size(); ++k) {
        const auto& uses = problem.operations[k].uses;
        if (std::ranges::any_of(uses, [&](const auto& use) { return use.resource == rows[row]; }))
          at[static_cast<size_t>(std::clamp<int64_t>(schedule.issue[k], 0, steps))].push_back(k);
      }
      for (size_t step = 0; step < at.size(); ++step) {
        const double wide = (kStep - 2) / static_cast<double>(std::max<size_t>(at[step].size(), 1));
        for (size_t k = 0; k < at[step].size(); ++k) {
          const double begin = x(static_cast<int64_t>(step)) + 1 + wide * static_cast<double>(k);
          const size_t operation = at[step][k];
          body_ += fmt::format(
              "<g><title>{}</title><rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{}\" rx=\"3\"/>"
              "<text class=\"small\" x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text></g>\n",
              escaped(problem.operations[operation].text), begin, y + 2, wide, kRow - 4, begin + wide / 2,
              y + 17, operation);
        }
      }
    }
    width_ = std::max(width_, x(steps));
    end_ = bottom;
  }

  std::string body_;
  double width_ = 0;
  double end_ = 0;  ///< of what is drawn
};

}  // namespace

std::string schedules_svg(const std::string& title, const std::vector<DrawnBlock>& blocks) {
  Svg svg;
  for (const DrawnBlock& block : blocks) svg.add(block);
  return svg.text(title);
}

std::string schedules_dot(const std::vector<DrawnBlock>& blocks) {
  const auto quoted = [](const std::string& text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return result + "\"";
  };
  std::string dot;
  for (const DrawnBlock& block : blocks) {
    const ScheduleProblem& problem = block.problem;
    const Schedule& schedule = block.charts.back().schedule;
    dot += fmt::format("digraph {} {{\n  node [shape=box]\n", quoted(problem.name));
    for (size_t k = 0; k < problem.operations.size(); ++k)
      dot += fmt::format(
          "  {} [label={}]\n", k,
          quoted(fmt::format("{}: {} in step {}", k, problem.operations[k].text, schedule.issue[k])));
    for (const auto& dependence : problem.dependences)
      dot +=
          fmt::format("  {} -> {} [label={}{}]\n", dependence.from, dependence.to,
                      quoted(distance_text(dependence)), dependence.iterations > 0 ? ", style=dashed" : "");
    dot += "}\n";
  }
  return dot;
}

void write_drawing(const std::string& file, const std::string& title, const std::vector<DrawnBlock>& blocks) {
  isa::write_output(file, file.ends_with(".dot") ? schedules_dot(blocks) : schedules_svg(title, blocks));
}

}  // namespace kodama::tools
