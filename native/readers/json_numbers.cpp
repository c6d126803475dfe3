#include "readers/json_numbers.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace opscope::readers {
namespace {

constexpr size_t kMostWholeCharacters = 20;  // "-9223372036854775808" and "18446744073709551615"
constexpr int kExactDigits = 28;             // what Python's decimals have
constexpr int kMostExponent = 1000;

// Beyond it a sum of base, time and duration could leave int64. Times are compared as doubles, which near
// it are half a microsecond apart.
constexpr int64_t kTimeLimit = int64_t{1} << 61;
constexpr int64_t kNearLimit = 2000;

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<signed char>(c) >= 0; });
}

// Of digits with or without a sign.
std::optional<Wide> whole_of(std::string_view text) {
  const bool is_negative = !text.empty() && text[0] == '-';
  text.remove_prefix(is_negative);
  if (text.empty() || text.size() > kMostWholeCharacters) return {};
  Wide value = 0;
  for (const char c : text) {
    if (!is_decimal_digit(c)) return {};
    value = value * 10 + (c - '0');
  }
  return is_negative ? -value : value;
}

// A number in parts: digits * 10^scale.
struct Decimal {
  unsigned __int128 digits = 0;
  int count = 0;  // of digits, without leading zeros
  int scale = 0;
  bool is_negative = false;
};

// Nothing for what only Python understands, and for more digits than fit.
std::optional<Decimal> decimal_of(std::string_view text) {
  Decimal number;
  const char* at = text.data();
  const char* const end = at + text.size();
  number.is_negative = at < end && *at == '-';
  at += number.is_negative;
  if (at == end || !is_decimal_digit(*at)) return {};
  const auto take = [&] {
    number.digits = number.digits * 10 + static_cast<unsigned>(*at - '0');
    number.count += number.count > 0 || *at != '0';
    ++at;
    return number.count <= kExactDigits;
  };
  while (at < end && is_decimal_digit(*at))
    if (!take()) return {};
  if (at < end && *at == '.') {
    for (++at; at < end && is_decimal_digit(*at);) {
      if (--number.scale < -kMostExponent || !take()) return {};
    }
  }
  if (at < end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool is_small = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    if (at == end) return {};
    int exponent = 0;
    for (; at < end && is_decimal_digit(*at); ++at) {
      exponent = exponent * 10 + (*at - '0');
      if (exponent > kMostExponent) return {};
    }
    number.scale += is_small ? -exponent : exponent;
  }
  if (at != end) return {};
  return number;
}

unsigned __int128 power_of_ten(int exponent) {
  unsigned __int128 power = 1;
  while (exponent-- > 0) power *= 10;
  return power;
}

// Nothing for what is beyond 64 bits.
std::optional<int64_t> scaled(const Decimal& number, int scale) {
  if (number.digits == 0 || number.count + scale < 0) return 0;
  if (number.count + scale > 19) return {};
  unsigned __int128 result = number.digits;
  if (scale >= 0) {
    result *= power_of_ten(scale);
  } else {
    const unsigned __int128 unit = power_of_ten(-scale);
    const unsigned __int128 rest = result % unit;
    result /= unit;
    if (rest * 2 > unit || (rest * 2 == unit && result % 2 == 1)) ++result;
  }
  if (result > static_cast<unsigned __int128>(std::numeric_limits<int64_t>::max())) return {};
  const auto whole = static_cast<int64_t>(result);
  return number.is_negative ? -whole : whole;
}

std::optional<int64_t> time_of(std::string_view text, RareValues& rare) {
  const std::optional<Decimal> number = decimal_of(text);
  if (!number) return rare.nanoseconds(text);
  const std::optional<int64_t> time = scaled(*number, number->scale + 3);
  if (!time) return {};
  const int64_t size = *time < 0 ? -*time : *time;
  if (size < kTimeLimit - kNearLimit) return time;
  return size > kTimeLimit + kNearLimit ? std::nullopt : rare.nanoseconds(text);
}

}  // namespace

std::optional<int64_t> nanoseconds(const Value& value, RareValues& rare) {
  std::string scratch;
  switch (value.sort) {
    case Sort::kInteger: {
      constexpr Wide kMost = kTimeLimit / 1000;
      const std::optional<Wide> whole = whole_of(value.raw);
      if (!whole || *whole >= kMost || *whole <= -kMost) return {};
      return static_cast<int64_t>(*whole * 1000);
    }
    case Sort::kDecimal:
      return time_of(value.raw, rare);
    case Sort::kText:
    case Sort::kEscaped:
      return time_of(text_of(value, scratch), rare);
    default:
      return {};
  }
}

std::optional<Wide> whole(const Value& value, RareValues& rare) {
  if (value.sort == Sort::kInteger) return whole_of(value.raw);
  if (!value.is_text()) return {};
  std::string scratch;
  const std::string_view text = text_of(value, scratch);
  if (!is_ascii(text)) return rare.whole(text);
  return text.size() > kMostWholeCharacters ? std::nullopt : whole_of(text);
}

}  // namespace opscope::readers
