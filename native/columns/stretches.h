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

// So many stretches of a kind have a length that is usual for it.
constexpr size_t kFewestAlike = 3;

// The lower median of the lengths of those with the same kind, for each; of too few, what `otherwise` has.
inline std::vector<int64_t> usual_of_kinds(std::span<const int64_t> length, std::span<const int64_t> kind,
                                           std::span<const int64_t> otherwise) {
  std::vector<int64_t> known(kind.begin(), kind.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  std::vector<int64_t> group(kind.size());
  std::vector<size_t> count(known.size());
  for (size_t row = 0; row < group.size(); ++row) {
    group[row] = std::lower_bound(known.begin(), known.end(), kind[row]) - known.begin();
    ++count[static_cast<size_t>(group[row])];
  }
  const std::vector<int64_t> medians = group_medians(length.data(), group.data(), group.size(), known.size());
  std::vector<int64_t> usual(group.size());
  for (size_t row = 0; row < group.size(); ++row) {
    const auto own = static_cast<size_t>(group[row]);
    usual[row] = count[own] < kFewestAlike ? otherwise[row] : medians[own];
  }
  return usual;
}

// Of each the lower median of the lengths with its label.
inline std::vector<int64_t> usual_of_labels(std::span<const int64_t> length, std::span<const int64_t> label,
                                            size_t labels) {
  const std::vector<int64_t> medians = group_medians(length.data(), label.data(), label.size(), labels + 1);
  std::vector<int64_t> usual(label.size());
  for (size_t row = 0; row < label.size(); ++row) usual[row] = medians[static_cast<size_t>(label[row])];
  return usual;
}

// Of each stretch the lower median length of those with its label that come after one with the same label,
// or with its label alone where these are few. Only where one with its label is longer than `longer_than`;
// else 0. `event` is the innermost event of each, -1 for none, which is a label of its own.
//
// What an event does before and after what it calls are stretches of one label, and of lengths that have
// nothing in common.
inline std::vector<int64_t> usual_lengths(std::span<const int64_t> length, std::span<const int64_t> event,
                                          std::span<const int32_t> label, size_t labels,
                                          int64_t longer_than) {
  std::vector<int64_t> labelled(length.size());
  std::vector<uint8_t> is_wanted(labels + 1);
  for (size_t row = 0; row < labelled.size(); ++row) {
    if (event[row] >= static_cast<int64_t>(label.size())) throw std::out_of_range("a stretch of no event");
    const int64_t own =
        event[row] < 0 ? static_cast<int64_t>(labels) : label[static_cast<size_t>(event[row])];
    if (own < 0 || own > static_cast<int64_t>(labels)) throw std::out_of_range("a label that there is not");
    labelled[row] = own;
    if (length[row] > longer_than) is_wanted[static_cast<size_t>(own)] = 1;
  }
  std::vector<size_t> rows;
  std::vector<int64_t> values;
  std::vector<int64_t> of;
  std::vector<int64_t> of_pair;
  for (size_t row = 0; row < labelled.size(); ++row) {
    if (!is_wanted[static_cast<size_t>(labelled[row])]) continue;
    const int64_t before = row == 0 ? static_cast<int64_t>(labels) : labelled[row - 1];
    rows.push_back(row);
    values.push_back(length[row]);
    of.push_back(labelled[row]);
    of_pair.push_back(labelled[row] * static_cast<int64_t>(labels + 1) + before);
  }
  const std::vector<int64_t> found = usual_of_kinds(values, of_pair, usual_of_labels(values, of, labels));
  std::vector<int64_t> usual(labelled.size());
  for (size_t i = 0; i < rows.size(); ++i) usual[rows[i]] = found[i];
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

// A stretch that took longer than usual: in which reading of the kernel's, and by how much.
struct Interrupted {
  size_t wait;
  size_t row;
  double beyond;
};

// Those that were interrupted, by reading, and of each reading the one that took longest beyond the usual
// first.
inline std::vector<Interrupted> interrupted(std::span<const int64_t> edges, std::span<const int64_t> usual,
                                            std::span<const int64_t> wait_of, const WaitRules& rules) {
  std::vector<Interrupted> found;
  for (size_t row = 0; row < usual.size(); ++row) {
    if (wait_of[row] < 0) continue;
    const auto took = static_cast<double>(edges[row + 1] - edges[row]);
    const auto as_usual = static_cast<double>(usual[row]);
    if (took - rules.odd * as_usual < rules.shortest) continue;
    found.push_back({static_cast<size_t>(wait_of[row]), row, took - as_usual});
  }
  std::stable_sort(found.begin(), found.end(), [](const Interrupted& one, const Interrupted& other) {
    return one.wait != other.wait ? one.wait < other.wait : one.beyond > other.beyond;
  });
  return found;
}

// Spreads what is left of each reading over those of its stretches that are chosen, each as much as it is
// long.
inline void spread_waiting(std::span<const int64_t> edges, std::span<const int64_t> wait_of,
                           std::span<const uint8_t> chosen, double most, std::span<double> waiting,
                           std::span<double> left) {
  const auto rest = [&](size_t row) {
    return static_cast<double>(edges[row + 1] - edges[row]) - waiting[row];
  };
  std::vector<double> room(left.size());
  for (size_t row = 0; row < wait_of.size(); ++row) {
    if (chosen[row] != 0) room[static_cast<size_t>(wait_of[row])] += rest(row);
  }
  const std::vector<double> whole(left.begin(), left.end());
  for (size_t row = 0; row < wait_of.size(); ++row) {
    if (chosen[row] == 0) continue;
    const auto at = static_cast<size_t>(wait_of[row]);
    const double part = rest(row) * std::min(std::max(whole[at], 0.0) / std::max(room[at], 1.0), most);
    waiting[row] += part;
    left[at] -= part;
  }
}

// Of each stretch what it waited for a processor: where it took longer than usual, those first that did by
// most, as turns of a processor are long. What the kernel counted beyond that is spread over those that are
// long enough to hold a turn: where most are interrupted, the usual is longer than it should be. Only what
// does not fit there is spread over all.
inline std::vector<double> delays(std::span<const int64_t> edges, std::span<const int64_t> usual,
                                  const Waits& waits, const WaitRules& rules) {
  const size_t rows = usual.size();
  std::vector<int64_t> wait_of(rows, -1);
  PlaceFinder finder(waits.start.data(), waits.start.size(), true);
  for (size_t row = 0; row < rows; ++row) {
    const auto at = static_cast<int64_t>(finder.find(edges[row])) - 1;
    if (at >= 0 && edges[row] < waits.end) wait_of[row] = at;
  }
  std::vector<double> waiting(rows);
  std::vector<double> left(waits.delayed.begin(), waits.delayed.end());
  for (const Interrupted& one : interrupted(edges, usual, wait_of, rules)) {
    waiting[one.row] = std::clamp(left[one.wait], 0.0, one.beyond);
    left[one.wait] -= waiting[one.row];
  }
  std::vector<uint8_t> is_long(rows);
  std::vector<uint8_t> is_short(rows);
  for (size_t row = 0; row < rows; ++row) {
    if (wait_of[row] < 0) continue;
    const double rest = static_cast<double>(edges[row + 1] - edges[row]) - waiting[row];
    (rest >= rules.shortest ? is_long : is_short)[row] = 1;
  }
  spread_waiting(edges, wait_of, is_long, rules.most, waiting, left);
  spread_waiting(edges, wait_of, is_short, rules.most, waiting, left);
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
