// Assigns spans to lanes, so that the spans of a lane are properly nested.
//
// Perfetto and Chrome drop a slice that overlaps its parent only partly. Of two such spans one moves to
// another lane of its track: the one with the higher `yields`, otherwise the later one. So steps and
// operators stay where a Python frame overlaps them.
#include <nanobind/nanobind.h>

#include <algorithm>
#include <array>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "numpy/from_numpy.h"
#include "numpy/to_numpy.h"
#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

struct LaneInput {
  ColumnView<int32_t> track;  // small numbers from 0
  ColumnView<int64_t> start_ns;
  ColumnView<int64_t> duration_ns;
  ColumnView<uint8_t> yields;  // the overlapping span with the higher number moves
  ColumnView<int32_t> order;   // rows to place, in order of start
};

struct Span {
  int64_t start;
  int64_t end;
  int32_t row;
  uint8_t yields;
};

// Lane 0 of a track: decides which spans may stay.
class MainLane {
 public:
  // Adds a span; appends to `moved` the spans that must move: itself, or others.
  void add(const Span& span, std::vector<int32_t>& moved) {
    while (!open_.empty() && open_.back().end <= span.start) open_.pop_back();
    // Ends never increase towards the top, so spans that end before this one are the topmost.
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

// Lanes of a track from 1 on.
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
  // Ends of the open spans of a lane, outermost first, so never increasing.
  using Lane = std::vector<int64_t>;

  static bool fits(Lane& lane, const Span& span) {
    while (!lane.empty() && lane.back() <= span.start) lane.pop_back();
    return lane.empty() || span.end <= lane.back();
  }

  // Higher lanes have no nested spans: a thousand open requests would need a thousand attempts per span.
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

// Lane of each row, from 0; 0 for rows not placed. Empty if all are 0, the usual case.
std::vector<int32_t> assign_lanes(const LaneInput& input) {
  std::vector<int32_t> moved;
  std::vector<MainLane> main_lanes;
  for (size_t i = 0; i < input.order.size; ++i) {
    const int32_t row = input.order[i];
    at(main_lanes, input, row).add(span_at(input, row), moved);
  }
  if (moved.empty()) return {};

  // Spans that a later span moved are out of order.
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

nb::object place_on_lanes(nb::dict arrays, size_t tracks) {
  const NumpyColumns columns(std::move(arrays));
  const size_t n = columns.any<int64_t>("start_ns").size;
  const LaneInput input{
      .track = columns.indices<int32_t>("track", n, tracks, 0),
      .start_ns = columns.get<int64_t>("start_ns", n),
      .duration_ns = columns.get<int64_t>("duration_ns", n),
      .yields = columns.get<uint8_t>("yields", n),
      .order = columns.indices<int32_t>("order", n),
  };
  std::vector<int32_t> lanes = without_gil([&] { return assign_lanes(input); });
  return lanes.empty() ? nb::none() : opscope::to_array(std::move(lanes));
}

}  // namespace
}  // namespace opscope::writers

namespace opscope {

void bind_lanes(nb::module_& m) {
  m.def("assign_lanes", &writers::place_on_lanes, nb::arg("columns"), nb::kw_only(), nb::arg("tracks"));
}

}  // namespace opscope
