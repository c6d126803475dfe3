// Places of the program: what is alike in part of a step, line, module and outermost operator; and between
// which lines the calls of a function take longest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "attribution/modules.h"
#include "nesting/nesting.h"
#include "schema/codes.h"

namespace opscope::attribution {

struct PlaceColumns {  // of all events; -1 for none
  const int8_t* phase;
  const int64_t* path;
  const int64_t* frame;
  const int64_t* line;
};

struct Place {
  int64_t phase, frame, line, path, name;

  bool operator==(const Place& other) const {
    return phase == other.phase && frame == other.frame && line == other.line && path == other.path &&
           name == other.name;
  }
  uint64_t hash() const {
    uint64_t mixed = 0;
    for (const int64_t one : {phase, frame, line, path, name}) {
      mixed = (mixed ^ static_cast<uint64_t>(one)) * 0x9E3779B97F4A7C15U;
      mixed ^= mixed >> 29;
    }
    return mixed;
  }
};

struct Places {
  std::vector<int32_t> place;  // of every event a number, in order of first use
  std::vector<Place> places;   // by that
};

class NumbersOfPlaces {
 public:
  explicit NumbersOfPlaces(std::vector<Place>& places) : places_(places), slots_(1024, -1) {}

  int32_t of(const Place& place) {
    const size_t slot = slot_of(place);
    if (slots_[slot] >= 0) return slots_[slot];
    const auto number = static_cast<int32_t>(places_.size());
    slots_[slot] = number;
    places_.push_back(place);
    if (places_.size() * 2 > slots_.size()) grow();
    return number;
  }

 private:
  size_t slot_of(const Place& place) const {
    size_t slot = place.hash() & (slots_.size() - 1);
    while (slots_[slot] >= 0 && !(places_[static_cast<size_t>(slots_[slot])] == place)) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    return slot;
  }
  void grow() {
    slots_.assign(slots_.size() * 4, -1);
    for (size_t i = 0; i < places_.size(); ++i) slots_[slot_of(places_[i])] = static_cast<int32_t>(i);
  }

  std::vector<Place>& places_;
  std::vector<int32_t> slots_;  // a place, -1 for none
};

// What Python does in a module without a part of its own belongs to the `forward` pass, too.
inline Places places(const Events& events, const PlaceColumns& columns, int8_t forward) {
  Places found;
  found.place.resize(events.rows);
  // Of every event the outermost operator around it or itself, as the name of that.
  std::vector<int32_t> operator_name(events.rows);
  constexpr int32_t kNone = -2;  // as an operator may be without a name
  const auto with_itself = [&](size_t row) {
    if (operator_name[row] != kNone) return operator_name[row];
    return events.kind_of(row) == EventKind::kOperator ? events.name[row] : kNone;
  };
  nesting::settle<int32_t, int32_t>(
      events.parent, events.rows, operator_name.data(), kNone, [](size_t) { return true; }, with_itself);
  NumbersOfPlaces numbers(found.places);
  for (size_t row = 0; row < events.rows; ++row) {
    const int8_t phase = columns.phase[row] < 0 && columns.path[row] >= 0 ? forward : columns.phase[row];
    const int32_t name = std::max(with_itself(row), int32_t{-1});
    found.place[row] = numbers.of({phase, columns.frame[row], columns.line[row], columns.path[row], name});
  }
  return found;
}

// Stretches of code between the calls that some calls make.
struct CallsOfGroups {
  const int32_t* group;  // of every event the group of calls that it is of, -1 for none
  const int64_t* line;   // of every event that it is called from, -1 for none
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
  explicit TimeBetweenLines(size_t groups) : widths_(groups) {}

  void add(int32_t group, int64_t before, int64_t after, int64_t time_ns) {
    const uint64_t key = in_order(before) << 32 | in_order(after);
    widths_[static_cast<size_t>(group)][key] += std::max(time_ns, int64_t{0});
  }

  // Of equal ones that which stands first.
  WidestGaps widest() const {
    WidestGaps found;
    for (size_t group = 0; group < widths_.size(); ++group) {
      if (widths_[group].empty()) continue;
      const auto widest = std::max_element(
          widths_[group].begin(), widths_[group].end(), [](const auto& one, const auto& other) {
            return one.second != other.second ? one.second < other.second : one.first > other.first;
          });
      found.group.push_back(static_cast<int64_t>(group));
      found.before.push_back(line_of(widest->first >> 32));
      found.after.push_back(line_of(widest->first & UINT32_MAX));
      found.time_ns.push_back(widest->second);
    }
    return found;
  }

 private:
  // A line, any number of 32 bits, as one that is not negative.
  static uint64_t in_order(int64_t line) { return static_cast<uint64_t>(line - INT32_MIN); }
  static int64_t line_of(uint64_t number) { return static_cast<int64_t>(number) + INT32_MIN; }

  std::vector<std::unordered_map<uint64_t, int64_t>> widths_;
};

inline WidestGaps widest_gaps(const int32_t* parent, size_t rows, const CallsOfGroups& calls) {
  TimeBetweenLines between(calls.groups);
  struct Reached {
    int64_t line = -1;
    int64_t end_ns = 0;
    bool any = false;
  };
  std::vector<Reached> reached(rows);  // of every call what it has called so far
  for (size_t row = 0; row < rows; ++row) {
    if (parent[row] < 0) continue;
    const auto call = static_cast<size_t>(parent[row]);
    if (calls.group[call] < 0) continue;
    const int64_t began = reached[call].any ? reached[call].end_ns : calls.start_ns[call];
    between.add(calls.group[call], reached[call].line, calls.line[row], calls.start_ns[row] - began);
    reached[call] = {calls.line[row], calls.start_ns[row] + calls.took_ns[row], true};
  }
  for (size_t call = 0; call < rows; ++call) {
    if (calls.group[call] < 0) continue;
    const int64_t began = reached[call].any ? reached[call].end_ns : calls.start_ns[call];
    between.add(calls.group[call], reached[call].line, -1,
                calls.start_ns[call] + calls.took_ns[call] - began);
  }
  return between.widest();
}

}  // namespace opscope::attribution
