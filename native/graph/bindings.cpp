// Earliest starts and latest ends of the nodes of a dependency graph.
//
// A node begins after all its dependencies have ended, each with a delay. Dependencies precede their nodes.
// Each node has up to kMost, at [node * kMost + i]; -1 for none.
#include <nanobind/ndarray.h>

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

constexpr size_t kMost = 3;

struct Dependencies {
  const int64_t* before;
  const int64_t* delay_ns;
  size_t nodes;

  // Calls visit(place, dependency) for each dependency.
  template <class Visit>
  void of(size_t node, Visit visit) const {
    for (size_t place = node * kMost; place < (node + 1) * kMost; ++place) {
      if (before[place] < 0) continue;
      if (static_cast<size_t>(before[place]) >= node)
        throw std::invalid_argument("a node comes before one that it depends on");
      visit(place, static_cast<size_t>(before[place]));
    }
  }
};

using Durations = Numbers<int64_t>;
using Slots = nb::ndarray<const int64_t, nb::shape<-1, kMost>, nb::c_contig, nb::device::cpu>;

Dependencies graph_of(const Slots& before, const Slots& delay_ns, const Durations& duration_ns) {
  if (before.shape(0) != duration_ns.size() || delay_ns.shape(0) != duration_ns.size()) {
    throw nb::value_error("columns of one table have different lengths");
  }
  return {before.data(), delay_ns.data(), duration_ns.size()};
}

// Earliest end of each node, and the dependency that determines its start; -1: it begins at `start_ns`.
nb::tuple earliest(const Slots& before, const Slots& delay_ns, const Durations& duration_ns,
                   int64_t start_ns) {
  const Dependencies graph = graph_of(before, delay_ns, duration_ns);
  std::vector<int64_t> end_ns(graph.nodes);
  std::vector<int64_t> binding(graph.nodes, -1);
  {
    const WithoutGil without_gil;
    for (size_t node = 0; node < graph.nodes; ++node) {
      int64_t begin = start_ns;
      graph.of(node, [&](size_t place, size_t earlier) {
        const int64_t ready = end_ns[earlier] + graph.delay_ns[place];
        if (ready < begin || (ready == begin && binding[node] >= 0)) return;
        begin = ready;
        binding[node] = static_cast<int64_t>(earlier);
      });
      end_ns[node] = begin + duration_ns.data()[node];
    }
  }
  return array_tuple(end_ns, binding);
}

// Latest end of each node with which nothing ends after `end_ns`.
nb::object latest(const Slots& before, const Slots& delay_ns, const Durations& duration_ns, int64_t end_ns) {
  const Dependencies graph = graph_of(before, delay_ns, duration_ns);
  std::vector<int64_t> result(graph.nodes, end_ns);
  {
    const WithoutGil without_gil;
    for (size_t node = graph.nodes; node-- > 0;) {
      const int64_t begin = result[node] - duration_ns.data()[node];
      graph.of(node, [&](size_t place, size_t earlier) {
        result[earlier] = std::min(result[earlier], begin - graph.delay_ns[place]);
      });
    }
  }
  return to_array(std::move(result));
}

}  // namespace

void bind_graph(nb::module_& module) {
  module.def("earliest_ends", &earliest, "before"_a, "delay_ns"_a, "duration_ns"_a, "start_ns"_a);
  module.def("latest_ends", &latest, "before"_a, "delay_ns"_a, "duration_ns"_a, "end_ns"_a);
}

}  // namespace opscope
