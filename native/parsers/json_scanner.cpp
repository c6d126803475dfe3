#include "parsers/json_scanner.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

namespace opscope::readers {
namespace {

constexpr size_t kMostDigits = 4300;  // of an integer; Python, which reads other keys, has this limit

[[noreturn]] void cut_at(const char* end) { throw NotJson{"Unterminated value", end}; }

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Sets a bit of each byte equal to `c`; bits above the lowest may be wrong.
uint64_t bytes_like(uint64_t word, char c) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  const uint64_t other = word ^ kOnes * static_cast<uint8_t>(c);
  return (other - kOnes) & ~other & kOnes << 7;
}

// Next quote or backslash, or `end`. Reads up to 8 bytes beyond `end`.
const char* quote_or_escape(const char* at, const char* end) {
  while (at < end) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    if constexpr (std::endian::native == std::endian::little) {
      const uint64_t found = bytes_like(word, '"') | bytes_like(word, '\\');
      if (found != 0) {
        at += std::countr_zero(found) / 8;
        return at < end ? at : end;
      }
      at += sizeof word;
    } else {
      if (*at == '"' || *at == '\\') return at;
      ++at;
    }
  }
  return end;
}

}  // namespace

void Scanner::skip_space() {
  while (is_space(*at_)) ++at_;  // the padding is no space
}

Value Scanner::value(size_t depth) {
  const char first = peek();
  switch (first) {
    case '"':
      return text();
    case '{':
      return object(depth);
    case '[':
      return list(depth);
    case 'n':
      return constant("null", Sort::kNull);
    case 't':
      return constant("true", Sort::kTrue);
    case 'f':
      return constant("false", Sort::kFalse);
    case 'N':
      return constant("NaN", Sort::kConstant);
    case 'I':
      return constant("Infinity", Sort::kConstant);
    default:
      break;
  }
  if (first == '-') {
    require(2);
    if (at_[1] == 'I') return constant("-Infinity", Sort::kConstant);
  }
  return number();
}

Value Scanner::constant(const char* spelled, Sort sort) {
  const size_t length = std::strlen(spelled);
  require(length);
  const size_t there = std::min(length, static_cast<size_t>(end_ - at_));
  if (std::memcmp(at_, spelled, there) != 0) fail("Expecting value");
  if (there < length) cut_at(end_);
  const Value value{sort, {at_, length}};
  at_ += length;
  return value;
}

Value Scanner::number() {
  const char* const begin = at_;
  const char* at = at_ + (*at_ == '-');
  bool is_integer = true;
  if (*at >= '1' && *at <= '9') {
    while (is_digit(*at)) ++at;
  } else if (*at == '0') {
    ++at;
  } else {
    if (at == end_ && at != begin) cut_at(end_);
    fail("Expecting value");
  }
  const auto digits = static_cast<size_t>(at - begin) - (*begin == '-');
  if (*at == '.' && is_digit(at[1])) {
    is_integer = false;
    at += 2;
    while (is_digit(*at)) ++at;
  }
  if (*at == 'e' || *at == 'E') {
    const char* exponent = at + 1;
    if (*exponent == '-' || *exponent == '+') ++exponent;
    if (is_digit(*exponent)) {
      is_integer = false;
      while (is_digit(*exponent)) ++exponent;
      at = exponent;
    }
  }
  if (!is_last_ && end_ - at < 3) throw NeedMore{};  // it may continue
  if (is_integer && digits > kMostDigits) fail("Integer of more than 4,300 digits");
  at_ = at;
  return {is_integer ? Sort::kInteger : Sort::kDecimal, {begin, static_cast<size_t>(at - begin)}};
}

Value Scanner::text() {
  const char* const begin = at_++;
  Sort sort = Sort::kText;
  for (;;) {
    at_ = quote_or_escape(at_, end_);
    if (at_ == end_) {
      if (!is_last_) throw NeedMore{};
      cut_at(end_);
    }
    if (*at_ == '"') break;
    sort = Sort::kEscaped;
    escape();
  }
  const Value value{sort, {begin + 1, static_cast<size_t>(at_ - begin - 1)}};
  ++at_;
  return value;
}

// Skips the escape that begins here.
void Scanner::escape() {
  require(14);  // a surrogate pair and the next characters
  const char* const slash = at_++;
  if (at_ == end_) cut_at(end_);
  if (*at_ != 'u') {
    if (*at_ == 0 || std::strchr("\"\\/bfnrt", *at_) == nullptr) throw NotJson{"Invalid \\escape", slash};
    ++at_;
    return;
  }
  check_digits(at_);
  at_ += 5;
}

void Scanner::check_digits(const char* u) const {
  for (int i = 1; i <= 4; ++i) {
    if (u + i >= end_) cut_at(end_);
    if (!is_hex(u[i])) throw NotJson{"Invalid \\uXXXX escape", u};
  }
}

