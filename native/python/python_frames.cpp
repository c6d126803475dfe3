#include "python/python_frames.h"

namespace opscope {

namespace {

std::string text_of(PyObject* text) {
  Py_ssize_t length = 0;
  const char* bytes = text == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) {
    PyErr_Clear();  // a file name with lone surrogates
    return "?";
  }
  return {bytes, static_cast<size_t>(length)};
}

// Of its instructions, in bytes.
int32_t size_of(const PyCodeObject* code) {
#if PY_VERSION_HEX >= 0x030B0000
  return static_cast<int32_t>(Py_SIZE(code)) * 2;
#else
  return static_cast<int32_t>(PyBytes_GET_SIZE(code->co_code));
#endif
}

}  // namespace

uint32_t FrameTable::intern(PyCodeObject* code) {
  const auto known = by_code_.find(code);
  if (known != by_code_.end()) return known->second;
  const uint32_t id = id_of(code);
  // Kept alive so that its address means the same function for as long as it is in the table.
  Py_INCREF(reinterpret_cast<PyObject*>(code));
  by_code_.emplace(code, id);
  return id;
}

uint32_t FrameTable::id_of(PyCodeObject* code) {
  if (code == module_.code) return kModuleFrame;
  if (code == optimizer_.code) return kOptimizerFrame;
  const std::string file = text_of(code->co_filename);
  const bool is_ours = !hidden_folder_.empty() && file.starts_with(hidden_folder_);
  if (!is_ours || file == shown_file_) return row_of(info_of(code));
  return file == program_file_ ? kProgramFrame : kHiddenFrame;
}

FrameInfo FrameTable::info_of(PyCodeObject* code) {
  return {text_of(code->co_filename), text_of(code->co_name), code->co_firstlineno, code};
}

FrameInfo FrameTable::kept(PyCodeObject* code) {
  Py_XINCREF(reinterpret_cast<PyObject*>(code));
  return code == nullptr ? FrameInfo{} : info_of(code);
}

uint32_t FrameTable::row_of(const FrameInfo& info) {
  std::string text = info.file + '\0' + info.function + '\0' + std::to_string(info.line);
  std::lock_guard lock(mutex_);
  const auto [entry, is_new] = by_text_.try_emplace(std::move(text), static_cast<uint32_t>(frames_.size()));
  if (is_new) frames_.push_back(info);
  return entry->second;
}

void FrameTable::forget() {
  std::unordered_map<PyCodeObject*, uint32_t> dropped;
  dropped.swap(by_code_);
  {
    std::lock_guard lock(mutex_);
    frames_.clear();
    by_text_.clear();
  }
  ++epoch_;
  // Last: destroying code objects may run Python, and so come back here.
  for (const auto& [code, id] : dropped) Py_DECREF(reinterpret_cast<PyObject*>(code));
}

FrameInfo FrameTable::describe(uint32_t id) {
  std::lock_guard lock(mutex_);
  if (id >= frames_.size()) return {"?", "?", -1, nullptr};
  return frames_[id];
}

int32_t FrameTable::line_of(uint32_t id, int32_t offset) {
  std::lock_guard lock(mutex_);
  if (id >= frames_.size() || frames_[id].code == nullptr || offset < 0) return -1;
  // Functions with the same text, such as two lambdas in a line, share a row: the offset may be another's.
  if (offset >= size_of(frames_[id].code)) return -1;
  return PyCode_Addr2Line(frames_[id].code, offset);
}

}  // namespace opscope
