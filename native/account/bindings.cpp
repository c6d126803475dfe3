// Python bindings of accounts: causes of events, time of threads by step and cause, and its pieces.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "account/divide.h"
#include "account/event_causes.h"
#include "interpreter/without_gil.h"
#include "numpy/arrays.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

using Longs = Numbers<int64_t>;
using Bools = Numbers<bool>;

// Interval begins, end of the last, delayed, blocked and fault times; reasons of waits and whether they were
// sampled, in transfers and outside.
using IntervalColumns = std::tuple<Longs, int64_t, Longs, Longs, Longs, Longs, Bools, Longs, Bools>;

// Rows of the spans in order of start; cuts; intervals; whether the thread is a main thread.
using SpansOfThread = std::tuple<Numbers<int32_t>, Longs, std::optional<IntervalColumns>, bool>;

nb::object causes_of_events(const Numbers<uint8_t>& kind, const Numbers<uint8_t>& scope,
                            const Numbers<int32_t>& name, const Numbers<int32_t>& label,
                            const Numbers<int32_t>& around, const Numbers<int8_t>& by_label,
                            const Bools& is_engine) {
  const size_t rows = kind.size();
  check_lengths(rows, scope, name, label, around);
  if (is_engine.size() == 0) throw nb::value_error("the table has no entry for events without a name");
  const auto names = is_engine.size() - 1;
  check_between(name, -1, names);
  check_between(label, 0, by_label.size());
  check_between(around, -1, rows);
  return to_array(without_gil([&] {
    return account::causes_of_events({kind.data(), scope.data(), name.data(), label.data(), around.data(),
                                      by_label.data(), is_engine.data(), names, rows});
  }));
}

account::Intervals intervals_of(const IntervalColumns& columns) {
  const auto& [start, end_ns, delayed, blocked, faults, during, seen, beside, seen_beside] = columns;
  const size_t count = start.size();
  check_lengths(count, delayed, blocked, faults, during, seen, beside, seen_beside);
  return {start.data(),  end_ns,      delayed.data(), blocked.data(),     faults.data(),
          during.data(), seen.data(), beside.data(),  seen_beside.data(), count};
}

// Input of an account. Keeps its source columns alive.
class TimeOfThreads {
 public:
  TimeOfThreads(const Longs& start_ns, const Longs& took_ns, const Numbers<int32_t>& parent,
                Numbers<int8_t> causes, const std::vector<SpansOfThread>& threads,
                std::tuple<Longs, Longs> steps, Longs transfers, Longs passes, int64_t from_ns, int64_t to_ns,
                int64_t cost_ns)
      : causes_(std::move(causes)),
        steps_(std::move(steps)),
        transfers_(std::move(transfers)),
        passes_(std::move(passes)) {
    check_lengths(start_ns.size(), took_ns, parent, causes_);
    const auto& [start, end] = steps_;
    check_lengths(start.size(), end);
    task_.causes = causes_.data();
    task_.steps = {start.data(), end.data(), start.size()};
    task_.step_count = start.size();
    task_.transfers = {transfers_.data(), transfers_.size() / 2};
    task_.passes = {passes_.data(), passes_.size() / 2};
    task_.cost_ns = cost_ns;
    for (const SpansOfThread& thread : threads) task_.threads.push_back(thread_of(thread, start_ns.size()));
    const WithoutGil without_gil;
    account::OperatorLengths lengths;
    const auto add = [&](int64_t event, int64_t length_ns) {
      if (event < 0) return;
      if (static_cast<Cause>(task_.causes[event]) == Cause::kOperator) lengths.add(length_ns);
    };
    for (size_t i = 0; i < threads.size(); ++i) {
      const auto& [rows, cuts, intervals, is_main] = threads[i];
      const nesting::LineSpans spans{start_ns.data(), took_ns.data(), rows.size(), rows.data(),
                                     parent.data()};
      task_.threads[i].segments = account::segments_of(spans, cuts.data(), cuts.size(), from_ns, to_ns, add);
    }
    task_.dispatch_ns = lengths.dispatch_ns();
  }

