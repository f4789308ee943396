#include "compiler/report/graph_drawing.h"

#include <fmt/format.h>
#include <graphviz/gvc.h>

#include <algorithm>
#include <cstdint>
#include <memory>

#include "isa/error.h"

namespace kodama::compiler {
namespace {

constexpr double kPointsPerInch = 72;
/// Nodes that are drawn at once, which takes half a second.
constexpr size_t kWhole = 300;
/// Of larger graphs: nodes of a part, and how far from there it may be cut.
constexpr size_t kPart = 100;
constexpr size_t kAround = 30;
constexpr double kGap = 40;  ///< between parts

struct CloseContext {
  void operator()(GVC_t* context) const { gvFreeContext(context); }
};
struct CloseGraph {
  GVC_t* context;
  void operator()(Agraph_t* graph) const {
    gvFreeLayout(context, graph);
    agclose(graph);
  }
};

class Drawing {
 public:
  explicit Drawing(const GraphToDraw& graph)
      : graph_(graph), points_(graph.edges.size()), edges_of_(graph.nodes), context_(gvContext()) {
    agseterr(AGMAX);  // what goes wrong is said by us
    for (size_t k = 0; k < graph.edges.size(); ++k) edges_of_[graph.edges[k].from].push_back(k);
    result_.nodes.resize(graph.nodes);
  }

  DrawnGraph run() {
    find_parts();
    for (Part& part : parts_) draw(part);
    for (const Part& part : parts_) result_.width = std::max(result_.width, part.width);
    for (const Part& part : parts_) {
      const double shift = (result_.width - part.width) / 2;
      for (size_t node = part.begin; node < part.end; ++node) {
        result_.nodes[node].x += shift;
        for (const size_t edge : edges_of_[node]) {
          for (DrawnGraph::Node& point : points_[edge]) point.x += shift;
        }
      }
    }
    for (size_t k = 0; k < points_.size(); ++k) result_.edges.push_back(drawn_edge(k));
    return std::move(result_);
  }

 private:
  /// Nodes from `begin` to `end`, with the edges between them.
  struct Part {
    size_t begin = 0;
    size_t end = 0;
    double width = 0;
  };

  void find_parts() {
    size_t begin = 0;
    if (graph_.nodes > kWhole) {
      // Edges over the gap before each node.
      std::vector<int64_t> over(graph_.nodes + 1, 0);
      for (const auto& [from, to] : graph_.edges) {
        ++over[std::min(from, to) + 1];
        --over[std::max(from, to) + 1];
      }
      for (size_t k = 1; k < over.size(); ++k) over[k] += over[k - 1];
      while (graph_.nodes - begin > kPart + kAround) {
        const auto first = over.begin() + static_cast<ptrdiff_t>(begin + kPart - kAround);
        const auto best = std::min_element(first, first + static_cast<ptrdiff_t>(2 * kAround));
        const auto end = static_cast<size_t>(best - over.begin());
        parts_.push_back({begin, end});
        begin = end;
      }
    }
    if (begin < graph_.nodes) parts_.push_back({begin, graph_.nodes});
  }

