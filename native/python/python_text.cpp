#include "python/python_text.h"

namespace opscope {

std::string text_of(PyObject* text) {
  std::string result;
  if (text != nullptr && PyUnicode_Check(text)) {
    result.reserve(static_cast<size_t>(PyUnicode_GET_LENGTH(text)));
  }
  add_text(text, [&result](char byte) { result += byte; });
  return result;
}

}  // namespace opscope
