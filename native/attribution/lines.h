// Source lines of events: the event that has the line, and the line there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attribution/modules.h"
#include "columns/unfilled.h"
#include "nesting/nesting.h"

namespace opscope::attribution {

// Events that torch lists. Initial candidates are `shown`; an event whose parent has the same name and no
// other child is folded into its parent.
struct Listing {
  FlagColumn listed;
  FlagColumn nested;                  // listed, with a parent and children
  columns::Unfilled<int32_t> parent;  // closest nested ancestor, -1 for none
};

// Facts of labels: equal names for comparison, and hidden names.
struct Labels {
  const int32_t* label;  // of every event
  const int32_t* group;  // of every label; equal groups are equal names
  const bool* is_hidden;
  bool hides_collections;
};

inline Listing listing(const Events& events, const Labels& labels, const bool* is_async) {
  Listing found{FlagColumn(events.rows), FlagColumn(events.rows), columns::Unfilled<int32_t>(events.rows)};
  std::vector<int32_t> children(events.rows);
  nesting::each_after_parent(events.parent, events.rows, [&](size_t row, int32_t parent) {
    const bool is_pause = labels.hides_collections && events.kind_of(row) == EventKind::kGcPause;
    found.listed[row] = !is_pause && !labels.is_hidden[labels.label[row]];
    found.nested[row] = found.listed[row] && !is_async[row];
    const auto outer = static_cast<size_t>(parent);
    found.parent[row] = parent < 0 || found.nested[outer] ? parent : found.parent[outer];
    if (found.nested[row] && found.parent[row] >= 0) ++children[static_cast<size_t>(found.parent[row])];
  });
  bool any = false;
  std::vector<uint8_t> folded(events.rows);
  for (size_t row = 0; row < events.rows; ++row) {
    const int32_t parent = found.parent[row];
    if (!found.nested[row] || parent < 0) continue;
    folded[row] = children[static_cast<size_t>(parent)] == 1 &&
                  labels.group[labels.label[row]] == labels.group[labels.label[parent]];
    any = any || folded[row];
  }
  if (!any) return found;
  for (size_t row = 0; row < events.rows; ++row) {
    if (folded[row]) found.listed[row] = found.nested[row] = 0;
  }
  // Chain of parents without folded events.
  nesting::nearest_ancestor(events.parent, found.nested.data(), events.rows, found.parent.data());
  return found;
}

// Columns of events as calls; -1 for events that are no calls.
struct CallColumns {
  const int32_t* caller;
  const int32_t* caller_line;
  const int32_t* frame;
  const bool* called_here;   // called by a function of the program
  const bool* defined_here;  // call of a function of the program

  bool has_location(size_t row) const { return called_here[row] || defined_here[row]; }
};

// Whether each event is listed, and whether it has a parent and children.
struct ListedColumns {
  const bool* listed;
  const bool* nested;
};

// Which of the operators with equal sequence numbers a backward span belongs to.
//
// Each operator has the number of the next autograd node. Operators without gradient make no node, so the
// last one made it; torch takes the first.
enum class OfOneNumber { kFirst, kMaker };

// Forward operator of each span of a backward pass.
class StackSources {
 public:
  // Calls visit(row, parent) for every event on the way, parents first.
  template <class Visit>
  StackSources(const Events& events, const std::vector<int64_t>& thread_number, const ListedColumns& listed,
               OfOneNumber which, Visit visit)
      : events_(events), which_(which), backward_(events.rows, -1) {
    nesting::each_after_parent(events.parent, events.rows, [&](size_t row, int32_t parent) {
      const bool is_backward = events.scope_of(row) == RecordScope::kBackwardFunction && listed.nested[row];
      const int32_t span = is_backward ? static_cast<int32_t>(row) : backward_.of(parent);
      backward_[row] = span;
      if (listed.listed[row] && events.sequence[row] >= 0 && span < 0) {
        keep(thread_number[static_cast<size_t>(events.thread[row])], row);
      }
      visit(row, parent);
    });
  }

  // Closest backward span around an event, or itself; -1 for none.
  int32_t span_of(size_t row) { return backward_[row]; }

  // The event itself, or the forward operator of a backward event; -1 if it was not recorded.
  int32_t of(size_t row) {
    const auto span = static_cast<size_t>(backward_[row]);
    if (backward_[row] < 0) return static_cast<int32_t>(row);
    const int32_t kept = kept_.at(events_.forward_thread[span], events_.sequence[span]);
    return which_ == OfOneNumber::kFirst ? kept : outermost(kept);
  }

 private:
  bool is_forward(size_t row) const {
    return events_.kind_of(row) == EventKind::kOperator && events_.forward_thread[row] <= 0;
  }

  int32_t outermost(int32_t row) const {
    const auto calls_with_its_number = [&](int32_t above) {
      return above >= 0 && is_forward(static_cast<size_t>(above)) &&
             events_.sequence[above] == events_.sequence[row];
    };
    while (row >= 0 && calls_with_its_number(events_.parent[row])) row = events_.parent[row];
    return row;
  }

  void keep(int64_t thread, size_t row) {
    const auto number = static_cast<int32_t>(row);
    if (which_ == OfOneNumber::kFirst) {
      int32_t& kept = kept_.at(thread, events_.sequence[row]);
      if (kept < 0 || kept > number) kept = number;
    } else if (is_forward(row)) {
      int32_t& kept = kept_.at(thread, events_.sequence[row]);
      kept = std::max(kept, number);
    }
  }

