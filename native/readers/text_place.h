// Where in a text something is: lines, and characters of the last one, counted while the text goes by.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace opscope::readers {

class TextPlace {
 public:
  // The next bytes of the text, which is UTF-8.
  void add(std::string_view bytes) {
    const size_t line = bytes.rfind('\n');
    if (line != std::string_view::npos) {
      lines_ += std::count(bytes.begin(), bytes.end(), '\n');
      since_line_ = 0;
      bytes.remove_prefix(line + 1);
    }
    for (const char c : bytes) since_line_ += (static_cast<uint8_t>(c) & 0xc0) != 0x80;
  }

  int64_t line() const { return lines_ + 1; }
  int64_t column() const { return since_line_ + 1; }

 private:
  int64_t lines_ = 0;
  int64_t since_line_ = 0;
};

}  // namespace opscope::readers
