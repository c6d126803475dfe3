// Spans of one line of a timeline, which nest by time: what is around each, and which is the innermost one
// from one instant to the next. Spans stand in order of start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace opscope {
namespace nesting {

inline int64_t end_of(int64_t start, int64_t took) {
  return static_cast<int64_t>(static_cast<uint64_t>(start) + static_cast<uint64_t>(took));
}

// The spans of one line in order of start: all of a table, or the rows that `row` names.
struct LineSpans {
  const int64_t* start_ns;
  const int64_t* took_ns;
  size_t count;
  const int32_t* row = nullptr;

  size_t row_of(size_t place) const { return row == nullptr ? place : static_cast<size_t>(row[place]); }
  int64_t start(size_t place) const { return start_ns[row_of(place)]; }
  int64_t took(size_t place) const { return took_ns[row_of(place)]; }
};

// Goes over spans by time: `begin(place, around)` where one begins and `end(place, moment, around)` where one
// ends, inner ones before outer ones. What has no duration begins and never ends, and is around nothing.
//
// `around` is the span directly around, -1 for none: the latest that is open and one level higher.
template <class Begin, class End>
void sweep(const LineSpans& spans, Begin begin, End end) {
  struct Open {
    int64_t end;
    size_t place;
    int64_t around;
  };
  std::vector<Open> open;       // the one that ends first is the last
  std::vector<int64_t> latest;  // span of every level
  const auto close = [&] {
    end(open.back().place, open.back().end, open.back().around);
    open.pop_back();
  };
  for (size_t place = 0; place < spans.count; ++place) {
    const int64_t start = spans.start(place);
    while (!open.empty() && open.back().end <= start) close();
    const size_t level = open.size();
    if (latest.size() <= level) latest.resize(level + 1);
    latest[level] = static_cast<int64_t>(place);
    const int64_t around = level == 0 ? -1 : latest[level - 1];
    begin(place, around);
    const int64_t over = end_of(start, spans.took(place));
    if (over <= start) continue;
    if (level == 0 || open.back().end >= over) {  // as spans nest
      open.push_back({over, place, around});
      continue;
    }
    size_t depth = level;
    while (depth > 0 && open[depth - 1].end < over) --depth;
    open.insert(open.begin() + static_cast<ptrdiff_t>(depth), {over, place, around});
  }
  while (!open.empty()) close();
}

inline std::vector<int64_t> around_by_time(const int64_t* start, const int64_t* took, size_t rows) {
  std::vector<int64_t> around(rows);
  sweep(
      {start, took, rows}, [&](size_t row, int64_t found) { around[row] = found; },
      [](size_t, int64_t, int64_t) {});
  return around;
}

// What is directly around each of some spans by time, -1 for none, and what of it none of those covers that
// it is directly around.
struct Nested {
  std::vector<int32_t> around;
  std::vector<int64_t> own_ns;
};

// Of spans on several lines; those on further ones are left out, with none around and no time of their own.
// `order` are rows in order of start, nullptr where they stand so. None where two of a line overlap and do
// not nest, so that a place has to be found for them first, and where one has less than no duration.
inline std::optional<Nested> nest_on_lines(const int64_t* start_ns, const int64_t* took_ns,
                                           const int32_t* line, const int64_t* order, size_t rows,
                                           size_t lines) {
  struct Open {
    int64_t end;
    int32_t row;
  };
  std::vector<std::vector<Open>> open_on(lines);  // of each line, the one that ends first is the last
  Nested found{std::vector<int32_t>(rows), std::vector<int64_t>(rows)};
  for (size_t i = 0; i < rows; ++i) {
    const size_t row = order == nullptr ? i : static_cast<size_t>(order[i]);
    if (static_cast<size_t>(line[row]) >= lines) {
      found.around[row] = -1;
      continue;
    }
    std::vector<Open>& open = open_on[static_cast<size_t>(line[row])];
    const int64_t start = start_ns[row];
    const int64_t took = took_ns[row];
    if (took < 0) return std::nullopt;
    while (!open.empty() && open.back().end <= start) open.pop_back();
    const int64_t end = end_of(start, took);
    found.around[row] = open.empty() ? -1 : open.back().row;
    found.own_ns[row] += took;
    if (!open.empty()) {
      if (end > open.back().end) return std::nullopt;
      found.own_ns[static_cast<size_t>(open.back().row)] -= took;
    }
    if (end > start) open.push_back({end, static_cast<int32_t>(row)});
  }
  return found;
}

// Stretches between two moments; together they cover the time from the first moment to the last.
struct Segments {
  std::vector<int64_t> around;    // of every span
  std::vector<int64_t> start_ns;  // of every segment, as the others
  std::vector<int64_t> length_ns;
  std::vector<int64_t> owner;      // the innermost span, -1 for none
  std::vector<uint8_t> is_change;  // a span begins or ends where it starts
};

// `cuts` are moments in order at which segments end, too.
class SegmentList {
 public:
  SegmentList(const int64_t* cuts, size_t count, int64_t start_ns, int64_t end_ns)
      : cut_(std::upper_bound(cuts, cuts + count, start_ns)),
        last_cut_(std::lower_bound(cuts, cuts + count, end_ns)),
        start_ns_(start_ns),
        end_ns_(end_ns) {
    change(start_ns, -1);
  }

  void change(int64_t moment, int64_t owner) {
    moment = std::min(std::max(moment, start_ns_), end_ns_);
    cut_until(moment);
    while (cut_ < last_cut_ && *cut_ == moment) ++cut_;
    if (!found_.start_ns.empty() && found_.start_ns.back() == moment) {
      found_.owner.back() = owner;
      found_.is_change.back() = 1;
    } else {
      add(moment, owner, 1);
    }
  }

  Segments finish() {
    cut_until(end_ns_);
    while (!found_.start_ns.empty() && found_.start_ns.back() >= end_ns_) {
      found_.start_ns.pop_back();
      found_.owner.pop_back();
      found_.is_change.pop_back();
    }
    const size_t count = found_.start_ns.size();
    found_.length_ns.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const int64_t next = i + 1 < count ? found_.start_ns[i + 1] : end_ns_;
      found_.length_ns[i] = next - found_.start_ns[i];
    }
    return std::move(found_);
  }

 private:
  void cut_until(int64_t moment) {
    for (; cut_ < last_cut_ && *cut_ < moment; ++cut_) {
      if (found_.start_ns.back() != *cut_) add(*cut_, found_.owner.back(), 0);
    }
  }
  void add(int64_t moment, int64_t owner, uint8_t is_change) {
    found_.start_ns.push_back(moment);
    found_.owner.push_back(owner);
    found_.is_change.push_back(is_change);
  }

  Segments found_;
  const int64_t* cut_;
  const int64_t* last_cut_;
  int64_t start_ns_;
  int64_t end_ns_;
};

inline Segments innermost_segments(const int64_t* start, const int64_t* took, size_t rows,
                                   const int64_t* cuts, size_t count, int64_t start_ns, int64_t end_ns) {
  SegmentList list(cuts, count, start_ns, end_ns);
  std::vector<int64_t> around(rows);
  sweep(
      {start, took, rows},
      [&](size_t row, int64_t found) {
        around[row] = found;
        if (took[row] > 0) list.change(start[row], static_cast<int64_t>(row));
      },
      [&](size_t, int64_t moment, int64_t found) { list.change(moment, found); });
  Segments found = list.finish();
  found.around = std::move(around);
  return found;
}

}  // namespace nesting
}  // namespace opscope
