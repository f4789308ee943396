#pragma once

#include <string>
#include <vector>

/// Drawings of directed graphs by Graphviz.
namespace kodama::compiler {

struct GraphToDraw {
  double node_width = 0;  ///< points, as all lengths here
  double node_height = 0;
  size_t nodes = 0;  ///< in the order in which a reader expects them from top to bottom
  struct Edge {
    size_t from = 0;
    size_t to = 0;
  };
  std::vector<Edge> edges;
};

struct DrawnGraph {
  double width = 0;
  double height = 0;
  struct Node {
    double x = 0;  ///< of the middle; y points down
    double y = 0;
  };
  std::vector<Node> nodes;
  struct Edge {
    std::string path;  ///< as in SVG: "M… C…"
    double left = 0, top = 0, right = 0, bottom = 0;
  };
  std::vector<Edge> edges;
};

/// A layered drawing (dot). The time that takes grows with the square of the nodes, so that a graph of many
/// is cut where the fewest edges go from what is before to what is behind; its parts stand below each other,
/// with straight lines between them. InternalError if Graphviz has no layered layout, whose library is a part
/// of it.
DrawnGraph draw_graph(const GraphToDraw& graph);

}  // namespace kodama::compiler
