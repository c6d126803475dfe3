// What Python sees of attribution.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "attribution/lines.h"
#include "attribution/modules.h"
#include "attribution/operator_sums.h"
#include "attribution/phases.h"
#include "attribution/program_places.h"
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

// Of every event a key of the text that it is shown under, and the keys that there are, ascending. Keys of
// names are one more than the name, those of modules come after all of these, then the one of nothing at all,
// and one more than that those of frames, which events have that have no name.
nb::tuple text_keys(const Numbers<int32_t>& name, const Numbers<uint8_t>& kind,
                    const std::optional<Numbers<int64_t>>& frame, size_t names, size_t frames) {
  check_lengths(name.size(), kind);
  check_between(name, -1, names);
  if (frame) {
    check_lengths(name.size(), *frame);
    check_between(*frame, -1, frames);
  }
  if (2 * (names + 1) + frames >= INT32_MAX) throw nb::value_error("there are too many texts");
  const auto first_module = static_cast<int32_t>(names) + 1;
  const int32_t nothing = 2 * first_module;
  columns::Unfilled<int32_t> keys(name.size());
  std::vector<int32_t> used;
  {
    const WithoutGil without_gil;
    std::vector<uint8_t> is_used(static_cast<size_t>(nothing) + frames + 1);
    for (size_t row = 0; row < keys.size(); ++row) {
      int32_t key = nothing;
      if (const int32_t one = name.data()[row]; one >= 0) {
        const bool is_module = static_cast<EventKind>(kind.data()[row]) == EventKind::kModuleCall;
        key = one + 1 + (is_module ? first_module : 0);
      } else if (frame) {
        key += static_cast<int32_t>(frame->data()[row]) + 1;
      }
      keys[row] = key;
      is_used[static_cast<size_t>(key)] = 1;
    }
    for (size_t key = 0; key < is_used.size(); ++key) {
      if (is_used[key] != 0) used.push_back(static_cast<int32_t>(key));
    }
  }
  return array_tuple(keys, used);
}

