#include "python/python_text.h"

#include <cstdint>

namespace opscope {

namespace {

// Appends a character as UTF-8.
void append_utf8(std::string& text, uint32_t character) {
  const auto more = [character](int shift) { return static_cast<char>(0x80 | (character >> shift & 0x3F)); };
  if (character < 0x80) {
    text += static_cast<char>(character);
  } else if (character < 0x800) {
    text += {static_cast<char>(0xC0 | character >> 6), more(0)};
  } else if (character < 0x10000) {
    text += {static_cast<char>(0xE0 | character >> 12), more(6), more(0)};
  } else {
    text += {static_cast<char>(0xF0 | character >> 18), more(12), more(6), more(0)};
  }
}

}  // namespace

std::string text_of(PyObject* text) {
  if (text == nullptr || !PyUnicode_Check(text)) return "?";
  std::string result;
  const auto length = static_cast<size_t>(PyUnicode_GET_LENGTH(text));
  result.reserve(length);
  for (size_t i = 0; i < length; ++i) {
    const uint32_t character = PyUnicode_READ_CHAR(text, static_cast<Py_ssize_t>(i));
    if (Py_UNICODE_IS_SURROGATE(character)) return "?";  // a file name that is no text
    append_utf8(result, character);
  }
  return result;
}

}  // namespace opscope
