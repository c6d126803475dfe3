// Decoding: the records of one closed window become the columns of trace/schema.py.
//
// Runs once per window, without the GIL, while threads may go on recording for other windows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "log/recorder.h"
#include "schema/tables.h"

namespace opscope {

// What the records of Python calls mean; the decoder itself knows no Python. [MT]
class PythonNames {
 public:
  struct Function {
    std::string file;
    std::string function;
    int32_t line;
  };
  struct Instance {
    uint64_t address;
    uint64_t class_address;
    std::string class_name;
  };
  virtual ~PythonNames() = default;
  virtual Function function(uint32_t frame) = 0;
  virtual int32_t line_at(uint32_t frame, int32_t offset) = 0;
  virtual Instance module(uint32_t row) = 0;
  virtual Instance optimizer(uint32_t row) = 0;
  virtual uint32_t module_frame() = 0;  // the frame behind module calls
};

// Text once per trace, in order of first use.
class LocalNames {
 public:
  int32_t add(std::string_view text);
  // The text of a name of the process, copied on first use; -1 for kNoName.
  int32_t add_global(NameTable& names, uint32_t id);
  int32_t overload_of(NameTable& names, uint32_t id);

  std::string text(int32_t row) const { return blob.substr(offsets[row], offsets[row + 1] - offsets[row]); }

  std::string blob;
  std::vector<int64_t> offsets{0};

 private:
  struct Global {
    int32_t text = -2;  // -2: not looked up yet
    int32_t overload = -1;
  };
  Global& global(NameTable& names, uint32_t id);

  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Global> globals_;
};

struct Columns : RecordedTables {
  LocalNames names;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t clock_jumped_ns = 0;  // see WindowClock
  int64_t clock_set_by_ns = 0;
  Drops dropped;                  // no memory left for them
  uint64_t recorded_threads = 0;  // that recorded anything
  uint64_t unheard_threads = 0;   // of them, those with spans whose memory went to somebody else
  uint64_t unheard_frees = 0;     // of memory that was allocated in the window; those that could be told
  uint64_t unmatched_ends = 0;    // ends whose span this window did not see
  uint64_t cut_payloads = 0;      // spans whose arguments could not be kept
};

// `python` may be nullptr where no Python calls were recorded. `prefixes`: folders to leave out of
// the names of Python functions, tried in order.
Columns decode_window(Recorder& recorder, const Window& window, PythonNames* python,
                      const std::vector<std::string>& prefixes);

}  // namespace opscope
