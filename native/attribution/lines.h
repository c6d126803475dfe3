// Where in the program events were asked for: which event says it, and the line there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "attribution/modules.h"
#include "attribution/sequences.h"
#include "nesting/nesting.h"

namespace opscope::attribution {

// Which events are listed as torch lists them. Those to begin with are `shown`; one whose parent has the same
// name and no other child is folded into that.
struct Listing {
  std::vector<uint8_t> listed;
  std::vector<uint8_t> nested;  // listed, and has a parent and children
  std::vector<int32_t> parent;  // the closest that is nested, -1 for none
};

inline void nested_parents(const Events& events, Listing& found) {
  const auto& nested = found.nested;
  nesting::settle<int32_t, int32_t>(
      events.parent, events.rows, found.parent.data(), -1, [&](size_t parent) { return !nested[parent]; },
      [&](size_t parent) { return nested[parent] ? static_cast<int32_t>(parent) : found.parent[parent]; });
}

// What is known of labels: which are one where names are compared, and which are not shown.
struct Labels {
  const int32_t* label;  // of every event
  const int32_t* group;  // of every label, as the next
  const bool* is_hidden;
  bool hides_collections;
};

inline Listing listing(const Events& events, const Labels& labels, const bool* is_async) {
  Listing found{std::vector<uint8_t>(events.rows), std::vector<uint8_t>(events.rows),
                std::vector<int32_t>(events.rows)};
  for (size_t row = 0; row < events.rows; ++row) {
    const bool is_pause = labels.hides_collections && events.kind_of(row) == EventKind::kGcPause;
    found.listed[row] = !is_pause && !labels.is_hidden[labels.label[row]];
    found.nested[row] = found.listed[row] && !is_async[row];
  }
  nested_parents(events, found);
  std::vector<int32_t> children(events.rows);
  for (size_t row = 0; row < events.rows; ++row) {
    if (found.nested[row] && found.parent[row] >= 0) ++children[static_cast<size_t>(found.parent[row])];
  }
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
  // As a chain of parents: what is folded is no longer among them.
  nested_parents(events, found);
  return found;
}

// Of each event itself, or the forward operator that it runs backwards; -1 where that was not recorded.
inline std::vector<int32_t> stack_sources(const Events& events, const std::vector<int64_t>& thread_number,
                                          const bool* listed, const bool* nested) {
  std::vector<int32_t> around(events.rows);  // the closest backward span, itself included
  const auto is_backward = [&](size_t row) {
    return events.scope_of(row) == RecordScope::kBackwardFunction && nested[row];
  };
  const auto closest = [&](size_t row) { return is_backward(row) ? static_cast<int32_t>(row) : around[row]; };
  nesting::settle<int32_t, int32_t>(
      events.parent, events.rows, around.data(), -1, [&](size_t parent) { return !is_backward(parent); },
      closest);
  RowsByNumber first;
  for (size_t row = 0; row < events.rows; ++row) {
    if (!listed[row] || events.sequence[row] < 0 || closest(row) >= 0) continue;
    int32_t& kept = first.at(thread_number[static_cast<size_t>(events.thread[row])], events.sequence[row]);
    if (kept < 0) kept = static_cast<int32_t>(row);
  }
  std::vector<int32_t> forward(events.rows, -1);
  for (size_t row = 0; row < events.rows; ++row) {
    if (is_backward(row)) forward[row] = first.at(events.forward_thread[row], events.sequence[row]);
  }
  std::vector<int32_t> source(events.rows);
  for (size_t row = 0; row < events.rows; ++row) {
    const int32_t backward = closest(row);
    source[row] = backward >= 0 ? forward[static_cast<size_t>(backward)] : static_cast<int32_t>(row);
  }
  return source;
}

struct CallColumns {
  const int64_t* caller;       // of each call the function that made it, row in frames, -1 unknown
  const int64_t* caller_line;  // the line there
  const int64_t* frame;        // of calls of a Python function that, row in frames, -1 for others
  const bool* called_here;     // the program's own function made it
  const bool* defined_here;    // it is a call of one
};

// The innermost event around each, or itself, that says where in the program it is; of a backward operator
// that of its forward operator, else the line that began the backward pass. -1 for none.
inline std::vector<int32_t> saying_where(const Events& events, const CallColumns& calls,
                                         const std::vector<int32_t>& source) {
  const auto says = [&](size_t row) { return calls.called_here[row] || calls.defined_here[row]; };
  std::vector<int32_t> nearest(events.rows);
  nesting::settle<int32_t, int32_t>(
      events.parent, events.rows, nearest.data(), -1, [&](size_t parent) { return !says(parent); },
      [&](size_t parent) { return says(parent) ? static_cast<int32_t>(parent) : nearest[parent]; });
  for (size_t row = 0; row < events.rows; ++row) {
    if (says(row)) nearest[row] = static_cast<int32_t>(row);
  }
  std::vector<int32_t> found = nearest;
  for (size_t row = 0; row < events.rows; ++row) {
    if (source[row] < 0 || static_cast<size_t>(source[row]) == row) continue;
    const int32_t forward = nearest[static_cast<size_t>(source[row])];
    if (forward >= 0) found[row] = forward;
  }
  return found;
}

// For what a function of the program does itself, the first call of that inside; else -1.
//
// A step of an optimizer has no line of its own, but where the functions of libraries were not recorded the
// operators in it have the line that called it.
inline std::vector<int32_t> first_calls(const Events& events, const CallColumns& calls) {
  std::vector<int32_t> function(events.rows);
  nesting::settle<int32_t, int32_t>(
      events.parent, events.rows, function.data(), -1, [&](size_t parent) { return calls.frame[parent] < 0; },
      [&](size_t parent) {
        return calls.frame[parent] >= 0 ? static_cast<int32_t>(parent) : function[parent];
      });
  std::vector<int32_t> first(events.rows, -1);
  for (size_t row = 0; row < events.rows; ++row) {
    if (!calls.called_here[row]) continue;
    const int64_t own = function[row] >= 0 ? calls.frame[function[row]] : calls.frame[events.rows - 1];
    if (own != calls.caller[row]) continue;
    for (int32_t above = events.parent[row]; above >= 0 && above != function[row];
         above = events.parent[above]) {
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
inline std::pair<std::vector<int64_t>, std::vector<int64_t>> lines(const Events& events,
                                                                   const CallColumns& calls,
                                                                   const std::vector<int32_t>& around,
                                                                   const int32_t* first_line) {
  const std::vector<int32_t> first_call = first_calls(events, calls);
  std::vector<int64_t> frame(events.rows, -1);
  std::vector<int64_t> line(events.rows, -1);
  for (size_t row = 0; row < events.rows; ++row) {
    if (around[row] < 0) continue;
    auto site = static_cast<size_t>(around[row]);
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
