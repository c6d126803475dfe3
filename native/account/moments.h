// Time of one thread in pieces, each in one step and with one initial cause. Pieces are visited one by one
// and not stored: a trace of a million events has two million.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

#include "nesting/line_sweep.h"
#include "schema/codes.h"

namespace opscope::account {

// Possible causes of an instant: opscope.columns.causes.Cause, and sets of them.
inline constexpr size_t kCauses = std::size(kAllCauses);

// An event without a cause of its own; no instant has this value. It is -1 in columns of causes.
inline constexpr auto kAsAround = static_cast<Cause>(-1);

class Causes {
 public:
  constexpr Causes(std::initializer_list<Cause> members) {
    for (const Cause one : members) add(one);
  }
  constexpr bool is_empty() const { return bits_ == 0; }
  constexpr void add(Cause one) { bits_ |= 1U << static_cast<int>(one); }
  constexpr bool has(Cause one) const {
    return one != kAsAround && (bits_ >> static_cast<int>(one) & 1U) != 0;
  }

 private:
  uint32_t bits_ = 0;
};

// Whether a thread with this cause is expected to be off CPU.
inline bool waits(Cause cause) {
  for (const uint32_t one : kWaits) {
    if (one == cause) return true;
  }
  return false;
}

struct Stretches {        // disjoint, in order
  const int64_t* bounds;  // begin and end of stretch i at 2 * i and 2 * i + 1
  size_t count;
};

struct Steps {  // in order of start
  const int64_t* start_ns;
  const int64_t* end_ns;
  size_t count;
};

struct Segment {
  int64_t start_ns;
  int64_t length_ns;
  int64_t event;   // innermost span, -1 for none
  bool is_change;  // a span begins or ends at its start
};

// Consecutive segments between two moments, stored because they are visited several times.
class Segments {
 public:
  template <class Take>
  void each(Take take) const {
    for (size_t i = 0; i < packed_.size(); ++i) {
      take(Segment{start_ns_[i], start_ns_[i + 1] - start_ns_[i], int64_t{packed_[i] >> 1} - 1,
                   (packed_[i] & 1) != 0});
    }
  }

 private:
  template <class Made>
  friend class SegmentBuilder;

  std::vector<int64_t> start_ns_;  // and the end of the last segment
  std::vector<uint32_t> packed_;   // event + 1, and whether the segment begins with a change
};

// Takes moments, in order, at which the innermost span changes; cuts end segments too. Calls made(event,
// length_ns) for each segment.
template <class Made>
class SegmentBuilder {
 public:
  SegmentBuilder(const int64_t* cuts, size_t count, int64_t start_ns, int64_t end_ns, size_t moments,
                 Made made)
      : made_(made),
        cut_(std::upper_bound(cuts, cuts + count, start_ns)),
        last_cut_(std::lower_bound(cuts, cuts + count, end_ns)),
        start_ns_(start_ns),
        end_ns_(end_ns),
        open_since_(start_ns) {
    found_.start_ns_.reserve(moments + count + 2);
    found_.packed_.reserve(moments + count + 1);
  }

  void change(int64_t moment, int64_t event) {
    moment = std::min(std::max(moment, start_ns_), end_ns_);
    cut_until(moment);
    while (cut_ < last_cut_ && *cut_ == moment) ++cut_;
    if (open_since_ != moment) begin(moment);
    packed_ = static_cast<uint32_t>(event + 1) << 1 | 1;
  }

  Segments finish() {
    cut_until(end_ns_);
    if (open_since_ < end_ns_) begin(end_ns_);
    found_.start_ns_.push_back(end_ns_);
    return std::move(found_);
  }

 private:
  void cut_until(int64_t moment) {
    for (; cut_ < last_cut_ && *cut_ < moment; ++cut_) {
      if (open_since_ == *cut_) continue;
      begin(*cut_);
      packed_ &= ~uint32_t{1};
    }
  }
  void begin(int64_t moment) {
    made_(int64_t{packed_ >> 1} - 1, moment - open_since_);
    found_.start_ns_.push_back(open_since_);
    found_.packed_.push_back(packed_);
    open_since_ = moment;
  }

  Made made_;
  const int64_t* cut_;
  const int64_t* last_cut_;
  int64_t start_ns_;
  int64_t end_ns_;
  int64_t open_since_;   // begin of the current segment
  uint32_t packed_ = 1;  // and its stored form
  Segments found_;
};

// Segments of a line's spans, with rows of the table as events; calls made(event, length_ns) for each.
template <class Made>
Segments segments_of(const nesting::LineSpans& spans, const int64_t* cuts, size_t count, int64_t start_ns,
                     int64_t end_ns, Made made) {
  SegmentBuilder<Made> builder(cuts, count, start_ns, end_ns, 2 * spans.count, made);
  nesting::sweep(
      spans,
      [&](int64_t row, int64_t) {
        if (spans.took_ns[row] > 0) builder.change(spans.start_ns[row], row);
      },
      [&](int64_t, int64_t moment, int64_t around) { builder.change(moment, around); });
  return builder.finish();
}

// Membership of increasing moments in stretches.
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

// Step of increasing moments; -1 for none.
class StepAt {
 public:
  explicit StepAt(const Steps& steps) : steps_(steps) {}

  int64_t operator()(int64_t moment) {
    while (next_ < steps_.count && steps_.start_ns[next_] <= moment) ++next_;
    return next_ > 0 && moment < steps_.end_ns[next_ - 1] ? static_cast<int64_t>(next_) - 1 : -1;
  }

 private:
  Steps steps_;
  size_t next_ = 0;
};

struct Piece {
  int64_t start_ns;
  int64_t length_ns;
  int64_t event;
  int64_t step;         // -1 outside of steps
  int64_t dispatch_ns;  // dispatch cost within an operator
  Cause cause;          // initial cause, before kernel counters are applied
  bool is_first;        // a span begins or ends at its start
  bool is_gap;          // no recorded event ran, except annotations
  bool in_transfer;     // a transfer between ranks was in progress
  bool in_pass;         // a backward pass was running on another thread
};

}  // namespace opscope::account
