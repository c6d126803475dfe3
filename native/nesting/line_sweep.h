// Spans of one thread: each instant belongs to the open span that began last. Spans are in order of start.
//
// So if a span outlasts an open one, the earlier one has no time from then on: it ends there, and spans nest,
// regardless of the file. Exception: a child that overruns its recorded parent only because times were
// rounded stays inside; it ends with the parent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace opscope {
namespace nesting {

inline int64_t end_of(int64_t start, int64_t took) {
  return static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(took));
}

// Spans of one line in order of start: all rows of a table, or those in `row`.
struct LineSpans {
  const int64_t* start_ns;
  const int64_t* took_ns;
  size_t count;
  const int32_t* row = nullptr;
  const int32_t* parent = nullptr;  // recorded parent of every row of the table

  size_t row_of(size_t place) const { return row == nullptr ? place : static_cast<size_t>(row[place]); }
  int64_t start(size_t place) const { return start_ns[row_of(place)]; }
  int64_t took(size_t place) const { return took_ns[row_of(place)]; }
};

// Kineto's coarsest times are whole microseconds; both start and duration are rounded.
inline constexpr int64_t kMostRoundingNs = 2'000;

// Whether a span overruns another by `late_ns` only because times were rounded.
inline bool is_rounding(int64_t late_ns, int64_t inside_ns, int64_t most_ns) {
  return late_ns <= most_ns && late_ns < inside_ns;
}

// Open spans of one line; the innermost is the last.
class OpenSpans {
 public:
  struct Open {
    int64_t end;
    int64_t row;
  };

  bool empty() const { return open_.empty(); }
  int64_t innermost() const { return open_.empty() ? -1 : open_.back().row; }

  // Calls over(row, end, around) for each span that has ended, inner ones first.
  template <class Over>
  void close(int64_t moment, Over over) {
    while (!open_.empty() && open_.back().end <= moment) {
      const Open last = open_.back();
      open_.pop_back();
      over(last.row, last.end, innermost());
    }
  }

  // Prepares for a new span: calls moved(row, end, earlier_end, around) for each span whose end changes.
  template <class Moved>
  void fit(int64_t start, int64_t end, int64_t parent, Moved moved) {
    if (open_.empty() || open_.back().end >= end) return;
    if (open_.back().row == parent &&
        is_rounding(end - open_.back().end, open_.back().end - start, kMostRoundingNs)) {
      for (size_t i = open_.size(); i-- > 0 && open_[i].end < end;) {
        moved(open_[i].row, end, open_[i].end, i == 0 ? -1 : open_[i - 1].row);
        open_[i].end = end;
      }
      return;
    }
    while (!open_.empty() && open_.back().end < end) {
      const Open last = open_.back();
      open_.pop_back();
      moved(last.row, start, last.end, innermost());
    }
  }

  void open(int64_t row, int64_t end) { open_.push_back({end, row}); }

 private:
  std::vector<Open> open_;
};

// Visits spans by time: `begin(row, around)` and `end(row, moment, around)`, inner ends before outer ones.
// Spans without duration have a begin only and contain nothing.
//
// `around`: the span directly around, -1 for none.
template <class Begin, class End>
void sweep(const LineSpans& spans, Begin begin, End end) {
  OpenSpans open;
  for (size_t place = 0; place < spans.count; ++place) {
    const auto row = static_cast<int64_t>(spans.row_of(place));
    const int64_t start = spans.start(place);
    const int64_t over = end_of(start, std::max<int64_t>(spans.took(place), 0));
    open.close(start, end);
    if (over > start) {
      const int64_t parent = spans.parent == nullptr ? -1 : spans.parent[row];
      open.fit(start, over, parent, [&](int64_t other, int64_t moment, int64_t, int64_t around) {
        if (moment == start) end(other, moment, around);
      });
    }
    begin(row, open.innermost());
    if (over > start) open.open(row, over);
  }
  open.close(INT64_MAX, end);
}

// The span directly around each span, -1 for none, and its self time. For spans that did not nest: until when
// they have self time; the last entry of a span counts.
struct Nested {
  std::vector<int32_t> around;
  std::vector<int64_t> own_ns;
  std::vector<int32_t> moved;
  std::vector<int64_t> until_ns;
};

// For spans on several lines, in order of start; spans on further lines get no parent and no self time.
inline Nested nest_on_lines(const int64_t* start_ns, const int64_t* took_ns, const int32_t* parent,
                            const int32_t* line, size_t rows, size_t lines) {
  std::vector<OpenSpans> open_on(lines);
  Nested found{std::vector<int32_t>(rows), std::vector<int64_t>(rows), {}, {}};
  const auto add = [&](int64_t row, int64_t time_ns) {
    if (row >= 0) found.own_ns[static_cast<size_t>(row)] += time_ns;
  };
  const auto over = [](int64_t, int64_t, int64_t) {};
  const auto moved = [&](int64_t row, int64_t end, int64_t earlier_end, int64_t around) {
    found.moved.push_back(static_cast<int32_t>(row));
    found.until_ns.push_back(end);
    add(row, end - earlier_end);
    add(around, earlier_end - end);
  };
  for (size_t row = 0; row < rows; ++row) {
    if (static_cast<size_t>(line[row]) >= lines) {
      found.around[row] = -1;
      continue;
    }
    OpenSpans& open = open_on[static_cast<size_t>(line[row])];
    const int64_t start = start_ns[row];
    const int64_t took = std::max<int64_t>(took_ns[row], 0);
    const int64_t end = end_of(start, took);
    open.close(start, over);
    if (end > start) open.fit(start, end, parent[row], moved);
    found.around[row] = static_cast<int32_t>(open.innermost());
    if (end <= start) continue;
    add(static_cast<int64_t>(row), took);
    add(open.innermost(), -took);
    open.open(static_cast<int64_t>(row), end);
  }
  return found;
}

// Containment of spans, from times alone.
struct Containment {
  std::vector<int32_t> parent;      // innermost earlier span of the thread that contains it, -1 for none
  std::vector<int64_t> overlap_ns;  // its overlap with spans that it outlasts
};

// Spans of all threads by start; of equal starts the outer one comes first. One pass with a stack of open
// spans per thread. Of two spans that end within `rounding_ns`, the later one may be inside the earlier one.
inline Containment contain(const int64_t* thread, const int64_t* start, const int64_t* end, size_t rows,
                           int64_t rounding_ns) {
  Containment result{std::vector<int32_t>(rows), std::vector<int64_t>(rows)};
  std::unordered_map<int64_t, std::vector<int32_t>> stacks;
  std::vector<int32_t>* stack = nullptr;
  for (size_t row = 0; row < rows; ++row) {
    if (row == 0 || thread[row] != thread[row - 1]) stack = &stacks[thread[row]];
    while (!stack->empty()) {
      const auto top = static_cast<size_t>(stack->back());
      // Spans without duration contain nothing; a span that begins at another's end comes after it.
      const int64_t inside = end[top] - start[row];
      if (inside > 0) {
        if (end[top] >= end[row] || is_rounding(end[row] - end[top], inside, rounding_ns)) break;
        result.overlap_ns[row] = std::max(result.overlap_ns[row], inside);
      }
      stack->pop_back();
    }
    result.parent[row] = stack->empty() ? -1 : stack->back();
    stack->push_back(static_cast<int32_t>(row));
  }
  return result;
}

}  // namespace nesting
}  // namespace opscope
