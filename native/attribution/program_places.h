// Places of the program: what is alike in part of a step, line, module and outermost operator; and between
// which lines the calls of a function take longest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "attribution/lines.h"
#include "attribution/modules.h"
#include "nesting/nesting.h"
#include "schema/codes.h"
#include "schema/numbering.h"

namespace opscope::attribution {

struct PlaceColumns {  // of all events; -1 for none
  const int8_t* phase;
  const int32_t* path;
  const int32_t* frame;
  const int32_t* line;
  const int32_t* first_line;  // of every frame, the line that it begins at
};

struct Place {
  int64_t phase, frame, line, path, name;

  friend bool operator==(const Place& one, const Place& other) = default;
  struct Hash {
    uint64_t operator()(const Place& place) const {
      // Each by another odd number, so that none waits for another.
      const uint64_t mixed = static_cast<uint64_t>(place.frame) * 0x9E3779B97F4A7C15U ^
                             static_cast<uint64_t>(place.line) * 0xC2B2AE3D27D4EB4FU ^
                             static_cast<uint64_t>(place.path) * 0x165667B19E3779F9U ^
                             static_cast<uint64_t>(place.name) * 0xD6E8FEB86659FD93U ^
                             static_cast<uint64_t>(place.phase);
      return mixed ^ mixed >> 32;
    }
  };
};

struct Places {
  std::vector<int32_t> place;  // of every event a number, in order of first use
  std::vector<Place> places;   // by that
};

// What Python does in a module without a part of its own belongs to the `forward` pass, too.
// What a function of the program does itself is there, also where a backward pass calls it.
inline Places places(const Events& events, const CallColumns& calls, const PlaceColumns& columns,
                     int8_t forward) {
  Places found;
  found.place.resize(events.rows);
  // Of every event the outermost operator around it or itself, as the name of that.
  std::vector<int32_t> operator_name(events.rows);
  constexpr int32_t kNone = -2;  // as an operator may be without a name
  const auto with_itself = [&](size_t row) {
    if (operator_name[row] != kNone) return operator_name[row];
    return events.kind_of(row) == EventKind::kOperator ? events.name[row] : kNone;
  };
  nesting::each_after_parent(events.parent, events.rows, [&](size_t row, int32_t parent) {
    operator_name[row] = parent < 0 ? kNone : with_itself(static_cast<size_t>(parent));
  });
  Numbering<Place, Place::Hash> numbers;
  for (size_t row = 0; row < events.rows; ++row) {
    const int8_t phase = columns.phase[row] < 0 && columns.path[row] >= 0 ? forward : columns.phase[row];
    const int32_t name = std::max(with_itself(row), int32_t{-1});
    const bool is_own = calls.defined_here[row] && calls.frame[row] >= 0;
    const int32_t frame = is_own ? calls.frame[row] : columns.frame[row];
    const int32_t line = is_own ? columns.first_line[frame] : columns.line[row];
    found.place[row] = numbers.of({phase, frame, line, columns.path[row], name});
  }
  found.places = numbers.keys();
  return found;
}

// Lines with the events at them, in order of first use.
struct LineSums {
  std::vector<int64_t> frame, line, count, own_ns;
};

inline LineSums line_sums(const int32_t* frame, const int32_t* line, const int64_t* own_ns, size_t rows) {
  Numbering<Place, Place::Hash> numbers;
  LineSums sums;
  for (size_t row = 0; row < rows;) {
    const int32_t in = frame[row];
    const int32_t at = line[row];
    int64_t count = 0;  // of events at one line that stand together
    int64_t together_ns = 0;
    for (; row < rows && frame[row] == in && line[row] == at; ++row) {
      ++count;
      together_ns += own_ns[row];
    }
    if (in < 0) continue;
    const auto number = static_cast<size_t>(numbers.of({0, in, at, 0, 0}));
    if (number == sums.count.size()) {
      sums.frame.push_back(in);
      sums.line.push_back(at);
      sums.count.push_back(0);
      sums.own_ns.push_back(0);
    }
    sums.count[number] += count;
    sums.own_ns[number] += together_ns;
  }
  return sums;
}

// Stretches of code between the calls that some calls make.
struct CallsOfGroups {
  const bool* is_call;
  const int32_t* group;  // of every event the group that it is of, if it is a call
  const int32_t* line;   // of every event that it is called from, -1 for none
  const int64_t* start_ns;
  const int64_t* took_ns;
  size_t groups;
};

struct WidestGaps {  // of every group that has a call
  std::vector<int64_t> group;
  std::vector<int64_t> before, after;  // line of the call before and of the one after, -1 for none
  std::vector<int64_t> time_ns;        // in all calls of the group
};

class TimeBetweenLines {
 public:
  void add(int32_t group, int64_t before, int64_t after, int64_t time_ns) {
    const auto number = static_cast<size_t>(numbers_.of({group, in_order(before) << 32 | in_order(after)}));
    if (number == time_ns_.size()) time_ns_.push_back(0);
    time_ns_[number] += std::max(time_ns, int64_t{0});
  }

