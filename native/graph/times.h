// When the nodes of a graph of dependencies can begin at the earliest, and must have ended at the latest.
//
// A node begins once all that it depends on has ended, each with a delay after that. Nodes are in an order in
// which what one depends on stands before it. Each has up to kMost such, at [node * kMost + i]; -1 for none.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

namespace opscope {
namespace graph {

constexpr size_t kMost = 3;

struct Dependencies {
  const int64_t* before;
  const int64_t* delay_ns;
  size_t nodes;

  // Calls visit(place, node before) for each.
  template <class Visit>
  void of(size_t node, Visit visit) const {
    for (size_t place = node * kMost; place < (node + 1) * kMost; ++place) {
      if (before[place] < 0) continue;
      if (static_cast<size_t>(before[place]) >= node)
        throw std::invalid_argument("a node stands before its own");
      visit(place, static_cast<size_t>(before[place]));
    }
  }
};

struct Earliest {
  std::vector<int64_t> end_ns;
  std::vector<int64_t> binding;  // the node before that it begins after, -1 for none
};

// A node without any before it begins at `start_ns`.
inline Earliest earliest(const Dependencies& graph, const int64_t* duration_ns, int64_t start_ns) {
  Earliest result{std::vector<int64_t>(graph.nodes), std::vector<int64_t>(graph.nodes, -1)};
  for (size_t node = 0; node < graph.nodes; ++node) {
    int64_t begin = start_ns;
    graph.of(node, [&](size_t place, size_t before) {
      const int64_t ready = result.end_ns[before] + graph.delay_ns[place];
      if (ready < begin || (ready == begin && result.binding[node] >= 0)) return;
      begin = ready;
      result.binding[node] = static_cast<int64_t>(before);
    });
    result.end_ns[node] = begin + duration_ns[node];
  }
  return result;
}

// When each node may end without anything ending after `end_ns`.
inline std::vector<int64_t> latest(const Dependencies& graph, const int64_t* duration_ns, int64_t end_ns) {
  std::vector<int64_t> result(graph.nodes, end_ns);
  for (size_t node = graph.nodes; node-- > 0;) {
    const int64_t begin = result[node] - duration_ns[node];
    graph.of(node, [&](size_t place, size_t before) {
      result[before] = std::min(result[before], begin - graph.delay_ns[place]);
    });
  }
  return result;
}

}  // namespace graph
}  // namespace opscope