  // Per thread: sums of time and error, and the busy time.
  nb::list sums() const {
    nb::list result;
    for (const account::Thread& thread : task_.threads) {
      account::Sums found = without_gil([&] { return account::sums_of(task_, thread); });
      result.append(nb::make_tuple(to_array(std::move(found.time_ns)), to_array(std::move(found.error_ns)),
                                   found.busy_ns));
    }
    return result;
  }

  // Time of one thread in steps by cause and by the group of the innermost span; the last group has no span.
  nb::object sums_of_groups(size_t thread, const Numbers<int32_t>& group, size_t groups) const {
    if (thread >= task_.threads.size()) throw nb::index_error("the thread does not exist");
    check_lengths(causes_.size(), group);
    check_between(group, 0, groups);
    return to_array(without_gil(
        [&] { return account::sums_of_groups(task_, task_.threads[thread], group.data(), groups); }));
  }

  // Columns of all pieces of every thread: start, length, event, cause, and whether the piece is a gap.
  nb::list cut() const {
    nb::list result;
    for (const account::Thread& thread : task_.threads) {
      account::CutColumns found = without_gil([&] { return account::cut(task_, thread); });
      result.append(array_tuple(found.start_ns, found.length_ns, found.event, found.cause, found.is_gap));
    }
    return result;
  }

  // Columns of the pieces of a thread, one share after another.
  nb::list pieces(size_t thread, const std::vector<int>& wanted) const {
    if (thread >= task_.threads.size()) throw nb::index_error("the thread does not exist");
    account::Causes causes{};
    for (const int one : wanted) {
      if (one < 0 || static_cast<size_t>(one) >= account::kCauses) throw nb::value_error("no cause");
      causes.add(static_cast<Cause>(one));
    }
    account::PiecesByShare found =
        without_gil([&] { return account::pieces_of(task_, task_.threads[thread], causes); });
    nb::list result;
    for (account::PieceColumns& one : found) {
      result.append(array_tuple(one.step, one.event, one.cause, one.time_ns, one.start_ns, one.end_ns));
    }
    return result;
  }

 private:
  account::Thread thread_of(const SpansOfThread& columns, size_t count) {
    const auto& [rows, cuts, intervals, is_main] = columns;
    check_between(rows, 0, count);
    account::Thread thread{{}, {}, is_main};
    if (intervals) {
      intervals_.push_back(*intervals);
      thread.intervals = intervals_of(*intervals);
    }
    return thread;
  }

  Numbers<int8_t> causes_;
  std::tuple<Longs, Longs> steps_;
  Longs transfers_, passes_;
  std::vector<IntervalColumns> intervals_;  // of the threads with intervals
  account::Task task_{};
};

}  // namespace

void bind_account(nb::module_& module) {
  module.def("causes_of_events", &causes_of_events, "kind"_a, "scope"_a, "name"_a, "label"_a, "around"_a,
             "by_label"_a, "is_engine"_a);
  nb::class_<TimeOfThreads>(module, "TimeOfThreads")
      .def(nb::init<const Longs&, const Longs&, const Numbers<int32_t>&, Numbers<int8_t>,
                    const std::vector<SpansOfThread>&, std::tuple<Longs, Longs>, Longs, Longs, int64_t,
                    int64_t, int64_t>(),
           "start_ns"_a, "took_ns"_a, "parent"_a, "causes"_a, "threads"_a, "steps"_a, "transfers"_a,
           "passes"_a, "from_ns"_a, "to_ns"_a, "cost_ns"_a)
      .def("sums", &TimeOfThreads::sums, nb::lock_self())
      .def("sums_of_groups", &TimeOfThreads::sums_of_groups, "thread"_a, "group"_a, "groups"_a,
           nb::lock_self())
      .def("cut", &TimeOfThreads::cut, nb::lock_self())
      .def("pieces", &TimeOfThreads::pieces, "thread"_a, "wanted"_a, nb::lock_self());
}

}  // namespace opscope
