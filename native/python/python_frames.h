// Python functions seen by the call recorder: numbered, and described in the journal, when first met.
//
// [GIL] Everything here, and at the same time where there is none. It makes no object of Python's, so that it
// can be asked while threads are stopped.
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

// Ids that are not rows of the table: code that is not recorded as a plain call.
constexpr uint32_t kHiddenFrame = UINT32_MAX;         // opscope's own
constexpr uint32_t kModuleFrame = UINT32_MAX - 1;     // nn.Module.__call__: recorded as the module
constexpr uint32_t kOptimizerFrame = UINT32_MAX - 2;  // where an optimizer shows itself, once a step
constexpr uint32_t kProgramFrame = UINT32_MAX - 3;    // opscope's own that runs the program
constexpr uint32_t kSkippedFrame = UINT32_MAX - 4;    // a library's, where only the program's own are wanted
constexpr uint32_t kFirstSpecialFrame = kSkippedFrame;

// Which files are installed (base/program_files.py).
struct LibraryFiles {
  std::vector<std::string> marks;     // what their names contain
  std::vector<std::string> endings;   // or how they end
  std::vector<std::string> recorded;  // of these the functions that wait or import, as in "queue.py:get"
};

class FrameTable {
 public:
  // Code in this folder is never recorded, nor what it calls; but for one file that wraps the
  // program's own functions, and for what one file calls, which runs the program.
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
  // Whether code of libraries is skipped: neither recorded, nor is it hidden what it calls. But what waits
  // or imports is recorded, so that the time is not that of who called it; and so is what the program calls
  // itself, which has the line.
  void skip_libraries(bool skip) {
    const TablesLock lock;
    if (skips_libraries_ == skip) return;
    skips_libraries_ = skip;
    ++epoch_;
  }
  static bool skips_libraries() { return skips_libraries_; }
  // Kept for good. nullptr: there is none.
  void set_module_code(PyCodeObject* code) {
    const TablesLock lock;
    module_code_ = kept(code);
  }
  void set_optimizer_code(PyCodeObject* code) {
    const TablesLock lock;
    optimizer_code_ = kept(code);
  }

  // A row of the table, or one of the special ids.
  uint32_t intern(PyCodeObject* code);
  // The row of code that is skipped, for calls of it that are not; kSkippedFrame where none is wanted.
  uint32_t intern_called(PyCodeObject* code);
  // For skipped code whose events have a cost: may the program call it? True if it has, or if the code was
  // called rarely.
  bool may_be_called(PyCodeObject* code) {
    const TablesLock lock;
    return may_be_called_now(known_of(code));
  }
  // The same, once it has begun another time.
  bool may_be_called_again(PyCodeObject* code, bool by_program) {
    const TablesLock lock;
    Known& known = known_of(code);
    if (!may_be_called_now(known)) return false;
    known.is_called |= by_program;
    if (!known.is_called) ++known.begins;
    return may_be_called_now(known);
  }
  // Enables events of all code again, including code that was disabled.
  void hear_again() {
    const TablesLock lock;
    for (auto& [code, known] : by_code_) known.begins = 0;
  }
  // Whether a row is no library's that is recorded although libraries are skipped.
  bool is_of_program(uint32_t row) const {
    const TablesLock lock;
    return is_of_program_now(row);
  }
  // A row of the table, also where the code is a library's or special.
  uint32_t plain_row(PyCodeObject* code);
  // The table rows of the code behind kModuleFrame and kOptimizerFrame.
  uint32_t module_row() {
    const TablesLock lock;
    return row_once(module_code_, module_row_);
  }
  uint32_t optimizer_row() {
    const TablesLock lock;
    return row_once(optimizer_code_, optimizer_row_);
  }

  // Empties the table and releases all code objects, when no window can refer to it any more.
  // A change of `epoch` tells threads to drop their caches.
  void forget();
  uint64_t epoch() const { return epoch_; }

 private:
  // What is known of code for as long as the table has it. `row` is one once it was asked for.
  struct Known {
    uint32_t row;
    bool is_library;
    bool is_skipped;         // where libraries are
    bool is_called = false;  // by the program, although it is skipped
    uint8_t begins = 0;      // of skipped code before the program called it
  };
  static constexpr uint8_t kMostBegins = 32;

  // What follows is called under the lock.
  static bool may_be_called_now(const Known& known) { return known.is_called || known.begins < kMostBegins; }
  bool is_of_program_now(uint32_t row) const {
    return std::ranges::find(always_recorded_, row) == always_recorded_.end();
  }
  Known& known_of(PyCodeObject* code);
  Known look_at(PyCodeObject* code);
  bool is_of_library(std::string_view file) const;
  bool is_recorded(std::string_view file, PyCodeObject* code) const;
  uint32_t row_of(PyCodeObject* code);
  uint32_t row_once(PyCodeObject* code, uint32_t& row);
  static PyCodeObject* kept(PyCodeObject* code);

  std::unordered_map<PyCodeObject*, Known> by_code_;  // strong
  std::unordered_map<std::string, uint32_t> by_text_;
  std::vector<uint32_t> always_recorded_;  // rows of libraries' functions; few
  std::string hidden_folder_;
  std::string shown_file_;
  std::string program_file_;
  LibraryFiles libraries_;
  static inline Shared<bool> skips_libraries_ = false;  // read at every call; there is one table
  PyCodeObject* module_code_ = nullptr;
  PyCodeObject* optimizer_code_ = nullptr;
  uint32_t module_row_ = kHiddenFrame;  // kHiddenFrame: not asked for since the table was emptied
  uint32_t optimizer_row_ = kHiddenFrame;
  Shared<uint64_t> epoch_ = 1;
};

}  // namespace opscope
