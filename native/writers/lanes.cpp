#include "writers/lanes.h"

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>

#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

struct Span {
  int64_t start;
  int64_t end;
  int32_t row;
  uint8_t yields;
};

// Lane 0 of a track: decides which spans may stay there.
class MainLane {
 public:
  // Appends to `moved` the spans that cannot stay now that this one began: itself, or others.
  void add(const Span& span, std::vector<int32_t>& moved) {
    while (!open_.empty() && open_.back().end <= span.start) open_.pop_back();
    // Ends never increase towards the top, so those this span outlives are the topmost.
    auto outlived = open_.end();
    while (outlived != open_.begin() && (outlived - 1)->end < span.end) {
      --outlived;
      if (outlived->yields <= span.yields) {
        moved.push_back(span.row);
        return;
      }
    }
    for (auto it = outlived; it != open_.end(); ++it) moved.push_back(it->row);
    open_.erase(outlived, open_.end());
    open_.push_back(span);
  }

 private:
  std::vector<Span> open_;  // outermost first
};

// The lanes of a track from 1 on.
class SideLanes {
 public:
  int32_t place(const Span& span) {
    for (size_t i = 0; i < nested_.size(); ++i) {
      if (fits(nested_[i], span)) {
        nested_[i].push_back(span.end);
        return static_cast<int32_t>(i) + 1;
      }
    }
    return place_flat(span);
  }

 private:
  // Ends of the spans open on one lane, outermost first, so never increasing.
  using Lane = std::vector<int64_t>;

  static bool fits(Lane& lane, const Span& span) {
    while (!lane.empty() && lane.back() <= span.start) lane.pop_back();
    return lane.empty() || span.end <= lane.back();
  }

  // Past the first lanes, spans follow one another and do not nest: a server with a thousand
  // requests open would otherwise try a thousand lanes for every span.
  int32_t place_flat(const Span& span) {
    int32_t lane = next_flat_;
    if (!flat_.empty() && flat_.top().first <= span.start) {
      lane = flat_.top().second;
      flat_.pop();
    } else {
      ++next_flat_;
    }
    flat_.emplace(span.end, lane);
    return lane;
  }

  static constexpr size_t kNestedLanes = 8;
  using EndAndLane = std::pair<int64_t, int32_t>;

  std::array<Lane, kNestedLanes> nested_;
  std::priority_queue<EndAndLane, std::vector<EndAndLane>, std::greater<>> flat_;
  int32_t next_flat_ = kNestedLanes + 1;
};

Span span_at(const LaneInput& input, int32_t row) {
  const auto i = static_cast<size_t>(row);
  const int64_t start = input.start_ns[i];
  const int64_t duration = std::max<int64_t>(input.duration_ns[i], 0);
  return {start, sum_of(start, duration), row, input.yields[i]};
}

template <class T>
T& at(std::vector<T>& tracks, const LaneInput& input, int32_t row) {
  const auto track = static_cast<size_t>(input.track[static_cast<size_t>(row)]);
  if (track >= tracks.size()) tracks.resize(track + 1);
  return tracks[track];
}

}  // namespace

std::vector<int32_t> assign_lanes(const LaneInput& input) {
  std::vector<int32_t> moved;
  std::vector<MainLane> main_lanes;
  for (size_t i = 0; i < input.order.size; ++i) {
    const int32_t row = input.order[i];
    at(main_lanes, input, row).add(span_at(input, row), moved);
  }
  if (moved.empty()) return {};

  // Those moved aside by a later span are out of order.
  std::vector<bool> is_moved(input.track.size);
  for (const int32_t row : moved) is_moved[static_cast<size_t>(row)] = true;
  std::vector<int32_t> lanes(input.track.size);
  std::vector<SideLanes> side_lanes;
  for (size_t i = 0; i < input.order.size; ++i) {
    const int32_t row = input.order[i];
    if (!is_moved[static_cast<size_t>(row)]) continue;
    lanes[static_cast<size_t>(row)] = at(side_lanes, input, row).place(span_at(input, row));
  }
  return lanes;
}

}  // namespace opscope::writers
