// Kernel counters of a thread between two samples, assigned to the pieces of its time in between.
//
// The assignment is exact if there is one piece or if the whole interval was off CPU. Otherwise waits in
// calls go to the longest calls, and waits for a CPU to all pieces in proportion; time that may belong
// elsewhere is the error.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "account/moments.h"
#include "schema/codes.h"

namespace opscope::account {

// Columns of the intervals between consecutive samples, as in opscope.analysis.account.processor.Intervals.
struct Intervals {
  const int64_t* start_ns;
  int64_t end_ns;
  const int64_t* delayed_ns;
  const int64_t* blocked_ns;
  const int64_t* faults_ns;
  const int64_t* waits_for;
  const bool* is_seen;
  const int64_t* waits_for_beside;
  const bool* is_seen_beside;
  size_t count = 0;
};

// Parts of a piece with another cause than the initial one.
struct OffProcessor {
  int64_t delayed_ns = 0;  // waiting for a CPU
  int64_t blocked_ns = 0;  // waiting in a call, for pieces that are no wait by name
  int64_t faults_ns = 0;   // page faults
  int64_t error_ns = 0;    // part of blocked_ns that may belong to other pieces or causes
  int64_t delayed_error_ns = 0;
  WaitsFor waits_for = WaitsFor::kNothing;  // reason of blocked_ns
  bool is_sampled = false;
};

// Assigns an amount to pieces with room for it, the longest first: a thread that waited once between two
// samples probably did so in its longest call. Adds each part to `given` and its error to `error`.
class LongestFirst {
 public:
  void share_out(double amount, const std::vector<double>& room, std::vector<double>& given,
                 std::vector<double>& error) {
    if (!(amount > 0)) return;
    order_.clear();
    for (size_t i = 0; i < room.size(); ++i) {
      if (room[i] > 0) order_.push_back(i);
    }
    std::stable_sort(order_.begin(), order_.end(), [&](size_t a, size_t b) { return room[a] > room[b]; });
    double weight = 0;
    for (const size_t i : order_) weight += room[i] * room[i];
    double before = 0;
    for (const size_t i : order_) {
      const double got = std::min(std::max(amount - before, 0.0), room[i]);
      before += room[i];
      given[i] += got;
      error[i] += got * (1 - room[i] * room[i] / weight);
    }
  }

 private:
  std::vector<size_t> order_;
};

class Layer {
 public:
  // Off-CPU time of the pieces of one interval.
  const std::vector<OffProcessor>& lay_over(const Intervals& intervals, size_t interval,
                                            const std::vector<Piece>& pieces) {
    const size_t count = pieces.size();
    const int64_t until =
        interval + 1 < intervals.count ? intervals.start_ns[interval + 1] : intervals.end_ns;
    const auto took = static_cast<double>(until - intervals.start_ns[interval]);
    double inside = 0;
    for (const Piece& piece : pieces) inside += static_cast<double>(piece.length_ns);
    // Share of the interval that pieces cover: the rest of the off-CPU time lies outside of them.
    const double covered = std::min(inside / std::max(took, 1.0), 1.0);
    look_at(intervals, interval, pieces);
    double left = covered * static_cast<double>(intervals.blocked_ns[interval]);
    left = std::max(left - named_, 0.0);
    unnamed_.assign(count, 0.0);
    error_.assign(count, 0.0);
    longest_first_.share_out(left, elsewhere_, unnamed_, error_);
    double given = 0;
    for (const double one : unnamed_) given += one;
    left = std::max(left - given, 0.0);
    // Operators get only what nothing else can have.
    longest_first_.share_out(left, in_operators_, unnamed_, error_);
    spread(covered * static_cast<double>(intervals.delayed_ns[interval]),
           covered * static_cast<double>(intervals.faults_ns[interval]));
    return found_;
  }

 private:
  // Pieces that are waits by name get as much of the wait as they can hold; other pieces get the rest.
  void look_at(const Intervals& intervals, size_t interval, const std::vector<Piece>& pieces) {
    const size_t count = pieces.size();
    found_.assign(count, {});
    is_seen_.resize(count);
    for (auto* one : {&free_, &elsewhere_, &in_operators_}) one->assign(count, 0.0);
    named_ = 0;
    for (size_t i = 0; i < count; ++i) {
      const Piece& piece = pieces[i];
      const int64_t* kinds = piece.in_transfer ? intervals.waits_for : intervals.waits_for_beside;
      found_[i].waits_for = static_cast<WaitsFor>(kinds[interval]);
      found_[i].is_sampled = true;
      is_seen_[i] = (piece.in_transfer ? intervals.is_seen : intervals.is_seen_beside)[interval];
      // A thread whose wait is over may then wait for the GIL, which only the kernel shows.
      const bool for_gil = is_seen_[i] && found_[i].waits_for == WaitsFor::kGil;
      const auto length = static_cast<double>(piece.length_ns);
      if (waits(piece.cause) && !for_gil) {
        named_ += length;
        continue;
      }
      free_[i] = length;
      (piece.cause == Cause::kOperator ? in_operators_ : elsewhere_)[i] = length;
    }
  }

  // Any thread loses its CPU from time to time.
  void spread(double delayed, double faults) {
    const size_t count = free_.size();
    room_.resize(count);
    double total = 0;
    for (size_t i = 0; i < count; ++i) total += room_[i] = free_[i] - unnamed_[i];
    total = std::max(total, 1e-9);
    const double share = std::min(delayed / total, 1.0);
    double rest = 0;
    for (size_t i = 0; i < count; ++i) {
      const double own = share * room_[i];
      found_[i].blocked_ns = static_cast<int64_t>(unnamed_[i]);
      found_[i].error_ns = static_cast<int64_t>(is_seen_[i] ? error_[i] : unnamed_[i]);
      found_[i].delayed_ns = static_cast<int64_t>(own);
      found_[i].delayed_error_ns = static_cast<int64_t>(own * (1 - room_[i] / total));
      room_[i] = std::max(free_[i] - unnamed_[i] - own, 0.0);
      rest += room_[i];
    }
    const double of_rest = std::min(faults / std::max(rest, 1e-9), 1.0);
    for (size_t i = 0; i < count; ++i) found_[i].faults_ns = static_cast<int64_t>(of_rest * room_[i]);
  }

  LongestFirst longest_first_;
  std::vector<OffProcessor> found_;
  std::vector<double> free_, elsewhere_, in_operators_, unnamed_, error_, room_;
  std::vector<uint8_t> is_seen_;
  double named_ = 0;
};

}  // namespace opscope::account
