#include "python/python_frames.h"

#include <algorithm>
#include <utility>

#include "log/line_table.h"
#include "log/recorder.h"
#include "python/python_text.h"

namespace opscope {

namespace {

constexpr uint32_t kNoRow = UINT32_MAX - 5;  // row not yet looked up
// torch's wrapper around a module call, recorded as the call of the module.
constexpr std::string_view kModuleCall = "torch/nn/modules/module.py:_wrapped_call_impl";

// Line table in the format of this Python; see line_table.h.
std::string line_table_of(const PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  std::string table(1, static_cast<char>(LineFormat::kLocations));
#else
  std::string table(1, static_cast<char>(LineFormat::kLines));
#endif
  PyObject* const bytes = code->co_linetable;
  if (bytes != nullptr && PyBytes_Check(bytes))
    table.append(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes)));
  return table;
}

}  // namespace

uint32_t FrameTable::intern(PyCodeObject* code) {
  const TablesLock lock;
  Known& known = entry_of(code);
  if (known.is_skipped && skips_libraries_) return kSkippedFrame;
  if (known.row == kNoRow) known.row = row_of(code);
  if (known.is_library && !known.is_skipped && is_of_program_now(known.row))
    always_recorded_.push_back(known.row);
  return known.row;
}

uint32_t FrameTable::intern_called(PyCodeObject* code) {
  const std::string place = text_of(code->co_filename) + ':' + text_of(code->co_name);
  return place.ends_with(kModuleCall) ? kSkippedFrame : plain_row(code);
}

uint32_t FrameTable::plain_row(PyCodeObject* code) {
  const TablesLock lock;
  entry_of(code);  // keeps the code alive
  return row_of(code);
}

FrameTable::Known& FrameTable::entry_of(PyCodeObject* code) {
  auto known = by_code_.find(code);
  if (known == by_code_.end()) {
    const Known seen = look_at(code);
    // Keeps the code alive, so that its address means the same function while it is in the table.
    Py_INCREF(reinterpret_cast<PyObject*>(code));
    known = by_code_.emplace(code, seen).first;
  }
  return known->second;
}

FrameTable::Known FrameTable::look_at(PyCodeObject* code) {
  if (code == module_code_) return {kModuleFrame, false, false};
  if (code == optimizer_code_) return {kOptimizerFrame, false, false};
  const std::string file = text_of(code->co_filename);
  const bool is_ours = !hidden_folder_.empty() && file.starts_with(hidden_folder_);
  if (!is_ours || file == shown_file_) {
    const bool is_library = is_of_library(file);
    return {kNoRow, is_library, is_library && !is_recorded(file, code)};
  }
  return {file == program_file_ ? kProgramFrame : kHiddenFrame, false, false};
}

bool FrameTable::is_of_library(std::string_view file) const {
  const auto contains = [file](const auto& mark) { return file.find(mark) != std::string_view::npos; };
  const auto ends = [file](const auto& ending) { return file.ends_with(ending); };
  return file.empty() || std::ranges::any_of(libraries_.marks, contains) ||
         std::ranges::any_of(libraries_.endings, ends);
}

bool FrameTable::is_recorded(std::string_view file, PyCodeObject* code) const {
  const std::string place = std::string(file) + ':' + text_of(code->co_name);
  return std::ranges::any_of(libraries_.recorded,
                             [&](const auto& name) { return place == name || place.ends_with('/' + name); });
}

PyCodeObject* FrameTable::kept(PyCodeObject* code) {
  Py_XINCREF(reinterpret_cast<PyObject*>(code));
  return code;
}

// Functions with equal text, such as two lambdas in one line, share a row.
uint32_t FrameTable::row_of(PyCodeObject* code) {
  const std::string file = text_of(code->co_filename);
  const std::string function = text_of(code->co_name);
  const int32_t line = code->co_firstlineno;
  std::string text = file + '\0' + function + '\0' + std::to_string(line);
  const auto [entry, is_new] = by_text_.try_emplace(std::move(text), static_cast<uint32_t>(by_text_.size()));
  if (is_new) {
    Recorder::instance().journal().append(EntryKind::kFunction, entry->second,
                                          {file, function, field_of(line), line_table_of(code)});
  }
  return entry->second;
}

uint32_t FrameTable::row_once(PyCodeObject* code, uint32_t& row) {
  if (row == kHiddenFrame && code != nullptr) row = row_of(code);
  return row;
}

void FrameTable::forget() {
  std::unordered_map<PyCodeObject*, Known> dropped;
  {
    const TablesLock lock;
    dropped.swap(by_code_);
    by_text_.clear();
    always_recorded_.clear();
    module_row_ = optimizer_row_ = kHiddenFrame;
    ++epoch_;
  }
  // Last: destroying code objects may run Python and re-enter this table.
  for (const auto& [code, known] : dropped) Py_DECREF(reinterpret_cast<PyObject*>(code));
}

}  // namespace opscope
