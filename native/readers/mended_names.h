// A fault of JSON files mended while they are read: names with quotes in them that were not escaped, as
// Kineto wrote them ("name": "f.py(0): "x""), where a name has a line of its own.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opscope::readers {

class NameMender {
 public:
  // Appends to `out` what is known of the mended text after these pieces of the text.
  void add(std::string_view piece, std::string& out);
  // Appends the rest.
  void finish(std::string& out);

  int64_t names() const { return names_; }

 private:
  enum class At { kLineStart, kKey, kColon, kQuote, kName, kRest };

  void step(char c, std::string& out);
  void begin_line(char c);
  void mend_name(std::string& out);

  At at_ = At::kLineStart;
  size_t matched_ = 0;        // characters of the key
  bool is_new_line_ = false;  // since the key
  std::string name_;          // the rest of its line
  int64_t names_ = 0;
};

}  // namespace opscope::readers
