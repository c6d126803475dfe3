#include <algorithm>

#include "parsers/chrome_reader.h"

namespace opscope::readers {
namespace {

constexpr std::string_view kKey = "\"name\"";
constexpr std::string_view kBlanks = " \t\n\r\v\f\x1c\x1d\x1e\x1f";

bool is_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

bool is_hex_digit(char c) { return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

// Length of the escape at the start of the text, or 0.
size_t escape_length(std::string_view text) {
  if (text.size() < 2 || text[0] != '\\') return 0;
  if (text[1] != 'u') return std::string_view("\"\\/bfnrt").find(text[1]) == std::string_view::npos ? 0 : 2;
  if (text.size() < 6) return 0;
  return std::all_of(text.begin() + 2, text.begin() + 6, is_hex_digit) ? 6 : 0;
}

}  // namespace

void NameMender::add(std::string_view piece, std::string& out) {
  while (!piece.empty()) {
    if (at_ == At::kRest || at_ == At::kName) {
      const size_t line = std::min(piece.find('\n'), piece.size());
      (at_ == At::kRest ? out : name_).append(piece.substr(0, line));
      piece.remove_prefix(line);
      if (piece.empty()) break;
    }
    step(piece[0], out);
    piece.remove_prefix(1);
  }
}

void NameMender::step(char c, std::string& out) {
  switch (at_) {
    case At::kLineStart:
      begin_line(c);
      break;
    case At::kKey:
      if (c != kKey[matched_]) {
        at_ = c == '\n' ? At::kLineStart : At::kRest;
      } else if (++matched_ == kKey.size()) {
        at_ = At::kColon;
        is_new_line_ = false;
      }
      break;
    case At::kColon:
    case At::kQuote:
      is_new_line_ |= c == '\n';
      if (c == (at_ == At::kColon ? ':' : '"')) {
        at_ = at_ == At::kColon ? At::kQuote : At::kName;
      } else if (!is_blank(c)) {
        if (is_new_line_) {
          begin_line(c);
        } else {
          at_ = At::kRest;
        }
      }
      break;
    case At::kName:
      mend_name(out);
      at_ = At::kLineStart;
      break;
    case At::kRest:
      at_ = At::kLineStart;
      break;
  }
  out.push_back(c);
}

void NameMender::begin_line(char c) {
  if (is_blank(c)) return;
  at_ = c == kKey[0] ? At::kKey : At::kRest;
  matched_ = 1;
}

// The last quote of the line ends the name if at most a comma follows it.
void NameMender::mend_name(std::string& out) {
  const std::string_view line = name_;
  const size_t quote = line.rfind('"');
  bool is_name = quote != std::string_view::npos;
  if (is_name) {
    std::string_view rest = line.substr(quote + 1);
    const size_t comma = rest.find_first_not_of(kBlanks);
    if (comma != std::string_view::npos) {
      rest = rest.substr(comma);
      is_name = rest[0] == ',' && rest.find_first_not_of(kBlanks, 1) == std::string_view::npos;
    }
  }
  if (is_name) {
    bool is_mended = false;
    for (size_t i = 0; i < quote;) {
      const size_t escape = escape_length(line.substr(i, quote - i));
      const bool is_bare = escape == 0 && (line[i] == '"' || line[i] == '\\');
      if (is_bare) out.push_back('\\');
      is_mended |= is_bare;
      const size_t length = std::max<size_t>(escape, 1);
      out.append(line.substr(i, length));
      i += length;
    }
    names_ += is_mended;
    out.append(line.substr(quote));
  } else {
    out.append(line);
  }
  name_.clear();
}

void NameMender::finish(std::string& out) {
  if (at_ == At::kName) mend_name(out);
}

}  // namespace opscope::readers
