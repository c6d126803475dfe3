// Python bindings of nesting, for parents of 32 and of 64 bits.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "nesting/line_sweep.h"
#include "nesting/nesting.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

template <class Parent>
void bind_for(nb::module_& m) {
  m.def(
      "nearest_ancestor",
      [](Numbers<Parent> parents, Numbers<bool> keep) {
        check_lengths(keep.size(), parents);
        std::vector<Parent> found(parents.size());
        without_gil(
            [&] { nesting::nearest_ancestor(parents.data(), keep.data(), found.size(), found.data()); });
        return to_array(std::move(found));
      },
      "parents"_a, "keep"_a);
  m.def(
      "outermost_ancestor",
      [](Numbers<Parent> parents, Numbers<bool> keep) {
        check_lengths(keep.size(), parents);
        return to_array(without_gil(
            [&] { return nesting::outermost_ancestor(parents.data(), keep.data(), parents.size()); }));
      },
      "parents"_a, "keep"_a);
  m.def(
      "depths",
      [](Numbers<Parent> parents) {
        return to_array(without_gil([&] { return nesting::depths(parents.data(), parents.size()); }));
      },
      "parents"_a);
  m.def(
      "subtree_sums",
      [](Numbers<Parent> parents, Numbers<int64_t> own) {
        check_lengths(own.size(), parents);
        return to_array(
            without_gil([&] { return nesting::subtree_sums(parents.data(), own.data(), parents.size()); }));
      },
      "parents"_a, "own"_a);
  m.def(
      "minus_children",
      [](Numbers<Parent> parents, Numbers<int64_t> value, std::optional<Numbers<bool>> counted) {
        check_lengths(value.size(), parents);
        if (counted) check_lengths(counted->size(), parents);
        return to_array(without_gil([&] {
          return nesting::minus_children(parents.data(), value.data(), counted ? counted->data() : nullptr,
                                         parents.size());
        }));
      },
      "parents"_a, "value"_a, "counted"_a = nb::none());
}

// The span directly around each span, and its self time; the rows of spans that did not nest, and until when
// these have self time.
nb::tuple nest_on_lines(const Numbers<int64_t>& start_ns, const Numbers<int64_t>& duration_ns,
                        const Numbers<int32_t>& parent, const Numbers<int32_t>& line, size_t lines) {
  const size_t rows = start_ns.size();
  check_lengths(rows, duration_ns, parent, line);
  check_between(line, 0, size_t{INT32_MAX});
  nesting::Nested found = without_gil([&] {
    return nesting::nest_on_lines(start_ns.data(), duration_ns.data(), parent.data(), line.data(), rows,
                                  lines);
  });
  return array_tuple(found.around, found.own_ns, found.moved, found.until_ns);
}

nb::tuple contain(const Numbers<int64_t>& thread, const Numbers<int64_t>& start_ns,
                  const Numbers<int64_t>& end_ns, int64_t rounding_ns) {
  check_lengths(thread.size(), start_ns, end_ns);
  nesting::Containment found = without_gil([&] {
    return nesting::contain(thread.data(), start_ns.data(), end_ns.data(), thread.size(), rounding_ns);
  });
  return array_tuple(found.parent, found.overlap_ns);
}

}  // namespace

void bind_nesting(nb::module_& m) {
  bind_for<int32_t>(m);
  bind_for<int64_t>(m);
  m.def("nest_on_lines", &nest_on_lines, "start_ns"_a, "duration_ns"_a, "parent"_a, "line"_a, "lines"_a);
  m.def("contain", &contain, "thread"_a, "start_ns"_a, "end_ns"_a, "rounding_ns"_a);
}

}  // namespace opscope
