// Python functions seen by the call recorder: numbered, and described in the journal, when first met.
//
// [GIL] Everything here.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>
#include <unordered_map>

namespace opscope {

// Ids that are not rows of the table: code that is not recorded as a plain call.
constexpr uint32_t kHiddenFrame = UINT32_MAX;         // opscope's own
constexpr uint32_t kModuleFrame = UINT32_MAX - 1;     // nn.Module.__call__: recorded as the module
constexpr uint32_t kOptimizerFrame = UINT32_MAX - 2;  // where an optimizer shows itself, once a step
constexpr uint32_t kProgramFrame = UINT32_MAX - 3;    // opscope's own that runs the program
constexpr uint32_t kFirstSpecialFrame = kProgramFrame;

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
  void set_module_code(PyCodeObject* code) { module_code_ = kept(code); }
  void set_optimizer_code(PyCodeObject* code) { optimizer_code_ = kept(code); }

  // A row of the table, or one of the special ids.
  uint32_t intern(PyCodeObject* code);
  // The table rows of the code behind kModuleFrame and kOptimizerFrame.
  uint32_t module_row() { return row_once(module_code_, module_row_); }
  uint32_t optimizer_row() { return row_once(optimizer_code_, optimizer_row_); }

  // Empties the table and lets go of all code objects, when no window can refer to it any more.
  // A change of `epoch` tells threads to drop their caches.
  void forget();
  uint64_t epoch() const { return epoch_; }

 private:
  uint32_t id_of(PyCodeObject* code);
  uint32_t row_of(PyCodeObject* code, std::string file);
  uint32_t row_once(PyCodeObject* code, uint32_t& row);
  static PyCodeObject* kept(PyCodeObject* code);

  std::unordered_map<PyCodeObject*, uint32_t> by_code_;  // strong
  std::unordered_map<std::string, uint32_t> by_text_;
  std::string hidden_folder_;
  std::string shown_file_;
  std::string program_file_;
  PyCodeObject* module_code_ = nullptr;
  PyCodeObject* optimizer_code_ = nullptr;
  uint32_t module_row_ = kHiddenFrame;  // kHiddenFrame: not asked for since the table was emptied
  uint32_t optimizer_row_ = kHiddenFrame;
  uint64_t epoch_ = 1;
};

}  // namespace opscope