nb::dict module_calls(const EventArrays& arrays, const Numbers<int64_t>& thread_number,
                      const Numbers<int32_t>& label, const Numbers<int32_t>& given_maker, int32_t store,
                      const Numbers<bool>& is_engine) {
  const attribution::Events events = events_of(arrays, thread_number.size());
  check_lengths(events.rows, label, given_maker);
  if (is_engine.size() == 0) throw nb::value_error("there is no place for events without a name");
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

// Forward, backward, optimizer and collection.
using PhaseCodes = std::tuple<int8_t, int8_t, int8_t, int8_t>;

nb::tuple phases(const EventArrays& arrays, size_t threads, const Numbers<int64_t>& start_ns,
                 const Numbers<int64_t>& took_ns, const Numbers<int8_t>& by_name,
                 const std::optional<Numbers<int64_t>>& by_start, const PhaseCodes& codes) {
  const attribution::Events events = events_of(arrays, threads);
  check_lengths(events.rows, start_ns, took_ns);
  if (by_name.size() == 0) throw nb::value_error("there is no place for events without a name");
  check_between(std::get<2>(arrays), -1, by_name.size() - 1);
  if (by_start) {
    check_lengths(events.rows, *by_start);
    check_between(*by_start, 0, events.rows);
  }
  attribution::Phases found = without_gil([&] {
    const auto& [forward, backward, optimizer, collection] = codes;
    return attribution::phases({events, start_ns.data(), took_ns.data(),
                                by_start ? by_start->data() : nullptr, by_name.data(), by_name.size() - 1},
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

// Of every event whether it is listed, and of these whether it has a parent and children.
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

// event, caller, caller_line; frame, of calls of functions
using CallTableArrays = std::tuple<Numbers<int32_t>, Numbers<int32_t>, Numbers<int32_t>>;
using FunctionTableArrays =
    std::tuple<Numbers<int32_t>, Numbers<int32_t>, Numbers<int32_t>, Numbers<int32_t>>;

attribution::CallTable call_table(const Numbers<int32_t>& event, const Numbers<int32_t>& caller,
                                  const Numbers<int32_t>& caller_line, const Numbers<int32_t>* frame,
                                  size_t events, size_t frames) {
  check_lengths(event.size(), caller, caller_line);
  check_between(event, 0, events);
  check_between(caller, -1, frames);
  if (frame != nullptr) {
    check_lengths(event.size(), *frame);
    check_between(*frame, -1, frames);
  }
  return {event.data(), caller.data(), caller_line.data(), frame != nullptr ? frame->data() : nullptr,
          event.size()};
}

// What is known of events as calls, by the tables of operators and of functions.
nb::tuple calls_of_events(size_t events, const Numbers<bool>& is_own, const CallTableArrays& operators,
                          const FunctionTableArrays& functions) {
  if (is_own.size() == 0) throw nb::value_error("there is no place for events without a frame");
  const size_t frames = is_own.size() - 1;
  const auto& [event, caller, caller_line] = operators;
  const auto& [call, by, by_line, frame] = functions;
  const std::vector<attribution::CallTable> tables{
      call_table(event, caller, caller_line, nullptr, events, frames),
      call_table(call, by, by_line, &frame, events, frames)};
  attribution::Calls found =
      without_gil([&] { return attribution::calls_of_events(events, is_own.data(), frames, tables); });
  return array_tuple(found.caller, found.caller_line, found.frame, found.called_here, found.defined_here);
}

// caller, caller_line, frame, called_here, defined_here
using CallArrays =
    std::tuple<Numbers<int32_t>, Numbers<int32_t>, Numbers<int32_t>, Numbers<bool>, Numbers<bool>>;

attribution::CallColumns calls_of(const CallArrays& arrays, size_t rows) {
  const auto& [caller, caller_line, frame, called_here, defined_here] = arrays;
  check_lengths(rows, caller, caller_line, frame, called_here, defined_here);
  return {caller.data(), caller_line.data(), frame.data(), called_here.data(), defined_here.data()};
}

nb::object saying_where(const EventArrays& arrays, const Numbers<int64_t>& thread_number,
                        const ListedArrays& given_listed, const CallArrays& given_calls) {
  const attribution::Events events = events_of(arrays, thread_number.size());
  const attribution::ListedColumns listed = listed_of(given_listed, events.rows);
  const attribution::CallColumns calls = calls_of(given_calls, events.rows);
  return to_array(without_gil(
      [&] { return attribution::saying_where(events, numbers_of(thread_number), listed, calls); }));
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

// Lines with the events at them: frame, line, how many there are, and their own time.
nb::tuple line_sums(const Numbers<int32_t>& frame, const Numbers<int32_t>& line,
                    const Numbers<int64_t>& own_ns) {
  check_lengths(frame.size(), line, own_ns);
  attribution::LineSums found = without_gil(
      [&] { return attribution::line_sums(frame.data(), line.data(), own_ns.data(), frame.size()); });
  return array_tuple(found.frame, found.line, found.count, found.own_ns);
}

// event, action, size_bytes
using AllocationArrays = std::tuple<Numbers<int32_t>, Numbers<uint8_t>, Numbers<int64_t>>;

// start_ns, end_ns
using StepArrays = std::tuple<Numbers<int64_t>, Numbers<int64_t>>;

// Without steps, also without what was allocated.
nb::dict operator_sums(const EventArrays& arrays, size_t threads, const Numbers<int8_t>& phase,
                       const Numbers<int32_t>& path, const Numbers<int64_t>& start_ns,
                       const Numbers<int64_t>& took_ns, const Numbers<int64_t>& until_ns,
                       const Numbers<int64_t>& own_ns, const std::optional<Numbers<int64_t>>& by_start,
                       const std::optional<StepArrays>& given_steps,
                       const std::optional<AllocationArrays>& allocated) {
  const attribution::Events events = events_of(arrays, threads);
  check_lengths(events.rows, phase, path, start_ns, took_ns, until_ns, own_ns);
  attribution::StepColumns steps{};
  if (given_steps) {
    const auto& [step_start_ns, step_end_ns] = *given_steps;
    check_lengths(step_start_ns.size(), step_end_ns);
    steps = {step_start_ns.data(), step_end_ns.data(), step_start_ns.size()};
  }
  if (by_start) {
    check_lengths(events.rows, *by_start);
    check_between(*by_start, 0, events.rows);
  }
  check_between(std::get<2>(arrays), -1, size_t{INT32_MAX});
  check_between(phase, -1, 15);
  check_between(path, -1, attribution::OperatorKey::kMostPaths);
  attribution::AllocationColumns allocations{};
  if (allocated) {
    const auto& [event, action, size] = *allocated;
    check_lengths(event.size(), action, size);
    check_between(event, -1, events.rows);
    allocations = {event.data(), action.data(), size.data(), event.size()};
  }
  attribution::OperatorSums found = without_gil([&] {
    return attribution::operator_sums(
        {events.kind, events.name, phase.data(), path.data(), events.thread, start_ns.data(), took_ns.data(),
         until_ns.data(), own_ns.data(), by_start ? by_start->data() : nullptr, events.rows},
        steps, allocated ? &allocations : nullptr);
  });
  nb::dict result;
  result["name"] = to_array(std::move(found.name));
  result["phase"] = to_array(std::move(found.phase));
  result["path"] = to_array(std::move(found.path));
  result["count"] = to_array(std::move(found.count));
  result["total_ns"] = to_array(std::move(found.total_ns));
  result["self_ns"] = to_array(std::move(found.self_ns));
  if (!given_steps) return result;
  result["steps"] = to_array(std::move(found.steps));
  result["step_min_ns"] = to_array(std::move(found.step_min_ns));
  result["step_median_ns"] = to_array(std::move(found.step_median_ns));
  result["step_max_ns"] = to_array(std::move(found.step_max_ns));
  result["allocated_bytes"] = to_array(std::move(found.allocated_bytes));
  return result;
}

nb::tuple place_groups(const EventArrays& arrays, const CallArrays& calls, size_t threads,
                       const Numbers<int8_t>& phase, const Numbers<int32_t>& path,
                       const Numbers<int32_t>& frame, const Numbers<int32_t>& line,
                       const Numbers<int32_t>& first_line, int8_t forward) {
  const attribution::Events events = events_of(arrays, threads);
  check_lengths(events.rows, phase, path, frame, line);
  const attribution::CallColumns columns_of_calls = calls_of(calls, events.rows);
  check_between(std::get<2>(calls), -1, first_line.size());
  attribution::Places found = without_gil([&] {
    return attribution::places(events, columns_of_calls,
                               {phase.data(), path.data(), frame.data(), line.data(), first_line.data()},
                               forward);
  });
  std::vector<int64_t> columns[5];
  for (const attribution::Place& one : found.places) {
    const int64_t values[] = {one.phase, one.frame, one.line, one.path, one.name};
    for (size_t i = 0; i < 5; ++i) columns[i].push_back(values[i]);
  }
  return array_tuple(found.place, columns[0], columns[1], columns[2], columns[3], columns[4]);
}

nb::tuple widest_gaps(const Numbers<int32_t>& parent, const Numbers<bool>& is_call,
                      const Numbers<int32_t>& group, size_t groups, const Numbers<int32_t>& line,
                      const Numbers<int64_t>& start_ns, const Numbers<int64_t>& took_ns) {
  check_lengths(parent.size(), is_call, group, line, start_ns, took_ns);
  check_between(parent, -1, parent.size());
  check_between(group, 0, groups);
  attribution::WidestGaps found = without_gil([&] {
    return attribution::widest_gaps(
        parent.data(), parent.size(),
        {is_call.data(), group.data(), line.data(), start_ns.data(), took_ns.data(), groups});
  });
  return array_tuple(found.group, found.before, found.after, found.time_ns);
}

}  // namespace

void bind_attribution(nb::module_& module) {
  module.def("text_keys", &text_keys, "name"_a, "kind"_a, "frame"_a.none(), "names"_a, "frames"_a);
  module.def("module_calls", &module_calls, "events"_a, "thread_number"_a, "label"_a, "maker"_a, "store"_a,
             "is_engine"_a);
  module.def("phases", &phases, "events"_a, "threads"_a, "start_ns"_a, "took_ns"_a, "by_name"_a,
             "by_start"_a.none(), "codes"_a);
  module.def("listing", &listing, "parent"_a, "kind"_a, "is_async"_a, "label"_a, "group_of_label"_a,
             "is_hidden"_a, "hides_collections"_a);
  module.def("stack_sources", &stack_sources, "events"_a, "thread_number"_a, "listed"_a, "makers"_a);
  module.def("saying_where", &saying_where, "events"_a, "thread_number"_a, "listed"_a, "calls"_a);
  module.def("calls_of_events", &calls_of_events, "events"_a, "is_own"_a, "operators"_a, "functions"_a);
  module.def("line_sums", &line_sums, "frame"_a, "line"_a, "own_ns"_a);
  module.def("operator_sums", &operator_sums, "events"_a, "threads"_a, "phase"_a, "path"_a, "start_ns"_a,
             "took_ns"_a, "until_ns"_a, "own_ns"_a, "by_start"_a.none(), "steps"_a.none(),
             "allocated"_a.none());
  module.def("place_groups", &place_groups, "events"_a, "calls"_a, "threads"_a, "phase"_a, "path"_a,
             "frame"_a, "line"_a, "first_line"_a, "forward"_a);
  module.def("widest_gaps", &widest_gaps, "parent"_a, "is_call"_a, "group"_a, "groups"_a, "line"_a,
             "start_ns"_a, "took_ns"_a);
  module.def("lines_of_events", &lines, "events"_a, "thread_number"_a, "listed"_a, "calls"_a, "first_line"_a);
}

}  // namespace opscope
