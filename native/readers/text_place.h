// Where in a text something is, in characters and lines, counted while the text goes by.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace opscope::readers {

class TextPlace {
 public:
  // The next bytes of the text, which is UTF-8.
  void add(std::string_view bytes) {
    const size_t line = bytes.rfind('\n');
    const int64_t characters = characters_in(bytes);
    if (line == std::string_view::npos) {
      since_line_ += characters;
    } else {
      for (const char c : bytes) lines_ += c == '\n';
      since_line_ = characters_in(bytes.substr(line + 1));
    }
    const size_t last = bytes.find_last_not_of(" \t\n\r\v\f\x1c\x1d\x1e\x1f");
    if (last != std::string_view::npos) stripped_ = characters_ + characters_in(bytes.substr(0, last + 1));
    characters_ += characters;
  }

  int64_t characters() const { return characters_; }
  int64_t stripped() const { return stripped_; }  // without white space at the end
  int64_t line() const { return lines_ + 1; }
  int64_t column() const { return since_line_ + 1; }

 private:
  static int64_t characters_in(std::string_view bytes) {
    int64_t count = 0;
    for (const char c : bytes) count += (static_cast<uint8_t>(c) & 0xc0) != 0x80;
    return count;
  }

  int64_t characters_ = 0;
  int64_t stripped_ = 0;
  int64_t lines_ = 0;
  int64_t since_line_ = 0;
};

}  // namespace opscope::readers
