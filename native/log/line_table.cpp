#include "log/line_table.h"

namespace opscope {

namespace {

// Wraps on overflow: a damaged table may contain any number.
int32_t further(int32_t line, int32_t by) {
  return static_cast<int32_t>(static_cast<uint32_t>(line) + static_cast<uint32_t>(by));
}

// Table of byte pairs: length of the code, and line increment.
int32_t line_in_lines(std::string_view table, int32_t line, int32_t offset) {
  constexpr int8_t kNoLine = -128;
  int32_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto delta = static_cast<int8_t>(table[i + 1]);
    end += static_cast<uint8_t>(table[i]);
    if (delta != kNoLine) line = further(line, delta);
    if (offset < end) return delta == kNoLine ? -1 : line;
  }
  return -1;
}

// A number in groups of six bits, the lowest first; its lowest bit is the sign.
int32_t signed_number(std::string_view table, size_t at) {
  uint32_t bits = 0;
  for (uint32_t shift = 0; at < table.size() && shift < 32; ++at, shift += 6) {
    const auto byte = static_cast<uint8_t>(table[at]);
    bits |= static_cast<uint32_t>(byte & 0x3f) << shift;
    if ((byte & 0x40) == 0) break;
  }
  const auto size = static_cast<int32_t>(bits >> 1);
  return (bits & 1) != 0 ? -size : size;
}

// An entry begins with a byte whose highest bit is set: a code, and a length in code units of two bytes.
int32_t line_in_locations(std::string_view table, int32_t line, int32_t offset) {
  constexpr uint8_t kFirstOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15;
  int32_t end = 0;
  for (size_t i = 0; i < table.size();) {
    const auto first = static_cast<uint8_t>(table[i]);
    const uint8_t code = first >> 3 & 15;
    end += ((first & 7) + 1) * 2;
    if (code == kLong || code == kNoColumns) {
      line = further(line, signed_number(table, i + 1));
    } else if (code >= kFirstOneLine && code < kNoColumns) {
      line = further(line, code - kFirstOneLine);
    }
    if (offset < end) return code == kNone ? -1 : line;
    for (++i; i < table.size() && (static_cast<uint8_t>(table[i]) & 0x80) == 0;) ++i;
  }
  return -1;
}

}  // namespace

int32_t line_at(std::string_view table, int32_t first_line, int32_t offset) {
  if (table.empty() || offset < 0) return -1;
  const auto format = static_cast<LineFormat>(table[0]);
  table.remove_prefix(1);
  return format == LineFormat::kLines ? line_in_lines(table, first_line, offset)
                                      : line_in_locations(table, first_line, offset);
}

}  // namespace opscope
