#include "account/divide.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace opscope::account {
namespace {

// Shorter pauses between torch calls leave no time for much but Python.
constexpr int64_t kShortGapNs = 1'000'000;

constexpr int64_t kFewestLeaves = 50;
constexpr double kFastest = 0.05;

constexpr Causes kLasting{Cause::kCollection, Cause::kImport, Cause::kCompilation, Cause::kDevice,
                          Cause::kIdle};

int64_t half(int64_t value) { return value >> 1; }  // rounded down, as in Python

Cause of_call(WaitsFor call) {
  switch (call) {
    case WaitsFor::kGil:
      return Cause::kGil;
    case WaitsFor::kLock:
    case WaitsFor::kProcess:
      return Cause::kLock;
    case WaitsFor::kTimer:
      return Cause::kTimer;
    case WaitsFor::kReadiness:
    case WaitsFor::kTransfer:
    case WaitsFor::kDisk:
      return Cause::kIo;
    default:
      return Cause::kUnknown;
  }
}

// Cause of the wait of a piece in a call whose span is no wait by name.
//
// The main thread waits for a backward pass that it started on another thread. A wait inside an operator
// counts as the operator (it waits for its own threads), a thread or loop without work as idle, a wait inside
// an import, compilation or collection as that. A wait for an unknown thread during a collective counts as
// the collective, as does the end of a backward pass.
Cause blocked_in(const Piece& piece, WaitsFor waits_for, bool is_main) {
  Cause call = of_call(waits_for);
  if (piece.in_pass && is_main && Causes{Cause::kLock, Cause::kUnknown}.has(call)) call = Cause::kBackward;
  if (piece.in_transfer && Causes{Cause::kLock, Cause::kUnknown}.has(call)) call = Cause::kCollective;
  if (call == Cause::kGil) return call;
  const bool is_work = piece.cause == Cause::kOperator && call != Cause::kIo;
  if (is_work || kLasting.has(piece.cause)) return piece.cause;
  return !is_main && piece.is_gap ? Cause::kIdle : call;
}

// Cause of time without recorded work: Python if the kernel says that the thread computed; torch's engine
// between the nodes of a backward pass.
//
// "Python" includes libraries that it calls; torch's own work would have been recorded. Without kernel
// counters, a long gap during a collective, or during a backward pass on another thread, counts as a wait for
// it, with all of it as the error.
Cause of_itself(const Piece& piece, bool is_sampled, bool is_main) {
  if (!piece.is_gap) return piece.cause;
  if (is_sampled) return piece.in_pass && !is_main ? Cause::kDispatch : Cause::kPython;
  if (piece.cause != Cause::kUnknown) return piece.cause;
  if (piece.in_pass && is_main) return Cause::kBackward;
  return piece.in_transfer ? Cause::kCollective : piece.cause;
}

// Visits the pieces of a thread in order, with the kernel counters of each.
template <class Take>
class Divider {
 public:
  Divider(const Task& task, const Thread& thread, Take take)
      : task_(task),
        thread_(thread),
        step_at_(task.steps),
        in_transfer_(task.transfers),
        in_pass_(task.passes),
        take_(take) {}

  void go() {
    thread_.segments.each([this](const Segment& segment) { add(segment); });
    flush();
  }

 private:
  void add(const Segment& segment) {
    const Piece piece = piece_of(segment);
    while (next_ < thread_.intervals.count && thread_.intervals.start_ns[next_] <= piece.start_ns) {
      flush();
      ++next_;
    }
    if (next_ == 0 || piece.start_ns >= thread_.intervals.end_ns) {
      flush();
      take_(piece, OffProcessor{});
    } else {
      held_.push_back(piece);
    }
  }

  void flush() {
    if (held_.empty()) return;
    const auto& off = layer_.lay_over(thread_.intervals, next_ - 1, held_);
    for (size_t i = 0; i < held_.size(); ++i) take_(held_[i], off[i]);
    held_.clear();
  }

  Piece piece_of(const Segment& segment) {
    Piece piece{segment.start_ns,
                segment.length_ns,
                segment.event,
                step_at_(segment.start_ns),
                0,
                kAsAround,
                segment.is_change,
                false,
                in_transfer_(segment.start_ns),
                in_pass_(segment.start_ns)};
    if (segment.event >= 0) piece.cause = static_cast<Cause>(task_.causes[segment.event]);
    // The caller of the engine runs the pass itself, unless a thread of the engine does.
    if (piece.cause == Cause::kBackward && !piece.in_pass) piece.cause = Cause::kDispatch;
    if (piece.cause == kAsAround) {
      piece.is_gap = true;
      piece.cause = !thread_.is_main                ? Cause::kIdle
                    : piece.length_ns < kShortGapNs ? Cause::kPython
                                                    : Cause::kUnknown;
    } else if (piece.cause == Cause::kOperator && piece.is_first) {
      piece.dispatch_ns = task_.dispatch_ns;
    }
    return piece;
  }

