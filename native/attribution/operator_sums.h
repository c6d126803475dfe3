// Operators added up by name, part of a step and module: calls, times, times of steps, bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "schema/codes.h"

namespace opscope::attribution {

struct OperatorColumns {  // of all events
  const uint8_t* kind;
  const int32_t* name;  // -1 for none, as phase and path
  const int8_t* phase;
  const int64_t* path;
  const int32_t* thread;
  const int64_t* start_ns;
  const int64_t* took_ns;
  const int64_t* until_ns;  // what each took, of what never ended until its parent did
  const int64_t* own_ns;
  const int64_t* by_start;  // rows in order of start, nullptr where they are in that order
  size_t rows;
};

struct StepColumns {  // in order of start
  const int64_t* start_ns;
  const int64_t* end_ns;
  size_t count;
};

struct AllocationColumns {
  const int32_t* event;
  const uint8_t* action;
  const int64_t* size_bytes;
  size_t rows;
};

// Columns of a group each, in order of name, phase and path.
struct OperatorSums {
  std::vector<int64_t> name, phase, path, count, total_ns, self_ns, steps, step_min_ns, step_median_ns,
      step_max_ns, allocated_bytes;
};

class GroupsOfOperators {
 public:
  explicit GroupsOfOperators(const OperatorColumns& events) : events_(events), slots_(1024, -1) {}

  static constexpr int64_t kMostPaths = (int64_t{1} << 29) - 2;

  // What is alike in name, phase and path has one number.
  int32_t of(size_t row) {
    const uint64_t key = static_cast<uint64_t>(events_.name[row] + int64_t{1}) << 33 |
                         static_cast<uint64_t>(events_.phase[row] + 1) << 29 |
                         static_cast<uint64_t>(events_.path[row] + 1);
    size_t slot = place_of(key);
    while (slots_[slot] >= 0 && keys_[static_cast<size_t>(slots_[slot])] != key) {
      slot = (slot + 1) & (slots_.size() - 1);
    }
    if (slots_[slot] >= 0) return slots_[slot];
    slots_[slot] = static_cast<int32_t>(keys_.size());
    keys_.push_back(key);
    if (keys_.size() * 2 > slots_.size()) grow();
    return static_cast<int32_t>(keys_.size()) - 1;
  }

  const std::vector<uint64_t>& keys() const { return keys_; }

 private:
  size_t place_of(uint64_t key) const { return (key * 0x9E3779B97F4A7C15U >> 32) & (slots_.size() - 1); }
  void grow() {
    slots_.assign(slots_.size() * 4, -1);
    for (size_t i = 0; i < keys_.size(); ++i) {
      size_t slot = place_of(keys_[i]);
      while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = static_cast<int32_t>(i);
    }
  }

  const OperatorColumns& events_;
  std::vector<uint64_t> keys_;  // of every group
  std::vector<int32_t> slots_;  // a group, -1 for none
};

class OperatorGroup {
 public:
  void add(int32_t thread, int64_t start_ns, int64_t end_ns, int64_t took_ns, int64_t own_ns, int64_t step) {
    ++count;
    self_ns += own_ns;
    // Of calls within such calls of their thread the outer ones count.
    int64_t& reached = reached_on(thread);
    if (start_ns >= reached) total_ns += took_ns;
    reached = std::max(reached, end_ns);
    if (step < 0) return;
    if (step != step_ || of_step.empty()) of_step.push_back(0);
    step_ = step;
    of_step.back() += own_ns;
  }

  int64_t count = 0, total_ns = 0, self_ns = 0, allocated_bytes = 0;
  std::vector<int64_t> of_step;  // own time in each step in which there is any

 private:
  int64_t& reached_on(int32_t thread) {
    for (auto& [known, reached] : reached_) {
      if (known == thread) return reached;
    }
    return reached_.emplace_back(thread, INT64_MIN).second;
  }

  std::vector<std::pair<int32_t, int64_t>> reached_;
  int64_t step_ = -1;
};

inline OperatorSums in_order(const std::vector<uint64_t>& keys, std::vector<OperatorGroup>& groups,
                             bool has_bytes) {
  OperatorSums sums;
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  for (const size_t i : order) {
    OperatorGroup& group = groups[i];
    auto& steps = group.of_step;
    sums.name.push_back(static_cast<int64_t>(keys[i] >> 33) - 1);
    sums.phase.push_back(static_cast<int64_t>(keys[i] >> 29 & 15) - 1);
    sums.path.push_back(static_cast<int64_t>(keys[i] & ((uint64_t{1} << 29) - 1)) - 1);
    sums.count.push_back(group.count);
    sums.total_ns.push_back(group.total_ns);
    sums.self_ns.push_back(group.self_ns);
    sums.steps.push_back(static_cast<int64_t>(steps.size()));
    sums.allocated_bytes.push_back(has_bytes ? group.allocated_bytes : -1);
    std::sort(steps.begin(), steps.end());
    sums.step_min_ns.push_back(steps.empty() ? -1 : steps.front());
    sums.step_median_ns.push_back(steps.empty() ? -1 : steps[(steps.size() - 1) / 2]);
    sums.step_max_ns.push_back(steps.empty() ? -1 : steps.back());
  }
  return sums;
}

inline OperatorSums operator_sums(const OperatorColumns& events, const StepColumns& steps,
                                  const AllocationColumns* allocations) {
  GroupsOfOperators numbers(events);
  std::vector<OperatorGroup> groups;
  std::vector<int32_t> group_of(allocations == nullptr ? 0 : events.rows, -1);
  size_t after = 0;  // the first step that begins later
  for (size_t i = 0; i < events.rows; ++i) {
    const size_t row = events.by_start == nullptr ? i : static_cast<size_t>(events.by_start[i]);
    if (static_cast<EventKind>(events.kind[row]) != EventKind::kOperator) continue;
    const int64_t start = events.start_ns[row];
    while (after < steps.count && steps.start_ns[after] <= start) ++after;
    const bool is_inside = after > 0 && start < steps.end_ns[after - 1];
    const int32_t number = numbers.of(row);
    if (static_cast<size_t>(number) == groups.size()) groups.emplace_back();
    groups[static_cast<size_t>(number)].add(events.thread[row], start, start + events.until_ns[row],
                                            events.took_ns[row], events.own_ns[row],
                                            is_inside ? static_cast<int64_t>(after) : -1);
    if (allocations != nullptr) group_of[row] = number;
  }
  for (size_t i = 0; allocations != nullptr && i < allocations->rows; ++i) {
    const int32_t event = allocations->event[i];
    if (event < 0 || group_of[static_cast<size_t>(event)] < 0) continue;
    if (static_cast<AllocationAction>(allocations->action[i]) != AllocationAction::kAllocate) continue;
    groups[static_cast<size_t>(group_of[static_cast<size_t>(event)])].allocated_bytes +=
        allocations->size_bytes[i];
  }
  return in_order(numbers.keys(), groups, allocations != nullptr);
}

}  // namespace opscope::attribution
