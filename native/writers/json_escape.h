// Any bytes as the inside of a JSON string.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "numpy/column_view.h"
#include "writers/text_buffer.h"

namespace opscope::writers {

// Appends `text` as valid UTF-8 and JSON, without quotes around it. Invalid bytes become U+FFFD, as in
// Python's bytes.decode("utf-8", "replace"). "</" becomes "<\/": traces may be pasted into <script> elements.
void append_escaped(TextBuffer& out, std::string_view text);

// Escaped names of a trace: a million events share a few hundred.
class EscapedNames {
 public:
  EscapedNames() = default;
  // Name i is bytes[offsets[i], offsets[i + 1]).
  EscapedNames(const ColumnView<int64_t>& offsets, const ColumnView<uint8_t>& bytes);

  // Empty for -1 and for an invalid row.
  std::string_view operator[](int32_t row) const {
    const auto i = static_cast<size_t>(row);
    if (row < 0 || i + 1 >= ends_.size()) return {};
    return text_.view().substr(ends_[i], ends_[i + 1] - ends_[i]);
  }

 private:
  TextBuffer text_{0};
  std::vector<size_t> ends_;  // with a leading 0
};

}  // namespace opscope::writers