  void draw(Part& part) {
    const std::unique_ptr<Agraph_t, CloseGraph> graph(agopen(const_cast<char*>("g"), Agdirected, nullptr),
                                                      CloseGraph{context_.get()});
    const auto set = [&](int kind, const char* name, const std::string& value) {
      agattr(graph.get(), kind, const_cast<char*>(name), const_cast<char*>(value.c_str()));
    };
    set(AGNODE, "shape", "box");
    set(AGNODE, "fixedsize", "true");
    set(AGNODE, "label", "");
    set(AGNODE, "width", fmt::format("{:.4f}", graph_.node_width / kPointsPerInch));
    set(AGNODE, "height", fmt::format("{:.4f}", graph_.node_height / kPointsPerInch));
    set(AGEDGE, "arrowhead", "none");
    set(AGRAPH, "nodesep", "0.3");
    set(AGRAPH, "ranksep", "0.45");
    if (parts_.size() > 1) {
      // Fewer iterations.
      set(AGRAPH, "nslimit", "2");
      set(AGRAPH, "nslimit1", "2");
      set(AGRAPH, "mclimit", "0.5");
    }
    std::vector<Agnode_t*> nodes;
    for (size_t k = part.begin; k < part.end; ++k)
      nodes.push_back(agnode(graph.get(), const_cast<char*>(std::to_string(k).c_str()), 1));
    std::vector<std::pair<size_t, Agedge_t*>> edges;
    for (size_t from = part.begin; from < part.end; ++from) {
      for (const size_t edge : edges_of_[from]) {
        const size_t to = graph_.edges[edge].to;
        if (to >= part.begin && to < part.end)
          edges.emplace_back(
              edge, agedge(graph.get(), nodes[from - part.begin], nodes[to - part.begin], nullptr, 1));
      }
    }
    const char* problem = nullptr;
    if (gvLayout(context_.get(), graph.get(), "dot") != 0) problem = aglasterr();
    isa::check_internal(GD_drawing(graph.get()) != nullptr && problem == nullptr, "draw_graph",
                        "Graphviz makes no layered drawing: {}", problem != nullptr ? problem : "no reason");
    const boxf box = GD_bb(graph.get());
    const double top = result_.height > 0 ? result_.height + kGap : 0;
    const auto point = [&](const pointf& at) {
      return DrawnGraph::Node{at.x - box.LL.x, top + box.UR.y - at.y};
    };
    for (size_t k = part.begin; k < part.end; ++k) result_.nodes[k] = point(ND_coord(nodes[k - part.begin]));
    for (const auto& [number, edge] : edges) {
      const splines* found = ED_spl(edge);
      if (found == nullptr || found->size == 0) continue;
      for (int k = 0; k < found->list[0].size; ++k) points_[number].push_back(point(found->list[0].list[k]));
    }
    part.width = box.UR.x - box.LL.x;
    result_.height = top + box.UR.y - box.LL.y;
  }

  /// Edges between parts are straight.
  DrawnGraph::Edge drawn_edge(size_t number) const {
    std::vector<DrawnGraph::Node> points = points_[number];
    if (points.empty()) {
      const DrawnGraph::Node& from = result_.nodes[graph_.edges[number].from];
      const DrawnGraph::Node& to = result_.nodes[graph_.edges[number].to];
      const double half = to.y >= from.y ? graph_.node_height / 2 : -graph_.node_height / 2;
      points = {{from.x, from.y + half}, {to.x, to.y - half}};
    }
    DrawnGraph::Edge edge;
    edge.left = edge.right = points[0].x;
    edge.top = edge.bottom = points[0].y;
    for (size_t k = 0; k < points.size(); ++k) {
      const char* command = k == 0 ? "M" : points.size() == 2 ? "L" : k == 1 ? "C" : " ";
      edge.path += fmt::format("{}{:.0f} {:.0f}", command, points[k].x, points[k].y);
      edge.left = std::min(edge.left, points[k].x);
      edge.right = std::max(edge.right, points[k].x);
      edge.top = std::min(edge.top, points[k].y);
      edge.bottom = std::max(edge.bottom, points[k].y);
    }
    return edge;
  }

  const GraphToDraw& graph_;
  std::vector<std::vector<DrawnGraph::Node>> points_;  ///< by edge
  std::vector<std::vector<size_t>> edges_of_;          ///< by node that they begin at
  std::unique_ptr<GVC_t, CloseContext> context_;
  std::vector<Part> parts_;
  DrawnGraph result_;
};

}  // namespace

DrawnGraph draw_graph(const GraphToDraw& graph) {
  return Drawing(graph).run();
}

}  // namespace kodama::compiler
