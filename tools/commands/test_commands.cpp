#include <fmt/format.h>

#include <algorithm>
#include <iostream>

#include "compiler/driver/graph_fuzz.h"
#include "compiler/driver/node_tests.h"
#include "compiler/driver/session.h"
#include "isa/error.h"
#include "isa/output.h"
#include "isa/verbosity.h"
#include "simulator/debug/judge.h"
#include "simulator/hazard_modes.h"
#include "tools/command_groups.h"
#include "tools/common_options.h"
#include "tools/options.h"

namespace kodama::tools {
namespace {

class NodeTestsCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    add_chip(app, request_.chip);
    app.add_option("--precision", request_.precision, "of matrix products")->capture_default_str();
    CLI::Option* sets =
        app.add_option("--set", request_.sets,
                       "node, simple, pytorch-operator, pytorch-converted or all; may be repeated")
            ->allow_extra_args(false)
            ->capture_default_str();
    app.add_option("--directory", request_.directory, "where the tests are (default: libonnx-testdata's)")
        ->excludes(sets);
    app.add_option("--filter", request_.filter, "regular expression on the test's name");
    add_threads(app, request_.threads);
    app.add_option("--json", request_.json_file, "write all results as JSON");
  }
  int run(const CLI::App& /*app*/) override {
    request_.verbose = isa::verbosity() == isa::Verbosity::kVerbose;  // tests that passed, too
    return compiler::node_tests_command(request_, report_stream({request_.json_file}));
  }

 private:
  compiler::NodeTestRequest request_;
};

class GraphFuzzCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    add_seed(app, request_.seed, "of the first graph; the next has the next seed");
    add_number(app, "--count", request_.count, "graphs", 1, 1'000'000'000)->capture_default_str();
    app.add_flag("--operators", request_.operators,
                 "models of 10 to 60 nodes of all operators and types, one run each");
    app.add_option("--chip", request_.chips,
                   "chip; may be repeated (default: tiny, without --operators mncore2, too)")
        ->allow_extra_args(false);
    app.add_option("--precision", request_.precisions,
                   "of matrix products; may be repeated (default: gfloat, half and float)")
        ->allow_extra_args(false);
    add_thread_count(app, "--jobs", request_.jobs, "processes at a time", 1);
    add_number(app, "--time-limit", request_.seconds, "seconds of processor time for a run", 1, 100'000)
        ->capture_default_str();
    app.add_flag("!--no-shrink", request_.shrink, "print failing graphs as they are");
    app.add_option("--write", request_.directory, "directory for models that fail, and their inputs");
    app.add_flag("--only-write", request_.only_write, "write all graphs, run none");
  }
  int run(const CLI::App& /*app*/) override {
    isa::check_output_directory(request_.directory);
    if (request_.only_write && request_.directory.empty())
      throw isa::UserError("--only-write: allowed only with --write");
    request_.verbose = isa::verbosity() == isa::Verbosity::kVerbose;  // a line for every run
    return compiler::graph_fuzz_command(request_, std::cout);
  }

 private:
  compiler::GraphFuzzRequest request_;
};

class JudgeCommand : public Command {
 public:
  void declare(CLI::App& app) override {
    app.add_option("testcase", test_case_, "testcase.vsm");
    app.add_option("answer", answer_, "answer.vsm");
    app.add_option("--dir", directory_,
                   "judge a tree of problems: directories with answer.vsm and test cases");
    app.add_option("--chip", options_.chip, "chip of test cases that name none")->capture_default_str();
    add_threads(app, options_.machine.threads);
    add_number(app, "--max-steps", options_.most_steps,
               "steps and transfers of an answer, at most; 0 = no limit", 0)
        ->capture_default_str();
    add_number(app, "--max-seconds", options_.most_seconds, "time to run an answer, at most; 0 = no limit", 0,
               1e9)
        ->capture_default_str();
    add_number(app, "--max-memory", megabytes_, "MB of DRAM that an answer may write, at most; 0 = no limit",
               0, 1 << 30)
        ->capture_default_str();
    add_hazards_option(app, hazards_);
  }
  int run(const CLI::App& app) override {
    if (!directory_.empty()) {
      check_mode(
          app, "with --dir",
          {"--dir", "--chip", "--threads", "--hazards", "--max-steps", "--max-seconds", "--max-memory"});
    }
    options_.hazards = simulator::parse_hazards(hazards_);
    options_.most_bytes = megabytes_ * kMegabyte;
    return judge();
  }

 private:
  static constexpr int64_t kMegabyte = 1'000'000;

  int judge() const {
    if (directory_.empty()) {
      if (answer_.empty()) throw isa::UserError("judge: allowed are TESTCASE ANSWER, or --dir DIR");
      const auto verdict = simulator::judge_files(test_case_, answer_, options_);
      std::cout << simulator::verdict_text(verdict);
      return verdict.accepted ? isa::kExitOk : isa::kExitOutOfTolerance;
    }
    const auto results = simulator::judge_tree(directory_, options_);
    std::cout << simulator::judge_table(results);
    const bool passed = std::ranges::all_of(
        results, [](const auto& result) { return !result.error && result.passed == result.tests; });
    return passed ? isa::kExitOk : isa::kExitOutOfTolerance;
  }

  std::string test_case_;
  std::string answer_;
  std::string directory_;
  simulator::JudgeOptions options_;
  std::string hazards_ = "ignore";
  int64_t megabytes_ = options_.most_bytes / kMegabyte;
};

}  // namespace

void add_test_commands(CommandLine& line) {
  line.add<NodeTestsCommand>("onnx-tests",
                             "run ONNX's node tests on the chip path and on the reference path");
  line.add<GraphFuzzCommand>("onnx-fuzz",
                             "compile and run random models, compare them with the CPU reference");
  line.add<JudgeCommand>("judge", "run an answer on a test case, compare what it must print");
}

}  // namespace kodama::tools