  const Task& task_;
  const Thread& thread_;
  StepAt step_at_;
  Within in_transfer_;
  Within in_pass_;
  Take take_;
  Layer layer_;
  std::vector<Piece> held_;  // pieces of the current interval
  size_t next_ = 0;          // first interval that begins later
};

// Divides each piece into up to six parts: cause, duration and error.
template <class TakePart>
void divide(const Task& task, const Thread& thread, TakePart take) {
  const auto parts_of = [&](const Piece& piece, const OffProcessor& off) {
    int64_t rest = piece.length_ns - off.blocked_ns - off.delayed_ns - off.faults_ns;
    const int64_t own = std::min(piece.is_first ? task.cost_ns : 0, rest);
    const int64_t dispatch = std::min(piece.dispatch_ns, rest - own);
    rest -= own + dispatch;
    const bool is_unsure = piece.is_gap && !off.is_sampled && thread.is_main;
    take(Share::kItself, piece, of_itself(piece, off.is_sampled, thread.is_main), rest, is_unsure ? rest : 0);
    if (off.is_sampled) {
      take(Share::kBlocked, piece, blocked_in(piece, off.waits_for, thread.is_main), off.blocked_ns,
           off.error_ns);
      take(Share::kDelayed, piece, Cause::kDescheduled, off.delayed_ns, off.delayed_error_ns);
      take(Share::kFaults, piece, Cause::kMemory, off.faults_ns, half(off.faults_ns));
    }
    take(Share::kRecording, piece, Cause::kProfiler, own, half(own));
    take(Share::kDispatch, piece, Cause::kDispatch, dispatch, half(dispatch));
  };
  Divider<decltype(parts_of)>(task, thread, parts_of).go();
}

}  // namespace

Sums sums_of(const Task& task, const Thread& thread) {
  Sums sums;
  sums.time_ns.resize((task.step_count + 1) * kCauses);
  sums.error_ns.resize(sums.time_ns.size());
  divide(task, thread, [&](Share share, const Piece& piece, Cause cause, int64_t time_ns, int64_t error_ns) {
    const size_t key = static_cast<size_t>(piece.step + 1) * kCauses + static_cast<size_t>(cause);
    sums.time_ns[key] += time_ns;
    sums.error_ns[key] += error_ns;
    if (share == Share::kItself && thread.is_main && !piece.is_gap) sums.busy_ns += piece.length_ns;
  });
  return sums;
}

std::vector<int64_t> sums_of_groups(const Task& task, const Thread& thread, const int32_t* group,
                                    size_t groups) {
  std::vector<int64_t> sums((groups + 1) * kCauses);
  divide(task, thread, [&](Share, const Piece& piece, Cause cause, int64_t time_ns, int64_t) {
    if (piece.step < 0 || time_ns <= 0) return;
    const size_t place = piece.event < 0 ? groups : static_cast<size_t>(group[piece.event]);
    sums[place * kCauses + static_cast<size_t>(cause)] += time_ns;
  });
  return sums;
}

CutColumns cut(const Task& task, const Thread& thread) {
  CutColumns found;
  const auto take = [&](const Piece& piece, const OffProcessor&) {
    found.start_ns.push_back(piece.start_ns);
    found.length_ns.push_back(piece.length_ns);
    found.event.push_back(piece.event);
    found.cause.push_back(static_cast<int64_t>(piece.cause));
    found.is_gap.push_back(piece.is_gap);
  };
  Divider<decltype(take)>(task, thread, take).go();
  return found;
}

PiecesByShare pieces_of(const Task& task, const Thread& thread, const Causes& wanted) {
  PiecesByShare found;
  divide(task, thread, [&](Share share, const Piece& piece, Cause cause, int64_t time_ns, int64_t) {
    if (time_ns <= 0 || !wanted.has(cause)) return;
    PieceColumns& columns = found[static_cast<size_t>(share)];
    columns.step.push_back(piece.step);
    columns.event.push_back(piece.event);
    columns.cause.push_back(static_cast<int64_t>(cause));
    columns.time_ns.push_back(time_ns);
    columns.start_ns.push_back(piece.start_ns);
    columns.end_ns.push_back(piece.start_ns + piece.length_ns);
  });
  return found;
}

double OperatorLengths::at(int64_t number) const {
  for (size_t length = 0; length < counts_.size(); ++length) {
    number -= counts_[length];
    if (number < 0) return static_cast<double>(length);
  }
  return static_cast<double>(next_longer_);
}

int64_t OperatorLengths::dispatch_ns() const {
  if (count_ < kFewestLeaves) return 0;
  // Interpolates as np.percentile does.
  const double place = static_cast<double>(count_ - 1) * kFastest;
  const double share = place - std::floor(place);
  const auto first = static_cast<int64_t>(place);
  const double shorter = at(first);
  const double longer = at(std::min(first + 1, count_ - 1));
  const double apart = longer - shorter;
  const double length = share < 0.5 ? shorter + apart * share : longer - apart * (1 - share);
  return length < static_cast<double>(kMostDispatchNs) ? static_cast<int64_t>(length) : kMostDispatchNs;
}

}  // namespace opscope::account
