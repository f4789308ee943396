#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "layout/plan/pbqp.h"

/// For tests: what an exact solver of others says of a PBQP.
namespace kodama::layout {

inline bool has_cbc() {
  return std::system("command -v cbc > /dev/null") == 0;
}

/// The optimum by coinor-cbc, an integer program solver that knows nothing of us; NaN if it gives no answer.
inline double by_cbc(const Pbqp& problem) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("kodama-pbqp-{}", getpid());
  std::filesystem::create_directories(folder);
  std::string objective;
  std::string rows;
  std::string binaries;
  std::string bounds;
  const auto x = [](int node, size_t candidate) { return fmt::format("x_{}_{}", node, candidate); };
  int row_number = 0;
  for (int node = 0; node < problem.node_count(); ++node) {
    std::string one;
    for (size_t i = 0; i < problem.node_costs(node).size(); ++i) {
      objective += fmt::format(" + {} {}", problem.node_costs(node)[i], x(node, i));
      one += fmt::format(" + {}", x(node, i));
      binaries += " " + x(node, i) + "\n";
    }
    rows += fmt::format(" r{}:{} = 1\n", row_number++, one);
    for (const auto& [other, matrix] : problem.edges(node)) {
      for (size_t i = 0; i < matrix.rows(); ++i) {
        for (size_t j = 0; j < matrix.columns(); ++j) {
          if (matrix[i][j] == kForbidden) {
            rows += fmt::format(" r{}: {} + {} <= 1\n", row_number++, x(node, i), x(other, j));
          } else if (matrix[i][j] > 0) {
            const std::string y = fmt::format("y_{}_{}_{}_{}", node, i, other, j);
            objective += fmt::format(" + {} {}", matrix[i][j], y);
            rows += fmt::format(" r{}: {} - {} - {} >= -1\n", row_number++, y, x(node, i), x(other, j));
            bounds += fmt::format(" 0 <= {} <= 1\n", y);
          }
        }
      }
    }
  }
  const std::string program = (folder / "problem.lp").string();
  const std::string answer = (folder / "answer.txt").string();
  std::ofstream(program) << "Minimize\n obj:" << objective << "\nSubject To\n"
                         << rows << "Bounds\n"
                         << bounds << "Binaries\n"
                         << binaries << "End\n";
  const std::string command = fmt::format("cbc {} solve solution {} > /dev/null 2>&1", program, answer);
  const bool ran = std::system(command.c_str()) == 0;
  std::string line;
  std::ifstream in(answer);
  std::getline(in, line);  // "Optimal - objective value 123.00000000"
  in.close();
  std::filesystem::remove_all(folder);
  if (!ran) return NAN;
  if (line.starts_with("Infeasible")) return kForbidden;
  const size_t at = line.rfind(' ');
  return line.starts_with("Optimal") && at != std::string::npos ? std::stod(line.substr(at)) : NAN;
}

}  // namespace kodama::layout