std::string_view Scanner::key() {
  if (peek() != '"') fail("Expecting property name enclosed in double quotes");
  const Value key = text();
  skip_space();
  if (peek() != ':') fail("Expecting ':' delimiter");
  ++at_;
  skip_space();
  if (key.sort == Sort::kText) return key.raw;
  append_unescaped(unescaped_.emplace_back(), key.raw);
  return unescaped_.back();
}

Value Scanner::list(size_t depth) {
  if (depth >= kDeepest) fail("Values nested too deeply");
  const char* const begin = at_++;
  skip_space();
  if (peek() != ']') {
    for (;;) {
      value(depth + 1);
      skip_space();
      const char next = peek();
      if (next == ']') break;
      if (next != ',') fail("Expecting ',' delimiter");
      ++at_;
      skip_space();
    }
  }
  ++at_;
  return {Sort::kList, {begin, static_cast<size_t>(at_ - begin)}};
}

Value Scanner::object(size_t depth) {
  if (depth >= kDeepest) fail("Values nested too deeply");
  while (levels_.size() <= depth + 1) levels_.emplace_back();
  Level& level = levels_[depth];
  level.event.clear();
  level.members.clear();
  const char* const begin = at_++;
  skip_space();
  if (peek() != '}') {
    for (;;) {
      const std::string_view name = key();
      set(level, name, value(depth + 1), depth);
      skip_space();
      const char next = peek();
      if (next == '}') break;
      if (next != ',') fail("Expecting ',' delimiter");
      ++at_;
      skip_space();
    }
  }
  ++at_;
  const std::string_view raw{begin, static_cast<size_t>(at_ - begin)};
  const FoundEvent& event = level.event;
  const auto has = [](const Value& value) { return value.sort != Sort::kMissing; };
  // Every event has a phase, and all but a few metadata events a time. An `args` with a key "ph" has neither
  // a process nor a time.
  if (!has(event.phase) || !(has(event.time) || has(event.process))) return {Sort::kObject, raw};
  if (found_.size() == events_) found_.emplace_back();
  std::swap(found_[events_++], level.event);
  level.members.clear();
  return {Sort::kNull, raw};
}

void Scanner::set(Level& level, std::string_view key, const Value& value, size_t depth) {
  level.members.push_back({key, value});
  if (key.size() > 5) return;
  FoundEvent& event = level.event;
  if (key == "ph") {
    event.phase = value;
  } else if (key == "cat") {
    event.category = value;
  } else if (key == "name") {
    event.name = value;
  } else if (key == "pid") {
    event.process = value;
  } else if (key == "tid") {
    event.thread = value;
  } else if (key == "ts") {
    event.time = value;
  } else if (key == "dur") {
    event.duration = value;
  } else if (key == "id") {
    event.id = value;
  } else if (key == "id2") {
    event.id2 = value;
  } else if (key == "scope") {
    event.scope = value;
  } else if (key == "args") {
    event.arguments = value;
    event.members.clear();
    if (value.sort == Sort::kObject) std::swap(event.members, levels_[depth + 1].members);
  }
}

bool Elements::next(Value& value) {
  const char* at = rest_.data();
  const char* const end = at + rest_.size();
  while (at < end && (is_space(*at) || *at == ',')) ++at;
  if (at >= end) return false;
  const char* const begin = at;
  value.sort = Sort::kInteger;
  size_t depth = 0;
  do {
    switch (*at) {
      case '"': {
        const char* const quote = at++;
        Sort sort = Sort::kText;
        while ((at = quote_or_escape(at, end)) < end && *at == '\\') {
          sort = Sort::kEscaped;
          at += 2;
        }
        if (depth == 0) {
          value = {sort, {quote + 1, static_cast<size_t>(at - quote - 1)}};
          rest_ = {at + 1, static_cast<size_t>(end - at - 1)};
          return true;
        }
        break;
      }
      case '[':
      case '{':
        if (depth++ == 0) value.sort = *at == '[' ? Sort::kList : Sort::kObject;
        break;
      case ']':
      case '}':
        --depth;
        break;
      case '.':
      case 'e':
      case 'E':
        if (depth == 0 && value.sort == Sort::kInteger) value.sort = Sort::kDecimal;
        break;
      default:
        break;
    }
    ++at;
  } while (at < end && (depth != 0 || (*at != ',' && !is_space(*at))));
  value.raw = {begin, static_cast<size_t>(at - begin)};
  switch (*begin) {
    case 'n':
      value.sort = Sort::kNull;
      break;
    case 't':
      value.sort = Sort::kTrue;
      break;
    case 'f':
      value.sort = Sort::kFalse;
      break;
    case 'N':
    case 'I':
      value.sort = Sort::kConstant;
      break;
    default:
      if (value.raw == "-Infinity") value.sort = Sort::kConstant;
  }
  rest_ = {at, static_cast<size_t>(end - at)};
  return true;
}

}  // namespace opscope::readers
