// Decodes Python calls: names of functions and modules, and callers.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "decode/columns.h"

namespace opscope {

// Rows of functions and instances, by their number in the process.
struct PythonRows {
  struct Frame {
    int32_t row;   // in `frames`
    int32_t name;  // in `names`: "file(line): function"
  };
  std::unordered_map<uint32_t, Frame> frames;
  std::unordered_map<uint32_t, int32_t> modules;
  std::unordered_map<uint32_t, int32_t> optimizers;
  std::unordered_map<std::string, int32_t> instances_of_class;
  std::vector<int32_t> module_names;  // by row, in `names`
};

class PythonColumnWriter {
 public:
  static constexpr uint32_t kNoFrame = UINT32_MAX;

  PythonColumnWriter(Columns& out, const Texts& texts, const std::vector<std::string>& prefixes)
      : out_(out), texts_(texts), prefixes_(prefixes) {}

  // Row in `names` for a Python or C call, module or optimizer call.
  int32_t event_name(const Record& record);
  // Adds an event just written and its parent; call it for every event, in order.
  void add_event(const Record& record, int32_t event, int32_t parent);
  // Events before `first` are already written, with `rows`.
  void go_on(PythonRows rows, int32_t first) {
    rows_ = std::move(rows);
    first_ = first;
  }
  void add_earlier(int32_t event, uint32_t function) { earlier_[event] = function; }
  PythonRows& rows() { return rows_; }
  // Python function that an event is, or runs in.
  uint32_t enclosing(int32_t event) const {
    if (event >= first_) {
      const auto row = static_cast<size_t>(event - first_);
      return row < enclosing_.size() ? enclosing_[row] : kNoFrame;
    }
    const auto found = earlier_.find(event);
    return found == earlier_.end() ? kNoFrame : found->second;
  }
  // Row in `modules` or `optimizers` of an instance; `row`: its row in the process.
  int32_t module_row(uint32_t row);
  int32_t optimizer_row(uint32_t row);
  // Row in `frames` of a function; `id`: its row in the process. -1 for none.
  int32_t frame_row(uint32_t id) { return id == kNoFrame ? -1 : frame(id).row; }

 private:
  using Frame = PythonRows::Frame;

  const Frame& frame(uint32_t id);
  // Line of an instruction in a function; -1 if either is unknown.
  int32_t line_in(uint32_t caller, int32_t offset);
  std::string_view shortened(std::string_view file) const;

  Columns& out_;
  const Texts& texts_;
  const std::vector<std::string>& prefixes_;
  PythonRows rows_;
  std::unordered_map<uint64_t, int32_t> lines_;
  int32_t first_ = 0;                              // first event of the following column
  std::vector<uint32_t> enclosing_;                // by event: Python function that it is, or runs in
  std::unordered_map<int32_t, uint32_t> earlier_;  // the same for earlier events
};

}  // namespace opscope