  // Of equal ones that which stands first.
  WidestGaps widest(size_t groups) const {
    constexpr auto kNone = SIZE_MAX;
    std::vector<size_t> widest(groups, kNone);
    for (size_t i = 0; i < time_ns_.size(); ++i) {
      size_t& kept = widest[static_cast<size_t>(gap(i).group)];
      if (kept == kNone || time_ns_[i] > time_ns_[kept] ||
          (time_ns_[i] == time_ns_[kept] && gap(i).lines < gap(kept).lines)) {
        kept = i;
      }
    }
    WidestGaps found;
    for (size_t group = 0; group < groups; ++group) {
      const size_t number = widest[group];
      if (number == kNone) continue;
      found.group.push_back(static_cast<int64_t>(group));
      found.before.push_back(line_of(gap(number).lines >> 32));
      found.after.push_back(line_of(gap(number).lines & UINT32_MAX));
      found.time_ns.push_back(time_ns_[number]);
    }
    return found;
  }

 private:
  struct Gap {
    int32_t group;
    uint64_t lines;

    friend bool operator==(const Gap& one, const Gap& other) = default;
    struct Hash {
      uint64_t operator()(const Gap& gap) const {
        const uint64_t mixed = gap.lines * 0xC2B2AE3D27D4EB4FU ^ static_cast<uint64_t>(gap.group);
        return mixed ^ mixed >> 32;
      }
    };
  };

  const Gap& gap(size_t number) const { return numbers_.keys()[number]; }
  // A line, any number of 32 bits, as one that is not negative.
  static uint64_t in_order(int64_t line) { return static_cast<uint64_t>(line - INT32_MIN); }
  static int64_t line_of(uint64_t number) { return static_cast<int64_t>(number) + INT32_MIN; }

  Numbering<Gap, Gap::Hash> numbers_;
  std::vector<int64_t> time_ns_;  // by number
};

inline WidestGaps widest_gaps(const int32_t* parent, size_t rows, const CallsOfGroups& calls) {
  TimeBetweenLines between;
  struct Reached {
    int64_t line = -1;
    int64_t end_ns = 0;
    bool any = false;
  };
  std::vector<Reached> reached(rows);  // of every call what it has called so far
  for (size_t row = 0; row < rows; ++row) {
    if (parent[row] < 0) continue;
    const auto call = static_cast<size_t>(parent[row]);
    if (!calls.is_call[call]) continue;
    const int64_t began = reached[call].any ? reached[call].end_ns : calls.start_ns[call];
    between.add(calls.group[call], reached[call].line, calls.line[row], calls.start_ns[row] - began);
    reached[call] = {calls.line[row], calls.start_ns[row] + calls.took_ns[row], true};
  }
  for (size_t call = 0; call < rows; ++call) {
    if (!calls.is_call[call]) continue;
    const int64_t began = reached[call].any ? reached[call].end_ns : calls.start_ns[call];
    between.add(calls.group[call], reached[call].line, -1,
                calls.start_ns[call] + calls.took_ns[call] - began);
  }
  return between.widest(calls.groups);
}

}  // namespace opscope::attribution
