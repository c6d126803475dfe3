// Python bindings of attribution.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "attribution/lines.h"
#include "attribution/modules.h"
#include "attribution/phases.h"
#include "interpreter/without_gil.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

// parent, thread, name, kind, scope, sequence_number, forward_thread
using EventArrays = std::tuple<Numbers<int32_t>, Numbers<int32_t>, Numbers<int32_t>, Numbers<uint8_t>,
                               Numbers<uint8_t>, Numbers<int64_t>, Numbers<int32_t>>;

attribution::Events events_of(const EventArrays& arrays, size_t threads) {
  const auto& [parent, thread, name, kind, scope, sequence, forward_thread] = arrays;
  const size_t rows = parent.size();
  check_lengths(rows, thread, name, kind, scope, sequence, forward_thread);
  check_between(parent, -1, rows);
  check_between(thread, 0, threads);
  return {parent.data(), thread.data(),   name.data(),           kind.data(),
          scope.data(),  sequence.data(), forward_thread.data(), rows};
}

std::vector<int64_t> numbers_of(const Numbers<int64_t>& thread_number) {
  return {thread_number.data(), thread_number.data() + thread_number.size()};
}

nb::dict module_calls(const EventArrays& arrays, const Numbers<int64_t>& thread_number,
                      const Numbers<int32_t>& label, const Numbers<int32_t>& given_maker, int32_t store,
                      const Numbers<bool>& is_engine) {
  const attribution::Events events = events_of(arrays, thread_number.size());
  check_lengths(events.rows, label, given_maker);
  if (is_engine.size() == 0) throw nb::value_error("the table has no entry for events without a name");
  check_between(std::get<2>(arrays), -1, is_engine.size() - 1);
  check_between(given_maker, -1, events.rows);
  attribution::ModuleCalls found = without_gil([&] {
    std::vector<int32_t> maker(given_maker.data(), given_maker.data() + given_maker.size());
    attribution::find_makers(events, numbers_of(thread_number), maker);
    if (store >= 0) {
      attribution::add_stores(events, store, {is_engine.data(), is_engine.data() + is_engine.size()}, maker);
    }
    return attribution::module_calls(events, label.data(), maker);
  });
  nb::dict result;
  result["call"] = to_array(std::move(found.call));
  result["is_backward"] = to_array(std::move(found.is_backward));
  result["place"] = to_array(std::move(found.place));
  result["label"] = to_array(std::move(found.label));
  result["around"] = to_array(std::move(found.around));
  return result;
}

// Codes of forward, backward, optimizer and collection.
using PhaseCodes = std::tuple<int8_t, int8_t, int8_t, int8_t>;

nb::tuple phases(const EventArrays& arrays, size_t threads, const Numbers<int64_t>& start_ns,
                 const Numbers<int64_t>& took_ns, const Numbers<int8_t>& by_name, const PhaseCodes& codes) {
  const attribution::Events events = events_of(arrays, threads);
  check_lengths(events.rows, start_ns, took_ns);
  if (by_name.size() == 0) throw nb::value_error("the table has no entry for events without a name");
  check_between(std::get<2>(arrays), -1, by_name.size() - 1);
  attribution::Phases found = without_gil([&] {
    const auto& [forward, backward, optimizer, collection] = codes;
    return attribution::phases({events, start_ns.data(), took_ns.data(), by_name.data(), by_name.size() - 1},
                               threads, {forward, backward, optimizer, collection});
  });
  return array_tuple(found.phase, found.outermost, found.around);
}

nb::tuple listing(const Numbers<int32_t>& parent, const Numbers<uint8_t>& kind, const Numbers<bool>& is_async,
                  const Numbers<int32_t>& label, const Numbers<int32_t>& group_of_label,
                  const Numbers<bool>& is_hidden, bool hides_collections) {
  attribution::Events events{};
  events.parent = parent.data();
  events.kind = kind.data();
  events.rows = parent.size();
  check_lengths(events.rows, kind, is_async, label);
  check_lengths(group_of_label.size(), is_hidden);
  check_between(parent, -1, events.rows);
  check_between(label, 0, group_of_label.size());
  attribution::Listing found = without_gil([&] {
    return attribution::listing(
        events, {label.data(), group_of_label.data(), is_hidden.data(), hides_collections}, is_async.data());
  });
  return array_tuple(found.listed, found.nested, found.parent);
}

