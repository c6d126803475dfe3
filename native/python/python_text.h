// Python strings as UTF-8.
#pragma once

#include <Python.h>

#include <cstdint>
#include <string>

namespace opscope {

// Calls add(byte) for each UTF-8 byte of a character.
template <typename Add>
void add_utf8(uint32_t character, Add&& add) {
  const auto more = [&](int shift) { add(static_cast<char>(0x80 | (character >> shift & 0x3F))); };
  if (character < 0x80) {
    add(static_cast<char>(character));
    return;
  }
  if (character < 0x800) {
    add(static_cast<char>(0xC0 | character >> 6));
  } else if (character < 0x10000) {
    add(static_cast<char>(0xE0 | character >> 12));
    more(6);
  } else {
    add(static_cast<char>(0xF0 | character >> 18));
    more(12);
    more(6);
  }
  more(0);
}

// [GIL, or if no other thread changes `text`] Calls add(byte) for each UTF-8 byte of a str; for "?" if `text`
// is no valid text, such as some file names. Allocates nothing; Python's conversion would keep a copy.
template <typename Add>
void add_text(PyObject* text, Add&& add) {
  const bool is_text = text != nullptr && PyUnicode_Check(text);
  const Py_ssize_t length = is_text ? PyUnicode_GET_LENGTH(text) : 0;
  bool is_valid = is_text;
  for (Py_ssize_t i = 0; i < length; ++i) {
    is_valid = is_valid && !Py_UNICODE_IS_SURROGATE(PyUnicode_READ_CHAR(text, i));
  }
  if (!is_valid) return add('?');
  for (Py_ssize_t i = 0; i < length; ++i) add_utf8(PyUnicode_READ_CHAR(text, i), add);
}

// [GIL] The same as a string.
inline std::string text_of(PyObject* text) {
  std::string result;
  if (text != nullptr && PyUnicode_Check(text)) {
    result.reserve(static_cast<size_t>(PyUnicode_GET_LENGTH(text)));
  }
  add_text(text, [&result](char byte) { result += byte; });
  return result;
}

}  // namespace opscope
