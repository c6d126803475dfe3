// Decodes the records of one closed window to the columns of columns/schema.py.
//
// Runs without the GIL, even while threads record for other windows, or in another process.
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

// Each text once per trace, in order of first use.
class LocalNames {
 public:
  int32_t add(std::string_view text);
  // Row of a name of the process; adds its text on first use.
  int32_t add_global(const Texts& texts, uint32_t id);
  // -1 for none.
  int32_t overload_of(const Texts& texts, uint32_t id);

  size_t size() const { return offsets.size() - 1; }
  // Rows from `first` on, renumbered from 0.
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
  std::vector<WrittenRow> late;  // of a piece: updated rows of earlier pieces
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t end_monotonic_ns = 0;  // same time as end_ns, by a clock that all processes share
  int64_t clock_jumped_ns = 0;   // see WindowClock
  int64_t clock_set_by_ns = 0;
  Drops dropped;                  // records lost for lack of memory
  uint64_t recorded_threads = 0;  // threads with records
  uint64_t unreported_frees =
      0;  // missing frees of memory allocated in the window, as far as they are detectable
  uint64_t unmatched_ends = 0;  // ends whose span this window does not have
  uint64_t cut_payloads = 0;    // spans whose arguments were lost
};

// `prefixes`: folders to remove from names of Python functions, tried in order.
Columns decode_window(const LogView& log, const std::vector<std::string>& prefixes);

class Piece;

// Decodes one piece of a window (pieces.h); its rows follow those of the piece before.
Columns decode_piece(const LogView& log, const std::vector<std::string>& prefixes, Piece& piece);

}  // namespace opscope