// Whether each event is listed, and whether listed events have a parent and children.
using ListedArrays = std::tuple<Numbers<bool>, Numbers<bool>>;

attribution::ListedColumns listed_of(const ListedArrays& arrays, size_t rows) {
  const auto& [listed, nested] = arrays;
  check_lengths(rows, listed, nested);
  return {listed.data(), nested.data()};
}

nb::object stack_sources(const EventArrays& arrays, const Numbers<int64_t>& thread_number,
                         const ListedArrays& given_listed, bool makers) {
  const attribution::Events events = events_of(arrays, thread_number.size());
  const attribution::ListedColumns listed = listed_of(given_listed, events.rows);
  const auto which = makers ? attribution::OfOneNumber::kMaker : attribution::OfOneNumber::kFirst;
  return to_array(without_gil(
      [&] { return attribution::stack_sources(events, numbers_of(thread_number), listed, which); }));
}

// caller, caller_line, frame, called_here, defined_here
using CallArrays =
    std::tuple<Numbers<int32_t>, Numbers<int32_t>, Numbers<int32_t>, Numbers<bool>, Numbers<bool>>;

attribution::CallColumns calls_of(const CallArrays& arrays, size_t rows) {
  const auto& [caller, caller_line, frame, called_here, defined_here] = arrays;
  check_lengths(rows, caller, caller_line, frame, called_here, defined_here);
  return {caller.data(), caller_line.data(), frame.data(), called_here.data(), defined_here.data()};
}

nb::object located_events(const EventArrays& arrays, const Numbers<int64_t>& thread_number,
                          const ListedArrays& given_listed, const CallArrays& given_calls) {
  const attribution::Events events = events_of(arrays, thread_number.size());
  const attribution::ListedColumns listed = listed_of(given_listed, events.rows);
  const attribution::CallColumns calls = calls_of(given_calls, events.rows);
  return to_array(without_gil(
      [&] { return attribution::located_events(events, numbers_of(thread_number), listed, calls); }));
}

nb::tuple lines(const EventArrays& arrays, const Numbers<int64_t>& thread_number,
                const ListedArrays& given_listed, const CallArrays& given_calls,
                const Numbers<int32_t>& first_line) {
  const attribution::Events events = events_of(arrays, thread_number.size());
  const attribution::ListedColumns listed = listed_of(given_listed, events.rows);
  check_between(std::get<2>(given_calls), -1, first_line.size());
  const attribution::CallColumns calls = calls_of(given_calls, events.rows);
  auto found = without_gil([&] {
    return attribution::lines(events, numbers_of(thread_number), listed, calls, first_line.data());
  });
  return array_tuple(found.first, found.second);
}

}  // namespace

void bind_attribution(nb::module_& module) {
  module.def("module_calls", &module_calls, "events"_a, "thread_number"_a, "label"_a, "maker"_a, "store"_a,
             "is_engine"_a);
  module.def("phases", &phases, "events"_a, "threads"_a, "start_ns"_a, "took_ns"_a, "by_name"_a, "codes"_a);
  module.def("listing", &listing, "parent"_a, "kind"_a, "is_async"_a, "label"_a, "group_of_label"_a,
             "is_hidden"_a, "hides_collections"_a);
  module.def("stack_sources", &stack_sources, "events"_a, "thread_number"_a, "listed"_a, "makers"_a);
  module.def("located_events", &located_events, "events"_a, "thread_number"_a, "listed"_a, "calls"_a);
  module.def("lines_of_events", &lines, "events"_a, "thread_number"_a, "listed"_a, "calls"_a, "first_line"_a);
}

}  // namespace opscope
