// Decoding: the records of one closed window become the columns of columns/schema.py.
//
// Runs without the GIL, while threads may go on recording for other windows, or where they never ran.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "decode/spans.h"
#include "log/log_view.h"
#include "schema/tables.h"

namespace opscope {

// Text once per trace, in order of first use.
class LocalNames {
 public:
  int32_t add(std::string_view text);
  // The text of a name of the process, copied on first use.
  int32_t add_global(const Texts& texts, uint32_t id);
  // -1 where it has none.
  int32_t overload_of(const Texts& texts, uint32_t id);

  size_t size() const { return offsets.size() - 1; }
  // Those from row `first` on, as rows from 0 on.
  LocalNames from(size_t first) const;

  std::string text(int32_t row) const { return blob.substr(offsets[row], offsets[row + 1] - offsets[row]); }

  std::string blob;
  std::vector<int64_t> offsets{0};

 private:
  struct Global {
    int32_t text = -2;  // -2: not looked up yet
    int32_t overload = -1;
  };
  Global global(const Texts& texts, uint32_t id);

  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Global> globals_;
};

struct Columns : RecordedTables {
  LocalNames names;
  std::vector<WrittenRow> late;  // of a piece: rows of pieces before, as they are known to be now
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t end_monotonic_ns = 0;  // the same moment as end_ns, by a clock that all processes share
  int64_t clock_jumped_ns = 0;   // see WindowClock
  int64_t clock_set_by_ns = 0;
  Drops dropped;                  // no memory left for them
  uint64_t recorded_threads = 0;  // that recorded anything
  uint64_t unheard_frees = 0;     // of memory that was allocated in the window; those that could be told
  uint64_t unmatched_ends = 0;    // ends whose span this window did not see
  uint64_t cut_payloads = 0;      // spans whose arguments could not be kept
};

// `prefixes`: folders to leave out of the names of Python functions, tried in order.
Columns decode_window(const LogView& log, const std::vector<std::string>& prefixes);

class Piece;

// One piece of a window (pieces.h): rows go on where those of the piece before ended.
Columns decode_piece(const LogView& log, const std::vector<std::string>& prefixes, Piece& piece);

}  // namespace opscope
