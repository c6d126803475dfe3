// Table of Python functions: gives each a number and describes it in the journal when first seen.
//
// [GIL] Everything here; without a GIL, threads use it concurrently. It creates no Python object, so it is
// usable while threads are stopped.
#pragma once

#include <Python.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpreter/free_threads.h"

namespace opscope {

// Special ids instead of rows, for code that is not recorded as a plain call.
constexpr uint32_t kHiddenFrame = UINT32_MAX;         // code of opscope
constexpr uint32_t kModuleFrame = UINT32_MAX - 1;     // nn.Module.__call__: recorded as the module
constexpr uint32_t kOptimizerFrame = UINT32_MAX - 2;  // runs once per optimizer step
constexpr uint32_t kProgramFrame = UINT32_MAX - 3;    // opscope's function that runs the program
constexpr uint32_t kSkippedFrame = UINT32_MAX - 4;    // a library's, if only the program's are wanted
constexpr uint32_t kFirstSpecialFrame = kSkippedFrame;

// Patterns of the files of installed libraries (base/program_files.py).
struct LibraryFiles {
  std::vector<std::string> marks;     // substrings of file names
  std::vector<std::string> endings;   // suffixes of file names
  std::vector<std::string> recorded;  // library functions that wait or import, as in "queue.py:get"
};

class FrameTable {
 public:
  // Never records code in this folder or its callees. Exceptions: `shown_file`, which wraps the program's
  // functions, and callees of `program_file`, which runs the program.
  void hide_files_under(std::string folder, std::string shown_file, std::string program_file) {
    const TablesLock lock;
    hidden_folder_ = std::move(folder);
    shown_file_ = std::move(shown_file);
    program_file_ = std::move(program_file);
  }
  void set_libraries(LibraryFiles libraries) {
    const TablesLock lock;
    libraries_ = std::move(libraries);
  }
  // Skips code of libraries, but records its callees. Exceptions: functions that wait or import, so that
  // their time is not the caller's; and functions that the program calls, whose caller is a line of the
  // program.
  void skip_libraries(bool skip) {
    const TablesLock lock;
    if (skips_libraries_ == skip) return;
    skips_libraries_ = skip;
    ++epoch_;
  }
  static bool skips_libraries() { return skips_libraries_; }
  // Never released; nullptr for none.
  void set_module_code(PyCodeObject* code) {
    const TablesLock lock;
    module_code_ = kept(code);
  }
  void set_optimizer_code(PyCodeObject* code) {
    const TablesLock lock;
    optimizer_code_ = kept(code);
  }

  // Row of the table, or a special id.
  uint32_t intern(PyCodeObject* code);
  // Row of skipped code for calls by the program; kSkippedFrame if not wanted.
  uint32_t intern_called(PyCodeObject* code);
  // Whether events of skipped code are worth their cost: the program has called it, or it has rarely run.
  bool may_be_called(PyCodeObject* code) {
    const TablesLock lock;
    return may_be_called_now(entry_of(code));
  }
  // The same, after the code has begun once more.
  bool may_be_called_again(PyCodeObject* code, bool by_program) {
    const TablesLock lock;
    Known& known = entry_of(code);
    if (!may_be_called_now(known)) return false;
    known.is_called |= by_program;
    if (!known.is_called) ++known.begins;
    return may_be_called_now(known);
  }
  // Counts starts of skipped code from zero, so that events of all code are enabled again.
  void reset_disabled_events() {
    const TablesLock lock;
    for (auto& [code, known] : by_code_) known.begins = 0;
  }
  // False for library functions that are recorded although libraries are skipped.
  bool is_of_program(uint32_t row) const {
    const TablesLock lock;
    return is_of_program_now(row);
  }
  // Row of the table, also for library or special code.
  uint32_t plain_row(PyCodeObject* code);
  // Table rows of the code with kModuleFrame and kOptimizerFrame.
  uint32_t module_row() {
    const TablesLock lock;
    return row_once(module_code_, module_row_);
  }
  uint32_t optimizer_row() {
    const TablesLock lock;
    return row_once(optimizer_code_, optimizer_row_);
  }

  // Empties the table and releases all code objects; no window may refer to it any more. A new `epoch` makes
  // threads drop their caches.
  void forget();
  uint64_t epoch() const { return epoch_; }

 private:
  // Facts of code while the table has it. `row` is valid after its first lookup.
  struct Known {
    uint32_t row;
    bool is_library;
    bool is_skipped;         // if libraries are skipped
    bool is_called = false;  // by the program, although it is skipped
    uint8_t begins = 0;      // of skipped code before the program called it
  };
  static constexpr uint8_t kMostBegins = 32;

  // Call the following functions under the lock.
  static bool may_be_called_now(const Known& known) { return known.is_called || known.begins < kMostBegins; }
  bool is_of_program_now(uint32_t row) const {
    return std::ranges::find(always_recorded_, row) == always_recorded_.end();
  }
  Known& entry_of(PyCodeObject* code);
  Known look_at(PyCodeObject* code);
  bool is_of_library(std::string_view file) const;
  bool is_recorded(std::string_view file, PyCodeObject* code) const;
  uint32_t row_of(PyCodeObject* code);
  uint32_t row_once(PyCodeObject* code, uint32_t& row);
  static PyCodeObject* kept(PyCodeObject* code);

  std::unordered_map<PyCodeObject*, Known> by_code_;  // owns references
  std::unordered_map<std::string, uint32_t> by_text_;
  std::vector<uint32_t> always_recorded_;  // rows of library functions; few
  std::string hidden_folder_;
  std::string shown_file_;
  std::string program_file_;
  LibraryFiles libraries_;
  static inline Shared<bool> skips_libraries_ = false;  // read at every call; there is one table
  PyCodeObject* module_code_ = nullptr;
  PyCodeObject* optimizer_code_ = nullptr;
  uint32_t module_row_ = kHiddenFrame;  // kHiddenFrame: not looked up since the table was emptied
  uint32_t optimizer_row_ = kHiddenFrame;
  Shared<uint64_t> epoch_ = 1;
};

}  // namespace opscope
