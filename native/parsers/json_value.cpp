#include "parsers/json_value.h"

namespace opscope::readers {
namespace {

uint32_t four_digits(const char* at) {
  uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = at[i];
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    code = code << 4 | static_cast<uint32_t>(digit & 15);
  }
  return code;
}

void append_utf8(std::string& out, uint32_t code) {
  const auto put = [&](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

char meaning_of(char escaped) {
  switch (escaped) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return escaped;
  }
}

}  // namespace

void append_unescaped(std::string& out, std::string_view raw) {
  while (!raw.empty()) {
    const size_t slash = raw.find('\\');
    out.append(raw.substr(0, slash));
    if (slash == std::string_view::npos || slash + 1 >= raw.size()) return;
    const char escaped = raw[slash + 1];
    raw.remove_prefix(slash + 2);
    if (escaped != 'u') {
      out.push_back(meaning_of(escaped));
      continue;
    }
    if (raw.size() < 4) return;
    uint32_t code = four_digits(raw.data());
    raw.remove_prefix(4);
    if (code >= 0xd800 && code < 0xdc00 && raw.size() >= 6 && raw[0] == '\\' && raw[1] == 'u') {
      const uint32_t low = four_digits(raw.data() + 2);
      if (low >= 0xdc00 && low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        raw.remove_prefix(6);
      }
    }
    append_utf8(out, code);
  }
}

}  // namespace opscope::readers
