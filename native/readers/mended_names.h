// Two faults of JSON files mended while they are read: names with quotes in them that were not escaped, as
// Kineto wrote them ("name": "f.py(0): "x""), where a name has a line of its own, and an array without its
// closing bracket, which Chrome's format allows.
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
  void close_array(std::string& out, size_t begin);

  At at_ = At::kLineStart;
  size_t matched_ = 0;        // characters of the key
  bool is_new_line_ = false;  // since the key
  std::string name_;          // the rest of its line
  int64_t names_ = 0;
  bool is_begun_ = false;
  bool is_array_ = false;
  char last_ = 0;    // before `end_`
  std::string end_;  // of an array: commas and white space, which may be its end
};

}  // namespace opscope::readers
