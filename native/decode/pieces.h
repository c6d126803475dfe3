// Decoding a window in pieces, while it goes on: each piece has the records up to a moment, and the rows of
// all pieces together are those of the whole window.
//
// A thread's piece is the records between two places in its log. What runs when a piece ends is handed on to
// the next: spans that something later may lie in, or whose end is not known. Their rows are written already,
// so that what becomes known of them later is said once more (`Columns::late`).
//
// One thing is not as if all was decoded at once: what ran in an annotation that had outlived the function it
// began in is there, if its end comes in a later piece, with the parent that the stack had.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/columns.h"
#include "decode/python_columns.h"
#include "decode/spans.h"
#include "decode/window_clock.h"
#include "log/log_view.h"

namespace opscope {

inline WindowClock clock_of(const LogView& log) {
  return WindowClock(log.origin, log.window.started, log.window.stopped, log.recent_rate);
}

// What is known of a thread where its last piece ended.
struct CarriedThread {
  struct Facts {
    uint64_t number = 0;
    uint64_t native_thread = 0;
    int64_t system_thread_id = 0;
    uint64_t end = 0;  // log index: what comes before it is decoded
    int64_t next_root = 0;
    int32_t row = kNone;   // in `threads`
    bool has_log = false;  // otherwise it only sat in Python
    bool is_new = true;    // as of ThreadSpans
  };
  Facts facts;
  std::vector<CarriedSpan> spans;
  std::vector<CarriedPlace> places;
};

// What is known where the last piece ended.
struct PieceState {
  std::optional<WindowClock> clock;
  int64_t latest_start_ns = INT64_MIN;
  int32_t events = 0;  // rows that are written
  int32_t threads_written = 0;
  uint64_t unmatched_ends = 0;
  uint64_t cut_payloads = 0;
  std::deque<CarriedThread> threads;
  LocalNames names;
  PythonRows python;
  std::set<std::pair<Owner, uint32_t>> parameters_read;

  // All but the names, which are in the files of the pieces.
  std::string bytes() const;
  // `names` must be there. Raises Damage where the bytes are none, or hold a number that cannot be.
  void restore(std::string_view bytes);

  // Log index from which on a thread's records are not decoded; 0 for one that is not known.
  uint64_t position(uint64_t thread) const;
  // Where the decoded part of each thread ends, and the log indices before that of spans whose end may be
  // written to their record still.
  DrainedParts drained() const;
};

class Piece {
 public:
  // Up to `until`, in ticks; all there is, as the last piece, with UINT64_MAX.
  Piece(PieceState& state, const LogView& log, uint64_t until);

  PieceState& state() { return state_; }
  // Where the piece ends in this thread's log.
  uint64_t end_of(const ThreadView& view) const;

  // For the decoder, in this order. Returns when the last event before it began.
  int64_t go_on(Columns& out, PythonColumnWriter& python, int64_t start_ns);
  // False for a thread that was not known before.
  bool restore(ThreadSpans& thread, const ThreadView& view);
  bool restore_idle(ThreadSpans& thread, const InitialStack& stack);
  // A record of this piece; `around`: the ordinal of the span it is or is inside of.
  void meet(ThreadSpans& thread, const Record& record, uint64_t index, int32_t around);
  int32_t thread_row(const ThreadSpans& thread, Columns& out);
  // May something later be in this span, or its end be noted later?
  bool goes_on(const ThreadSpans& thread, size_t i, const Ends& ends);
  void amend(const ThreadSpans& thread, size_t i, const WrittenRow& row, Columns& out) const;
  void hand_on(const ThreadSpans& thread, size_t i, const WrittenRow& row, const PythonColumnWriter& python);
  // Of one that does not go on: what lies in it lies in what is around it.
  void let_go(const ThreadSpans& thread, size_t i);
  void end(const std::deque<ThreadSpans>& threads, Columns& out, PythonColumnWriter& python,
           int64_t latest_start_ns);

 private:
  struct OpenPlace {
    CarriedPlace place;
    uint64_t index;
  };
  struct Handed {
    size_t left = 0;  // spans that have left the stack so far
    std::vector<CarriedSpan> spans;
    std::vector<int32_t> places;  // by ordinal: place in the list, or of the nearest around it
    std::vector<OpenPlace> open;
  };

  void fill(ThreadSpans& thread, const CarriedThread& known, const ThreadView* view);
  size_t too_many_left(const ThreadSpans& thread) const;
  Handed& handed(const ThreadSpans& thread);
  void keep_places(const ThreadSpans& thread, const Handed& handed, CarriedThread& known) const;
  void write_threads(Columns& out) const;

  PieceState& state_;
  const LogView& log_;
  const uint64_t until_;
  size_t names_before_ = 0;
  std::vector<uint64_t> ends_;  // by place of the thread in the view
  std::deque<Handed> handed_;   // by number of the thread in the state
};

}  // namespace opscope
