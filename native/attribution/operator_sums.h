// Operators added up by name, part of a step and module: calls, times, times of steps, bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <unordered_map>
#include <utility>
#include <vector>

#include "schema/codes.h"
#include "schema/numbering.h"

namespace opscope::attribution {

struct OperatorColumns {  // of all events
  const uint8_t* kind;
  const int32_t* name;  // -1 for none, as phase and path
  const int8_t* phase;
  const int32_t* path;
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

// What is alike in name, phase and path, in an order of these.
class OperatorKey {
 public:
  static constexpr int64_t kMostPaths = (int64_t{1} << 29) - 2;

  OperatorKey() = default;
  OperatorKey(int32_t name, int8_t phase, int32_t path)
      : packed_(static_cast<uint64_t>(name + int64_t{1}) << 33 | static_cast<uint64_t>(phase + 1) << 29 |
                static_cast<uint64_t>(path + int64_t{1})) {}

  int64_t name() const { return static_cast<int64_t>(packed_ >> 33) - 1; }
  int64_t phase() const { return static_cast<int64_t>(packed_ >> 29 & 15) - 1; }
  int64_t path() const { return static_cast<int64_t>(packed_ & ((uint64_t{1} << 29) - 1)) - 1; }

  friend bool operator==(const OperatorKey& one, const OperatorKey& other) = default;
  friend bool operator<(const OperatorKey& one, const OperatorKey& other) {
    return one.packed_ < other.packed_;
  }
  struct Hash {
    uint64_t operator()(const OperatorKey& key) const { return key.packed_; }
  };

 private:
  uint64_t packed_ = 0;
};

class OperatorGroup {
 public:
  void add(int32_t thread, int64_t start_ns, int64_t end_ns, int64_t took_ns, int64_t own_ns, int64_t step) {
    ++count;
    self_ns += own_ns;
    // Of calls within such calls of their thread the outer ones count.
    if (thread != thread_) go_to(thread);
    if (start_ns >= reached_ns_) total_ns += took_ns;
    reached_ns_ = std::max(reached_ns_, end_ns);
    if (step < 0) return;
    if (step != step_) next_step(step);
    in_step_ns_ += own_ns;
  }

  // Of the steps in which there is any, how many there are and own time in them: -1 without.
  struct OfSteps {
    int64_t steps = 0, min_ns = -1, median_ns = -1, max_ns = -1;
  };
  OfSteps of_steps() {
    next_step(-1);
    if (of_step_.empty()) return {};
    const auto [least, most] = std::minmax_element(of_step_.begin(), of_step_.end());
    OfSteps found{static_cast<int64_t>(of_step_.size()), *least, 0, *most};
    const auto middle = of_step_.begin() + static_cast<ptrdiff_t>((of_step_.size() - 1) / 2);
    std::nth_element(of_step_.begin(), middle, of_step_.end());
    found.median_ns = *middle;
    return found;
  }

  int64_t count = 0, total_ns = 0, self_ns = 0, allocated_bytes = 0;

 private:
  void next_step(int64_t step) {
    if (step_ >= 0) of_step_.push_back(in_step_ns_);
    step_ = step;
    in_step_ns_ = 0;
  }
  // The thread of the call before, and what was reached on it, are at hand.
  void go_to(int32_t thread) {
    if (thread_ >= 0) others_[thread_] = reached_ns_;
    thread_ = thread;
    const auto known = others_.find(thread);
    reached_ns_ = known == others_.end() ? INT64_MIN : known->second;
  }

  int32_t thread_ = -1;
  int64_t reached_ns_ = INT64_MIN;
  int64_t step_ = -1;
  int64_t in_step_ns_ = 0;
  std::vector<int64_t> of_step_;
  std::unordered_map<int32_t, int64_t> others_;
};

inline OperatorSums in_order(const std::vector<OperatorKey>& keys, std::vector<OperatorGroup>& groups,
                             bool has_bytes) {
  OperatorSums sums;
  std::vector<size_t> order(keys.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  for (const size_t i : order) {
    OperatorGroup& group = groups[i];
    const OperatorGroup::OfSteps of_steps = group.of_steps();
    sums.name.push_back(keys[i].name());
    sums.phase.push_back(keys[i].phase());
    sums.path.push_back(keys[i].path());
    sums.count.push_back(group.count);
    sums.total_ns.push_back(group.total_ns);
    sums.self_ns.push_back(group.self_ns);
    sums.steps.push_back(of_steps.steps);
    sums.allocated_bytes.push_back(has_bytes ? group.allocated_bytes : -1);
    sums.step_min_ns.push_back(of_steps.min_ns);
    sums.step_median_ns.push_back(of_steps.median_ns);
    sums.step_max_ns.push_back(of_steps.max_ns);
  }
  return sums;
}

inline OperatorSums operator_sums(const OperatorColumns& events, const StepColumns& steps,
                                  const AllocationColumns* allocations) {
  Numbering<OperatorKey, OperatorKey::Hash> numbers;
  std::vector<OperatorGroup> groups;
  std::vector<int32_t> group_of(allocations == nullptr ? 0 : events.rows, -1);
  size_t after = 0;  // the first step that begins later
  for (size_t i = 0; i < events.rows; ++i) {
    const size_t row = events.by_start == nullptr ? i : static_cast<size_t>(events.by_start[i]);
    if (static_cast<EventKind>(events.kind[row]) != EventKind::kOperator) continue;
    const int64_t start = events.start_ns[row];
    while (after < steps.count && steps.start_ns[after] <= start) ++after;
    const bool is_inside = after > 0 && start < steps.end_ns[after - 1];
    const int32_t number = numbers.of({events.name[row], events.phase[row], events.path[row]});
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
