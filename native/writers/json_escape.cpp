#include "writers/json_escape.h"

#include <array>
#include <cstdint>

namespace opscope::writers {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Bytes that are copied: printable ASCII without quote, backslash and slash.
constexpr std::array<bool, 256> make_plain_table() {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x7F; ++c) plain[static_cast<size_t>(c)] = true;
  plain['"'] = plain['\\'] = plain['/'] = false;
  return plain;
}
constexpr auto kPlain = make_plain_table();

struct Sequence {
  size_t length;  // bytes to consume
  bool valid;
};

// The UTF-8 sequence at text[0] (>= 0x80). If it is invalid: its longest valid prefix, which one replacement
// character replaces (Unicode 15, section 3.9, U+FFFD substitution).
Sequence read_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  size_t length = 0;
  uint8_t low = 0x80;
  uint8_t high = 0xBF;  // allowed range of the second byte
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;   // overlong
    if (lead == 0xED) high = 0x9F;  // surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;   // overlong
    if (lead == 0xF4) high = 0x8F;  // above U+10FFFF
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i >= text.size() || byte(i) < low || byte(i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

void append_control(TextBuffer& out, uint8_t c) {
  constexpr char hex[] = "0123456789abcdef";
  switch (c) {
    case '\n':
      out.put("\\n");
      break;
    case '\r':
      out.put("\\r");
      break;
    case '\t':
      out.put("\\t");
      break;
    default:
      out.put("\\u00");
      out.put(hex[c >> 4]);
      out.put(hex[c & 15]);
  }
}

}  // namespace

void append_escaped(TextBuffer& out, std::string_view text) {
  size_t start = 0;  // begin of the bytes not yet copied
  size_t i = 0;
  const auto flush = [&](size_t end) { out.put(text.substr(start, end - start)); };
  while (i < text.size()) {
    const auto c = static_cast<uint8_t>(text[i]);
    if (kPlain[c]) {
      ++i;
      continue;
    }
    if (c >= 0x80) {
      const Sequence sequence = read_sequence(text.substr(i));
      if (!sequence.valid) {
        flush(i);
        out.put(kReplacement);
        start = i + sequence.length;
      }
      i += sequence.length;
      continue;
    }
    flush(i);
    start = i + 1;
    if (c == '"' || c == '\\') {
      out.put('\\');
      out.put(static_cast<char>(c));
    } else if (c == '/') {
      if (i > 0 && text[i - 1] == '<') out.put('\\');
      out.put('/');
    } else {
      append_control(out, c);
    }
    ++i;
  }
  flush(i);
}

EscapedNames::EscapedNames(const ColumnView<int64_t>& offsets, const ColumnView<uint8_t>& bytes)
    : text_(bytes.size + bytes.size / 8) {
  ends_.reserve(offsets.size);
  ends_.push_back(0);
  for (size_t i = 0; i + 1 < offsets.size; ++i) {
    const int64_t begin = offsets[i];
    const int64_t end = offsets[i + 1];
    // Invalid offsets in a damaged file give an empty name.
    if (begin >= 0 && begin < end && static_cast<size_t>(end) <= bytes.size) {
      const auto* const text = reinterpret_cast<const char*>(bytes.data) + begin;
      append_escaped(text_, {text, static_cast<size_t>(end - begin)});
    }
    ends_.push_back(text_.size());
  }
}

}  // namespace opscope::writers
