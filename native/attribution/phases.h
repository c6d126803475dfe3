// Phase of each event in a training step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attribution/modules.h"
#include "columns/unfilled.h"
#include "nesting/nesting.h"
#include "schema/codes.h"

namespace opscope::attribution {

// Codes of phases; -1 is none.
struct PhaseCodes {
  int8_t forward, backward, optimizer, collection;
};

struct PhaseColumns {
  Events events;
  const int64_t* start_ns;  // in order
  const int64_t* took_ns;
  const int8_t* by_name;  // phase of every name; the last one is for no name
  size_t names;
};

// Phase of an event by itself, -1 for none.
inline int8_t own_phase(const PhaseColumns& columns, size_t row, const PhaseCodes& codes) {
  const Events& events = columns.events;
  if (events.kind_of(row) == EventKind::kGcPause) return codes.collection;
  if (events.kind_of(row) == EventKind::kOptimizerCall) return codes.optimizer;
  if (events.scope_of(row) == RecordScope::kBackwardFunction) return codes.backward;
  const int32_t name = events.name[row];
  return columns.by_name[name < 0 ? columns.names : static_cast<size_t>(name)];
}

struct Phases {
  columns::Unfilled<int8_t> phase;
  FlagColumn outermost;
  columns::Unfilled<int8_t> around;
};

// Marked spans of one thread that lie in no other marked span, in order of start.
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

  // The span that is open at a moment, other than `row`; -1 for none. Fast for increasing moments.
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
  size_t after_ = 0;  // first span that begins after the last requested moment
};

// Phase of every event: that of the marked span around it, by nesting or else by time; operators outside of
// marked spans are forward work. `threads`: number of threads.
inline Phases phases(const PhaseColumns& columns, size_t threads, const PhaseCodes& codes) {
  const Events& events = columns.events;
  std::vector<int8_t> own(events.rows);
  std::vector<MarkedSpans> marked(threads);
  for (size_t row = 0; row < events.rows; ++row) {
    own[row] = own_phase(columns, row, codes);
    if (own[row] < 0 || own[row] == codes.collection) continue;
    marked[static_cast<size_t>(events.thread[row])].add(row, columns.start_ns[row],
                                                        columns.start_ns[row] + columns.took_ns[row]);
  }
  struct Inside {
    int8_t mark = -1;      // of the closest marked span
    int8_t phase = -1;     // result
    bool is_free = false;  // there is an operator above it that is in no marked span
  };
  columns::OfRowOrNone<Inside> inside(events.rows, Inside{});
  Phases found{columns::Unfilled<int8_t>(events.rows), FlagColumn(events.rows),
               columns::Unfilled<int8_t>(events.rows)};
  nesting::each_after_parent(events.parent, events.rows, [&](size_t row, int32_t parent) {
    const Inside around = inside.of(parent);
    int8_t inherited = around.mark;
    if (inherited < 0) {
      const int64_t span =
          marked[static_cast<size_t>(events.thread[row])].open_at(columns.start_ns[row], row);
      if (span >= 0) inherited = own[static_cast<size_t>(span)];
    }
    const int8_t phase = own[row] >= 0 ? own[row] : inherited;
    const bool is_free = events.kind_of(row) == EventKind::kOperator && phase < 0;
    const bool enters = own[row] >= 0 && inherited != own[row];
    found.outermost[row] = enters || (is_free && !around.is_free);
    found.phase[row] = is_free ? codes.forward : phase;
    found.around[row] = around.phase >= 0 ? around.phase : inherited;
    inside[row] = {own[row] >= 0 ? own[row] : around.mark, found.phase[row], around.is_free || is_free};
  });
  return found;
}

}  // namespace opscope::attribution
