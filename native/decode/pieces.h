// Decodes a window in pieces while it is open. Each piece has the records up to a time; the rows of all
// pieces together equal those of the whole window.
//
// A piece of a thread is a range of its log. Spans are carried on to the next piece if later records may be
// inside them or their end is unknown. Their rows are already written; later changes go to `Columns::late`.
//
// One difference: a span inside an annotation that outlived its function has the parent from the stack if the
// annotation ends in a later piece.
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

// State of a thread at the end of its last piece.
struct CarriedThread {
  struct Facts {
    uint64_t number = 0;
    uint64_t native_thread = 0;
    int64_t system_thread_id = 0;
    uint64_t end = 0;  // log index: records before it are decoded
    int64_t next_root = 0;
    int32_t row = kNone;   // in `threads`
    bool has_log = false;  // false: it only ran Python functions from before
    bool is_new = true;    // as in ThreadSpans
  };
  Facts facts;
  std::vector<CarriedSpan> spans;
  std::vector<CarriedPlace> places;
};

// State at the end of the last piece.
struct PieceState {
  std::optional<WindowClock> clock;
  int64_t latest_start_ns = INT64_MIN;
  int32_t events = 0;  // number of written rows
  int32_t threads_written = 0;
  uint64_t unmatched_ends = 0;
  uint64_t cut_payloads = 0;
  std::deque<CarriedThread> threads;
  LocalNames names;
  PythonRows python;
  std::set<std::pair<Owner, uint32_t>> parameters_read;

  // Without the names, which are in the files of the pieces.
  std::string bytes() const;
  // Requires `names`. Raises Damage if the bytes are invalid or contain an impossible number.
  void restore(std::string_view bytes);

  // Log index up to which a thread's records are decoded; 0 for an unknown thread.
  uint64_t position(uint64_t thread) const;
  // End of each thread's decoded part, and log indices of earlier spans whose records may still get an end.
  DrainedParts drained() const;
};

class Piece {
 public:
  // `until`: in ticks; UINT64_MAX for all records, as the last piece.
  Piece(PieceState& state, const LogView& log, uint64_t until);

  PieceState& state() { return state_; }
  // End of the piece in this thread's log.
  uint64_t end_of(const ThreadView& view) const;

  // For the decoder, in this order. Returns the start of the last earlier event.
  int64_t go_on(Columns& out, PythonColumnWriter& python, int64_t start_ns);
  // False for a new thread.
  bool restore(ThreadSpans& thread, const ThreadView& view);
  bool restore_idle(ThreadSpans& thread, const InitialStack& stack);
  // Adds a record of this piece; `around`: ordinal of the span that it is, or is inside of.
  void meet(ThreadSpans& thread, const Record& record, uint64_t index, int32_t around);
  int32_t thread_row(const ThreadSpans& thread, Columns& out);
  // Whether later records may be inside this span or end it.
  bool continues(const ThreadSpans& thread, size_t i, const Ends& ends);
  void amend(const ThreadSpans& thread, size_t i, const WrittenRow& row, Columns& out) const;
  void carry_on(const ThreadSpans& thread, size_t i, const WrittenRow& row, const PythonColumnWriter& python);
  // Removes a complete span: the parent of its children is its own parent.
  void release(const ThreadSpans& thread, size_t i);
  void end(const std::deque<ThreadSpans>& threads, Columns& out, PythonColumnWriter& python,
           int64_t latest_start_ns);

 private:
  struct OpenPlace {
    CarriedPlace place;
    uint64_t index;
  };
  struct Carried {
    size_t left = 0;  // spans so far that have left the stack
    std::vector<CarriedSpan> spans;
    std::vector<int32_t> places;  // by ordinal: index in `spans`, or that of the nearest parent
    std::vector<OpenPlace> open;
  };

  void fill(ThreadSpans& thread, const CarriedThread& known, const ThreadView* view);
  size_t too_many_left(const ThreadSpans& thread) const;
  Carried& handed(const ThreadSpans& thread);
  void keep_places(const ThreadSpans& thread, const Carried& handed, CarriedThread& known) const;
  void write_threads(Columns& out) const;

  PieceState& state_;
  const LogView& log_;
  const uint64_t until_;
  size_t names_before_ = 0;
  std::vector<uint64_t> ends_;  // by index of the thread in the view
  std::deque<Carried> handed_;  // by index of the thread in the state
};

}  // namespace opscope
