#include "parsers/json_numbers.h"

#include <algorithm>
#include <string>
#include <string_view>

namespace opscope::readers {
namespace {

constexpr size_t kMostWholeCharacters = 20;  // "-9223372036854775808" and "18446744073709551615"
constexpr int kExactDigits = 28;             // more digits change no nanosecond
constexpr int kMostExponent = 1 << 24;       // larger: the number is 0, or beyond all times

// Beyond it a sum of base, time and duration could overflow int64.
constexpr int64_t kTimeLimit = int64_t{1} << 61;

bool is_decimal_digit(char c) { return c >= '0' && c <= '9'; }

// Integer from digits with or without a sign.
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

// A decimal number: digits * 10^scale.
struct Decimal {
  unsigned __int128 digits = 0;
  int count = 0;  // of digits, without leading zeros
  int scale = 0;
  bool is_negative = false;
};

// nullopt for other texts.
std::optional<Decimal> decimal_of(std::string_view text) {
  Decimal number;
  const char* at = text.data();
  const char* const end = at + text.size();
  number.is_negative = at < end && *at == '-';
  at += number.is_negative;
  if (at == end || !is_decimal_digit(*at)) return {};
  const auto take = [&](int scale) {
    const bool fits = number.count < kExactDigits;
    if (fits) {
      number.digits = number.digits * 10 + static_cast<unsigned>(*at - '0');
      number.count += number.count > 0 || *at != '0';
    }
    number.scale += fits ? scale : scale + 1;
    ++at;
  };
  while (at < end && is_decimal_digit(*at)) take(0);
  if (at < end && *at == '.')
    for (++at; at < end && is_decimal_digit(*at);) take(-1);
  if (at < end && (*at == 'e' || *at == 'E')) {
    ++at;
    const bool is_small = at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    if (at == end) return {};
    int exponent = 0;
    for (; at < end && is_decimal_digit(*at); ++at) {
      exponent = std::min(exponent * 10 + (*at - '0'), kMostExponent);
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

// nullopt beyond 64 bits.
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

std::optional<int64_t> time_of(std::string_view text) {
  const std::optional<Decimal> number = decimal_of(text);
  const std::optional<int64_t> time = number ? scaled(*number, number->scale + 3) : std::nullopt;
  return time && *time < kTimeLimit && *time > -kTimeLimit ? time : std::nullopt;
}

}  // namespace

std::optional<int64_t> nanoseconds(const Value& value) {
  std::string scratch;
  switch (value.sort) {
    case Sort::kInteger: {
      constexpr Wide kMost = kTimeLimit / 1000;
      const std::optional<Wide> whole = whole_of(value.raw);
      if (!whole || *whole >= kMost || *whole <= -kMost) return {};
      return static_cast<int64_t>(*whole * 1000);
    }
    case Sort::kDecimal:
      return time_of(value.raw);
    case Sort::kText:
    case Sort::kEscaped:
      return time_of(text_of(value, scratch));
    default:
      return {};
  }
}

std::optional<Wide> whole(const Value& value) {
  if (value.sort == Sort::kInteger) return whole_of(value.raw);
  if (!value.is_text()) return {};
  std::string scratch;
  return whole_of(text_of(value, scratch));
}

bool is_float(std::string_view text) {
  const bool is_signed = !text.empty() && text[0] == '-';
  const std::string_view size = text.substr(is_signed);
  return size == "inf" || size == "nan" || decimal_of(text).has_value();
}

}  // namespace opscope::readers
