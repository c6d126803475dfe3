// Which part of a training step each event belongs to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attribution/modules.h"
#include "nesting/nesting.h"
#include "schema/codes.h"

namespace opscope::attribution {

// What phases are called here; -1 is none.
struct PhaseCodes {
  int8_t forward, backward, optimizer, collection;
};

struct PhaseColumns {
  const int32_t* parent;
  const int32_t* thread;
  const uint8_t* kind;
  const int64_t* start_ns;
  const int64_t* took_ns;
  const int8_t* own;  // the phase that events say of themselves, -1 for none
  size_t rows;
};

// The phase that events say of themselves. `by_name` has what every name says, and last what none does.
inline std::vector<int8_t> own_phases(const Events& events, const int8_t* by_name, size_t names,
                                      const PhaseCodes& codes) {
  std::vector<int8_t> own(events.rows);
  for (size_t row = 0; row < events.rows; ++row) {
    const int32_t name = events.name[row];
    int8_t phase = by_name[name < 0 ? names : static_cast<size_t>(name)];
    if (events.scope_of(row) == RecordScope::kBackwardFunction) phase = codes.backward;
    if (events.kind_of(row) == EventKind::kOptimizerCall) phase = codes.optimizer;
    if (events.kind_of(row) == EventKind::kGcPause) phase = codes.collection;
    own[row] = phase;
  }
  return own;
}

struct Phases {
  std::vector<int8_t> phase;
  std::vector<uint8_t> outermost;
  std::vector<int8_t> around;
};

// The marked spans of one thread that are in no other of them by time, in order of start.
class MarkedSpans {
 public:
  void add(size_t row, int64_t start_ns, int64_t end_ns) {
    if (start_ns >= reached_) {
      rows_.push_back(row);
      starts_.push_back(start_ns);
      ends_.push_back(end_ns);
    }
    reached_ = std::max(reached_, end_ns);
  }

  // The one that is open at a moment and is not `row` itself; -1 for none. Quick for one moment after
  // another.
  int64_t open_at(int64_t moment, size_t row) {
    if (after_ > 0 && starts_[after_ - 1] > moment) {
      const auto found = std::upper_bound(starts_.begin(), starts_.end(), moment);
      after_ = static_cast<size_t>(found - starts_.begin());
    }
    while (after_ < starts_.size() && starts_[after_] <= moment) ++after_;
    if (after_ == 0) return -1;
    const size_t latest = after_ - 1;
    return moment < ends_[latest] && rows_[latest] != row ? static_cast<int64_t>(rows_[latest]) : -1;
  }

 private:
  std::vector<size_t> rows_;
  std::vector<int64_t> starts_, ends_;
  int64_t reached_ = INT64_MIN;
  size_t after_ = 0;  // the first that begins later than the moment asked for last
};

// `by_start` are the rows in order of start, `threads` how many there are.
inline std::vector<int8_t> phases_by_time(const PhaseColumns& events, const int64_t* by_start, size_t threads,
                                          int8_t collection) {
  std::vector<MarkedSpans> marked(threads);
  for (size_t i = 0; i < events.rows; ++i) {
    const auto row = by_start == nullptr ? i : static_cast<size_t>(by_start[i]);
    if (events.own[row] < 0 || events.own[row] == collection) continue;
    marked[static_cast<size_t>(events.thread[row])].add(row, events.start_ns[row],
                                                        events.start_ns[row] + events.took_ns[row]);
  }
  std::vector<int8_t> found(events.rows, -1);
  for (size_t row = 0; row < events.rows; ++row) {
    const int64_t span = marked[static_cast<size_t>(events.thread[row])].open_at(events.start_ns[row], row);
    if (span >= 0) found[row] = events.own[span];
  }
  return found;
}

// `inherited` is by time; what runs inside a marked span is in its phase, and an operator inside none is
// `forward` work.
inline Phases phases(const PhaseColumns& events, std::vector<int8_t> inherited, int8_t forward) {
  struct Around {
    int8_t mark = -1;      // of the closest marked span
    bool is_free = false;  // an operator that is inside none is further up
  };
  Phases found{std::vector<int8_t>(events.rows), std::vector<uint8_t>(events.rows),
               std::vector<int8_t>(events.rows)};
  const auto is_operator = [&](size_t row) {
    return static_cast<EventKind>(events.kind[row]) == EventKind::kOperator;
  };
  std::vector<Around> around(events.rows);
  const auto settled = [&](size_t row) {
    if (events.own[row] >= 0) return events.own[row];
    return around[row].mark >= 0 ? around[row].mark : inherited[row];
  };
  nesting::settle<int32_t, Around>(
      events.parent, events.rows, around.data(), {}, [](size_t) { return true; },
      [&](size_t parent) {
        const bool is_free = is_operator(parent) && settled(parent) < 0;
        const int8_t mark = events.own[parent] >= 0 ? events.own[parent] : around[parent].mark;
        return Around{mark, around[parent].is_free || is_free};
      });
  for (size_t row = 0; row < events.rows; ++row) {
    const int8_t phase = settled(row);
    if (around[row].mark >= 0) inherited[row] = around[row].mark;
    const bool is_free = is_operator(row) && phase < 0;
    const bool enters = events.own[row] >= 0 && inherited[row] != events.own[row];
    found.outermost[row] = enters || (is_free && !around[row].is_free);
    found.phase[row] = is_free ? forward : phase;
  }
  for (size_t row = 0; row < events.rows; ++row) {
    const int32_t parent = events.parent[row];
    const int8_t of_parent = parent >= 0 ? found.phase[static_cast<size_t>(parent)] : int8_t{-1};
    found.around[row] = of_parent >= 0 ? of_parent : inherited[row];
  }
  return found;
}

}  // namespace opscope::attribution
