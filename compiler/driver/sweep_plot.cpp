#include "compiler/driver/sweep_plot.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "isa/error.h"
#include "isa/temporary.h"

namespace kodama::compiler {
namespace {

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// In single quotes nothing has a meaning for gnuplot but the quote, which is doubled.
std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') result += '\'';
    result += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return result + "'";
}

}  // namespace

void check_gnuplot() {
  if (std::system("gnuplot --version >/dev/null 2>&1") != 0)
    throw isa::UnsupportedError(
        "--plot: gnuplot can't be started; install it (Debian: gnuplot-nox), or use --csv");
}

std::string gnuplot_script(const SweepPlot& plot) {
  std::vector<double> places;
  for (const std::string& value : plot.values) {
    const std::optional<double> at = number(value);
    if (!at) break;
    places.push_back(*at);
  }
  const bool are_numbers = places.size() == plot.values.size();
  if (!are_numbers) {
    places.clear();
    for (size_t k = 0; k < plot.values.size(); ++k) places.push_back(static_cast<double>(k));
  }
  std::string script =
      "set terminal svg size 900,480 background '#ffffff' font 'sans-serif,12' noenhanced\n"
      "set grid\nset key outside right top\nset ylabel 'cycles'\nset yrange [0:*]\n"
      "set datafile missing '?'\n";
  script += fmt::format("set title {}\nset xlabel {}\n", quoted(plot.title), quoted(plot.key));
  constexpr double kWide = 8;  // numbers further apart are even on a scale of logarithms
  const auto [least, most] = std::ranges::minmax(places);
  if (are_numbers && least > 0 && most >= kWide * least) {
    script += "set logscale x 2\n";
  } else if (least == most || !are_numbers) {
    script += fmt::format("set xrange [{}:{}]\n", least - 0.5, most + 0.5);
  }
  constexpr size_t kMostLabels = 16;
  if (!are_numbers || plot.values.size() <= kMostLabels) {
    script += "set xtics (";
    for (size_t k = 0; k < plot.values.size(); ++k)
      script += fmt::format("{}{} {}", k > 0 ? ", " : "", quoted(plot.values[k]), places[k]);
    script += ")\n";
  }
  std::string lines;
  for (size_t line = 0; line < plot.lines.size(); ++line) {
    script += fmt::format("$line{} << END\n", line);
    for (size_t k = 0; k < places.size(); ++k) {
      const std::optional<int64_t>& cycles = plot.lines[line].cycles[k];
      script += fmt::format("{} {}\n", places[k], cycles ? std::to_string(*cycles) : "?");
    }
    script += "END\n";
    // Lines differ by more than colour.
    lines += fmt::format("{}$line{} using 1:2 with linespoints dashtype {} pointtype {} title {}",
                         line > 0 ? ", " : "", line, line % 5 + 1, line + 5, quoted(plot.lines[line].name));
  }
  return script + "plot " + lines + "\n";
}

std::string plot_svg(const SweepPlot& plot) {
  std::error_code error;
  const auto file =
      isa::Temporary::make(isa::Temporary::Kind::kFile, std::filesystem::temp_directory_path(error), error);
  if (!file) throw isa::UserError(fmt::format("--plot: no temporary file: {}", error.message()));
  const std::string script = gnuplot_script(plot);
  if (::write(file->descriptor(), script.data(), script.size()) != static_cast<ssize_t>(script.size()))
    throw isa::UserError(
        fmt::format("{}: can't be written ({})", file->path().string(), std::strerror(errno)));
  const std::string command = fmt::format("gnuplot '{}'", file->path().string());
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"),
                                                             [](auto*) { return 0; });
  if (!pipe) throw isa::UserError(fmt::format("--plot: gnuplot can't be started: {}", std::strerror(errno)));
  std::string svg;
  std::vector<char> piece(size_t{1} << 16);
  while (const size_t size = std::fread(piece.data(), 1, piece.size(), pipe.get()))
    svg.append(piece.data(), size);
  if (::pclose(pipe.get()) != 0 || svg.empty())
    throw isa::InternalError("internal error in sweep: gnuplot can't draw the plot");
  return svg;
}

}  // namespace kodama::compiler
