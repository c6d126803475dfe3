// Stretches of a thread, one after the other: how long those like each take, what of them was waiting for a
// processor, what happened in them, and a clock that makes each longer or shorter.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <vector>

#include "columns/medians.h"
#include "columns/places.h"

namespace opscope::columns {

// Of each stretch the lower median length of those with its label, where one of them is longer than
// `longer_than`; else 0. `event` is the innermost event of each, -1 for none, which is a label of its own.
inline std::vector<int64_t> usual_lengths(std::span<const int64_t> length, std::span<const int64_t> event,
                                          std::span<const int32_t> label, size_t labels,
                                          int64_t longer_than) {
  std::vector<int32_t> group(length.size());
  std::vector<uint8_t> is_wanted(labels + 1);
  for (size_t row = 0; row < group.size(); ++row) {
    if (event[row] >= static_cast<int64_t>(label.size())) throw std::out_of_range("a stretch of no event");
    group[row] = event[row] < 0 ? static_cast<int32_t>(labels) : label[static_cast<size_t>(event[row])];
    if (group[row] < 0 || static_cast<size_t>(group[row]) > labels) {
      throw std::out_of_range("a label that there is not");
    }
    if (length[row] > longer_than) is_wanted[static_cast<size_t>(group[row])] = 1;
  }
  std::vector<int64_t> values;
  std::vector<int64_t> of;
  for (size_t row = 0; row < group.size(); ++row) {
    if (!is_wanted[static_cast<size_t>(group[row])]) continue;
    values.push_back(length[row]);
    of.push_back(group[row]);
  }
  const std::vector<int64_t> medians = group_medians(values.data(), of.data(), values.size(), labels + 1);
  std::vector<int64_t> usual(group.size());
  for (size_t row = 0; row < group.size(); ++row) usual[row] = medians[static_cast<size_t>(group[row])];
  return usual;
}

// What the kernel counted of a thread, each from its start to that of the next; in order.
struct Waits {
  std::span<const int64_t> start;
  std::span<const int64_t> delayed;
  int64_t end;  // of the last
};

struct WaitRules {
  double odd;       // a stretch so many times as long as usual was interrupted
  double shortest;  // by at least so much
  double most;      // of the rest of a stretch, what waiting that is spread can be
};

// Of each stretch what it waited for a processor: where it took longer than usual, and what the kernel
// counted beyond that is spread.
inline std::vector<double> delays(std::span<const int64_t> edges, std::span<const int64_t> usual,
                                  const Waits& waits, const WaitRules& rules) {
  const size_t rows = usual.size();
  std::vector<double> waiting(rows);
  std::vector<int64_t> wait_of(rows, -1);
  std::vector<double> found(waits.start.size());
  PlaceFinder finder(waits.start.data(), waits.start.size(), true);
  const auto took = [&](size_t row) { return static_cast<double>(edges[row + 1] - edges[row]); };
  for (size_t row = 0; row < rows; ++row) {
    const auto at = static_cast<int64_t>(finder.find(edges[row])) - 1;
    if (at < 0 || edges[row] >= waits.end) continue;
    wait_of[row] = at;
    const double beyond = took(row) - rules.odd * static_cast<double>(usual[row]);
    if (beyond < rules.shortest) continue;
    waiting[row] = beyond;
    found[static_cast<size_t>(at)] += beyond;
  }
  std::vector<double> room(waits.start.size());
  for (size_t row = 0; row < rows; ++row) {
    if (wait_of[row] < 0) continue;
    const auto at = static_cast<size_t>(wait_of[row]);
    waiting[row] *= std::min(static_cast<double>(waits.delayed[at]) / std::max(found[at], 1.0), 1.0);
    room[at] += took(row) - waiting[row];
  }
  for (size_t row = 0; row < rows; ++row) {
    if (wait_of[row] < 0) continue;
    const auto at = static_cast<size_t>(wait_of[row]);
    const double more = std::max(static_cast<double>(waits.delayed[at]) - found[at], 0.0);
    waiting[row] += (took(row) - waiting[row]) * std::min(more / std::max(room[at], 1.0), rules.most);
  }
  return waiting;
}

// The sum of what happened before the first edge, from each edge to the next, and after the last; with
// `right` what happens at an edge comes after it.
inline std::vector<double> sums_between(std::span<const int64_t> edges, std::span<const int64_t> times,
                                        std::span<const double> amounts, bool right) {
  std::vector<double> sums(edges.size() + 1);
  PlaceFinder finder(edges.data(), edges.size(), right);
  for (size_t row = 0; row < times.size(); ++row) sums[finder.find(times[row])] += amounts[row];
  return sums;
}

// What a clock shows, in whole numbers, that shows `shown` at `moments`, evenly in between and still
// before and after. There is at least one moment.
inline std::vector<int64_t> shown_at(std::span<const int64_t> moments, std::span<const double> shown,
                                     std::span<const int64_t> times) {
  std::vector<int64_t> result(times.size());
  PlaceFinder finder(moments.data(), moments.size(), true);
  for (size_t row = 0; row < times.size(); ++row) {
    const size_t after = finder.find(times[row]);
    double now = after == 0 ? shown[0] : shown[after - 1];
    if (after != 0 && after != moments.size()) {
      const auto whole = static_cast<double>(moments[after] - moments[after - 1]);
      const double slope = (shown[after] - shown[after - 1]) / whole;
      now = slope * static_cast<double>(times[row] - moments[after - 1]) + now;
    }
    result[row] = static_cast<int64_t>(now + 0.5);
  }
  return result;
}

}  // namespace opscope::columns