  const Events& events_;
  OfOneNumber which_;
  columns::OfRowOrNone<int32_t> backward_;  // closest backward span, including itself, -1 for none
  RowsByNumber kept_;                       // listed rows by thread and sequence number
};

inline columns::Unfilled<int32_t> stack_sources(const Events& events,
                                                const std::vector<int64_t>& thread_number,
                                                const ListedColumns& listed, OfOneNumber which) {
  StackSources sources(events, thread_number, listed, which, [](size_t, int32_t) {});
  columns::Unfilled<int32_t> found(events.rows);
  for (size_t row = 0; row < events.rows; ++row) found[row] = sources.of(row);
  return found;
}

// Lines of the program for events.
class LocatedEvents {
 public:
  LocatedEvents(const Events& events, const std::vector<int64_t>& thread_number, const ListedColumns& listed,
                const CallColumns& calls)
      : events_(events),
        nearest_(events.rows, -1),
        function_(events.rows, -1),
        sources_(events, thread_number, listed, OfOneNumber::kMaker, [&](size_t row, int32_t parent) {
          nearest_[row] = calls.has_location(row) ? static_cast<int32_t>(row) : nearest_.of(parent);
          function_[row] = calls.frame[row] >= 0 ? static_cast<int32_t>(row) : function_.of(parent);
        }) {}

  // The innermost event around one, or itself, with a line of the program; for a backward operator the line
  // of its forward operator, else that of the begin of the backward pass. -1 for none. Calls by a function of
  // the program are in that function, also if a backward pass calls the function.
  int32_t around(size_t row) {
    const int32_t span = sources_.span_of(row);
    if (function_[row] > span && nearest_[row] > span) return nearest_[row];
    const int32_t forward = nearest_.of(sources_.of(row));
    return forward >= 0 ? forward : nearest_[row];
  }

  // The innermost Python function around an event, -1 for none.
  int32_t function_around(size_t row) const { return function_.of(events_.parent[row]); }

 private:
  const Events& events_;
  columns::OfRowOrNone<int32_t> nearest_;
  columns::OfRowOrNone<int32_t> function_;
  StackSources sources_;
};

inline columns::Unfilled<int32_t> located_events(const Events& events,
                                                 const std::vector<int64_t>& thread_number,
                                                 const ListedColumns& listed, const CallColumns& calls) {
  LocatedEvents where(events, thread_number, listed, calls);
  columns::Unfilled<int32_t> found(events.rows);
  for (size_t row = 0; row < events.rows; ++row) found[row] = where.around(row);
  return found;
}

// For what a function of the program does itself, the first call of that inside; else -1.
//
// A step of an optimizer has no line of its own, but where the functions of libraries were not recorded the
// operators in it have the line that called it.
inline std::vector<int32_t> first_calls(const Events& events, const CallColumns& calls,
                                        const LocatedEvents& where) {
  std::vector<int32_t> first(events.rows, -1);
  for (size_t row = 0; row < events.rows; ++row) {
    if (!calls.called_here[row]) continue;
    const int32_t function = where.function_around(row);
    const int32_t own = function >= 0 ? calls.frame[function] : calls.frame[events.rows - 1];
    if (own != calls.caller[row]) continue;
    for (int32_t above = events.parent[row]; above >= 0 && above != function; above = events.parent[above]) {
      if (calls.called_here[above]) break;
      int32_t& kept = first[static_cast<size_t>(above)];
      if (kept >= 0 && kept <= static_cast<int32_t>(row)) break;  // and so of all further up
      kept = static_cast<int32_t>(row);
    }
  }
  return first;
}

// Frame and line of each event, -1 for none. For what a function of the program calls the line is recorded.
// Of what it does itself, such as an annotation, it is that of the first call in there, and without one where
// the function begins. `first_line` is that of each frame.
using Lines = std::pair<columns::Unfilled<int32_t>, columns::Unfilled<int32_t>>;

inline Lines lines(const Events& events, const std::vector<int64_t>& thread_number,
                   const ListedColumns& listed, const CallColumns& calls, const int32_t* first_line) {
  LocatedEvents where(events, thread_number, listed, calls);
  const std::vector<int32_t> first_call = first_calls(events, calls, where);
  columns::Unfilled<int32_t> frame(events.rows);
  columns::Unfilled<int32_t> line(events.rows);
  for (size_t row = 0; row < events.rows; ++row) {
    const int32_t around = where.around(row);
    if (around < 0) {
      frame[row] = line[row] = -1;
      continue;
    }
    auto site = static_cast<size_t>(around);
    // What runs directly in a function of the program is not at the line that called it.
    const bool is_own_body = calls.defined_here[site] && site != row;
    bool is_precise = calls.called_here[site] && !is_own_body;
    if (is_own_body && first_call[row] >= 0) {
      site = static_cast<size_t>(first_call[row]);
      is_precise = true;
    }
    frame[row] = is_precise ? calls.caller[site] : calls.frame[site];
    line[row] = is_precise ? calls.caller_line[site] : first_line[frame[row]];
  }
  return {std::move(frame), std::move(line)};
}

}  // namespace opscope::attribution
