// The time of one thread in pieces, each of one step and one cause at first, one after the other and without
// keeping them: a trace of a million events has two million.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "account/cause.h"
#include "nesting/line_sweep.h"

namespace opscope::account {

struct Stretches {        // disjoint, in order
  const int64_t* bounds;  // of stretch i, when it begins and ends: 2 * i and 2 * i + 1
  size_t count;
};

struct Steps {  // in order of start
  const int64_t* start_ns;
  const int64_t* end_ns;
  const int64_t* row;  // of each its number
  size_t count;
};

struct Segment {
  int64_t start_ns;
  int64_t length_ns;
  int64_t event;   // the innermost span, -1 for none
  bool is_change;  // a span begins or ends where it starts
};

// Takes moments at which the innermost span becomes another, in order, and hands on the segments between
// two moments, which end at cuts, too.
template <class Take>
class SegmentStream {
 public:
  SegmentStream(const int64_t* cuts, size_t count, int64_t start_ns, int64_t end_ns, Take take)
      : cut_(std::upper_bound(cuts, cuts + count, start_ns)),
        last_cut_(std::lower_bound(cuts, cuts + count, end_ns)),
        start_ns_(start_ns),
        end_ns_(end_ns),
        take_(take),
        open_{start_ns, 0, -1, true} {}

  void change(int64_t moment, int64_t event) {
    moment = std::min(std::max(moment, start_ns_), end_ns_);
    cut_until(moment);
    while (cut_ < last_cut_ && *cut_ == moment) ++cut_;
    if (open_.start_ns != moment) begin(moment);
    open_.event = event;
    open_.is_change = true;
  }

  void finish() {
    cut_until(end_ns_);
    if (open_.start_ns < end_ns_) begin(end_ns_);
  }

 private:
  void cut_until(int64_t moment) {
    for (; cut_ < last_cut_ && *cut_ < moment; ++cut_) {
      if (open_.start_ns == *cut_) continue;
      begin(*cut_);
      open_.is_change = false;
    }
  }
  void begin(int64_t moment) {
    open_.length_ns = moment - open_.start_ns;
    take_(open_);
    open_.start_ns = moment;
  }

  const int64_t* cut_;
  const int64_t* last_cut_;
  int64_t start_ns_;
  int64_t end_ns_;
  Take take_;
  Segment open_;
};

// Hands the segments of a line's spans to `take`, with rows of the table as events.
template <class Take>
void segments(const nesting::LineSpans& spans, const int64_t* cuts, size_t count, int64_t start_ns,
              int64_t end_ns, Take take) {
  SegmentStream<Take> stream(cuts, count, start_ns, end_ns, take);
  std::vector<int64_t> around(spans.count);  // of every span, as a row
  const auto row_of = [&](int64_t place) {
    return place < 0 ? -1 : static_cast<int64_t>(spans.row_of(static_cast<size_t>(place)));
  };
  nesting::sweep(
      spans,
      [&](size_t place, int64_t found) {
        around[place] = row_of(found);
        if (spans.took(place) > 0) stream.change(spans.start(place), row_of(static_cast<int64_t>(place)));
      },
      [&](size_t place, int64_t moment) { stream.change(moment, around[place]); });
  stream.finish();
}

// Which of some moments, each at or after the one before, are within one of the stretches.
class Within {
 public:
  explicit Within(const Stretches& stretches) : stretches_(stretches) {}

  bool operator()(int64_t moment) {
    while (next_ < stretches_.count && stretches_.bounds[2 * next_] <= moment) ++next_;
    return next_ > 0 && moment < stretches_.bounds[2 * next_ - 1];
  }

 private:
  Stretches stretches_;
  size_t next_ = 0;
};

// Which step each of such moments is in, by its number; -1 for none.
class StepAt {
 public:
  explicit StepAt(const Steps& steps) : steps_(steps) {}

  int64_t operator()(int64_t moment) {
    while (next_ < steps_.count && steps_.start_ns[next_] <= moment) ++next_;
    return next_ > 0 && moment < steps_.end_ns[next_ - 1] ? steps_.row[next_ - 1] : -1;
  }

 private:
  Steps steps_;
  size_t next_ = 0;
};

struct Piece {
  int64_t start_ns;
  int64_t length_ns;
  int64_t event;
  int64_t step;         // -1 outside of all
  int64_t dispatch_ns;  // of the time of an operator, what calling any takes
  Cause cause;          // before anything is known of the processor
  bool is_first;        // a span begins or ends where it starts
  bool is_gap;          // nothing that was recorded ran there, but perhaps annotations
  bool in_transfer;     // a transfer between ranks was under way
};

}  // namespace opscope::account
