#include "compiler/report/html_report.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/report/graph_drawing.h"
#include "isa/error.h"

namespace kodama::compiler {
namespace {

using nlohmann::ordered_json;

GraphToDraw chain(size_t nodes) {
  GraphToDraw graph{100, 40, nodes, {}};
  for (size_t k = 1; k < nodes; ++k) graph.edges.push_back({k - 1, k});
  return graph;
}

TEST(GraphDrawing, NodesOfAChainStandBelowEachOther) {
  const DrawnGraph drawn = draw_graph(chain(5));
  ASSERT_EQ(drawn.nodes.size(), 5u);
  for (size_t k = 1; k < 5; ++k) {
    EXPECT_GE(drawn.nodes[k].y - drawn.nodes[k - 1].y, 40);
    EXPECT_NEAR(drawn.nodes[k].x, drawn.nodes[0].x, 1);
    EXPECT_TRUE(drawn.edges[k - 1].path.starts_with("M")) << drawn.edges[k - 1].path;
    EXPECT_LE(drawn.edges[k - 1].top, drawn.edges[k - 1].bottom);
  }
  EXPECT_GE(drawn.width, 100);
  EXPECT_GE(drawn.height, 5 * 40);
}

TEST(GraphDrawing, NothingAndLoopsAndEdgesBackwards) {
  EXPECT_TRUE(draw_graph(chain(0)).nodes.empty());
  GraphToDraw graph = chain(3);
  graph.edges.push_back({2, 0});
  graph.edges.push_back({1, 1});
  graph.edges.push_back({0, 1});
  const DrawnGraph drawn = draw_graph(graph);
  EXPECT_EQ(drawn.edges.size(), 5u);
  for (const DrawnGraph::Edge& edge : drawn.edges) EXPECT_FALSE(edge.path.empty());
}

TEST(GraphDrawing, LargeGraphsAreInPartsInTheirOrder) {
  GraphToDraw graph = chain(1000);
  for (size_t k = 3; k < 1000; k += 3) graph.edges.push_back({k - 3, k});
  graph.edges.push_back({0, 999});
  const DrawnGraph drawn = draw_graph(graph);
  for (size_t k = 200; k < 1000; ++k) EXPECT_GT(drawn.nodes[k].y, drawn.nodes[k - 200].y);
  for (const DrawnGraph::Node& node : drawn.nodes) {
    EXPECT_GE(node.x, 50 - 1);
    EXPECT_LE(node.x, drawn.width - 50 + 1);
    EXPECT_LE(node.y, drawn.height);
  }
  for (const DrawnGraph::Edge& edge : drawn.edges) EXPECT_FALSE(edge.path.empty());
}

ordered_json run_of(const std::vector<std::pair<std::string, int64_t>>& layers) {
  ordered_json run = {{"stages", ordered_json::array()}, {"total", {{"cycles", 0}, {"total_cycles", 10}}}};
  for (const auto& [name, cycles] : layers)
    run["stages"].push_back({{"name", name}, {"stats", {{"cycles", cycles}}}});
  return run;
}

TEST(CompareRuns, LayersOfOneNameAreMatchedInTheirOrder) {
  const ordered_json found =
      compare_runs(run_of({{"a", 10}, {"twice", 1}, {"gone", 5}, {"twice", 2}, {"zero", 0}}),
                   run_of({{"new", 7}, {"twice", 3}, {"a", 4}, {"twice", 2}, {"zero", 9}}));
  std::vector<std::string> rows;
  for (const ordered_json& row : found["layers"])
    rows.push_back(row["name"].get<std::string>() + " " + row["difference"].dump());
  EXPECT_EQ(rows,
            (std::vector<std::string>{"a -6", "twice 2", "gone null", "twice 0", "zero 9", "new null"}));
  EXPECT_EQ(found["layers"][0]["ratio"], 0.4);
  EXPECT_TRUE(found["layers"][4]["ratio"].is_null());
  EXPECT_EQ(found["total"]["total_cycles"]["difference"], 0);
}

TEST(HtmlReport, RefusesWhatNoRunHasWritten) {
  for (const char* text : {"[]", "{}", "null", "[[]]", R"({"model": "m", "chip": 3})"}) {
    EXPECT_THROW(html_report({{"file.json", ordered_json::parse(text)}}), isa::UserError) << text;
  }
}

}  // namespace
}  // namespace kodama::compiler
