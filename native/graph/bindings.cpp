// What Python sees of graphs of dependencies.
#include "graph/bindings.h"

#include <nanobind/ndarray.h>

#include <utility>

#include "graph/times.h"
#include "interpreter/without_gil.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

using Durations = Numbers<int64_t>;
using Slots = nb::ndarray<const int64_t, nb::shape<-1, graph::kMost>, nb::c_contig, nb::device::cpu>;

graph::Dependencies graph_of(const Slots& before, const Slots& delay_ns, const Durations& duration_ns) {
  if (before.shape(0) != duration_ns.size() || delay_ns.shape(0) != duration_ns.size()) {
    throw nb::value_error("columns of one table have different lengths");
  }
  return {before.data(), delay_ns.data(), duration_ns.size()};
}

nb::tuple earliest(const Slots& before, const Slots& delay_ns, const Durations& duration_ns,
                   int64_t start_ns) {
  const graph::Dependencies nodes = graph_of(before, delay_ns, duration_ns);
  graph::Earliest found = [&] {
    const WithoutGil without_gil;
    return graph::earliest(nodes, duration_ns.data(), start_ns);
  }();
  return nb::make_tuple(to_array(std::move(found.end_ns)), to_array(std::move(found.binding)));
}

nb::object latest(const Slots& before, const Slots& delay_ns, const Durations& duration_ns, int64_t end_ns) {
  const graph::Dependencies nodes = graph_of(before, delay_ns, duration_ns);
  std::vector<int64_t> found = [&] {
    const WithoutGil without_gil;
    return graph::latest(nodes, duration_ns.data(), end_ns);
  }();
  return to_array(std::move(found));
}

}  // namespace

void bind_graph(nb::module_& module) {
  module.def("earliest_ends", &earliest, "before"_a, "delay_ns"_a, "duration_ns"_a, "start_ns"_a);
  module.def("latest_ends", &latest, "before"_a, "delay_ns"_a, "duration_ns"_a, "end_ns"_a);
}

}  // namespace opscope
