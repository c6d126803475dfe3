// Python functions seen by the call recorder: interned once, described when a trace is decoded.
//
// [GIL] Everything needs the GIL but what is marked [MT]: that may run without it while the code
// objects are kept, until forget().
#pragma once

#include <Python.h>

#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>

namespace opscope {

// Ids that are not rows of the table: code that is not recorded as a plain call.
constexpr uint32_t kHiddenFrame = UINT32_MAX;         // opscope's own
constexpr uint32_t kModuleFrame = UINT32_MAX - 1;     // nn.Module.__call__: recorded as the module
constexpr uint32_t kOptimizerFrame = UINT32_MAX - 2;  // where an optimizer shows itself, once a step
constexpr uint32_t kProgramFrame = UINT32_MAX - 3;    // opscope's own that runs the program
constexpr uint32_t kFirstSpecialFrame = kProgramFrame;

struct FrameInfo {
  std::string file;
  std::string function;
  int32_t line = -1;
  PyCodeObject* code = nullptr;  // strong while the pointer is in the table, else null
};

class FrameTable {
 public:
  // Code in this folder is never recorded, nor what it calls; but for one file that wraps the
  // program's own functions, and for what one file calls, which runs the program.
  void hide_files_under(std::string folder, std::string shown_file, std::string program_file) {
    hidden_folder_ = std::move(folder);
    shown_file_ = std::move(shown_file);
    program_file_ = std::move(program_file);
  }
  // Kept for good. nullptr: there is none.
  void set_module_code(PyCodeObject* code) { module_ = kept(code); }
  void set_optimizer_code(PyCodeObject* code) { optimizer_ = kept(code); }

  // A row of the table, or one of the special ids.
  uint32_t intern(PyCodeObject* code);
  // [MT] The table rows of the code behind kModuleFrame and kOptimizerFrame.
  uint32_t module_row() { return module_.code == nullptr ? kHiddenFrame : row_of(module_); }
  uint32_t optimizer_row() { return optimizer_.code == nullptr ? kHiddenFrame : row_of(optimizer_); }

  // Empties the table and lets go of all code objects, when no window can refer to it any more.
  // A change of `epoch` tells threads to drop their caches.
  void forget();
  uint64_t epoch() const { return epoch_; }

  // Around fork: nobody else is in the middle of a change.
  std::mutex& mutex() { return mutex_; }

  // [MT] The function with this id.
  FrameInfo describe(uint32_t id);
  // [MT] The line of instruction `offset` in that function; -1 if unknown.
  int32_t line_of(uint32_t id, int32_t offset);

 private:
  uint32_t id_of(PyCodeObject* code);
  // What is known of code, as text. The texts are read with the GIL only.
  static FrameInfo info_of(PyCodeObject* code);
  static FrameInfo kept(PyCodeObject* code);
  uint32_t row_of(const FrameInfo& info);

  std::mutex mutex_;  // of frames_, for describe() without the GIL
  std::deque<FrameInfo> frames_;
  std::unordered_map<PyCodeObject*, uint32_t> by_code_;
  std::unordered_map<std::string, uint32_t> by_text_;
  std::string hidden_folder_;
  std::string shown_file_;
  std::string program_file_;
  FrameInfo module_;
  FrameInfo optimizer_;
  uint64_t epoch_ = 1;
};

}  // namespace opscope
