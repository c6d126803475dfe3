// Times and integers from arbitrary JSON.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "parsers/json_value.h"

namespace opscope::readers {

using Wide = __int128;

// A time in microseconds as nanoseconds, rounded half to even; nullopt if it is no usable time.
std::optional<int64_t> nanoseconds(const Value& value);

// The value if it is an integer, or the text of one, of up to 20 digits.
std::optional<Wide> whole(const Value& value);

// Range of valid integers.
struct Bounds {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
};

inline constexpr Bounds kInt64{};
inline constexpr Bounds kInt32{std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
inline constexpr Bounds kInt8{-128, 127};

inline int64_t integer(const Value& value, int64_t otherwise, Bounds bounds = kInt64) {
  if (value.sort == Sort::kMissing) return otherwise;
  const std::optional<Wide> found = whole(value);
  return found && *found >= bounds.low && *found <= bounds.high ? static_cast<int64_t>(*found) : otherwise;
}

// Whether a text is a number with a fraction or an exponent, as Python prints floats.
bool is_float(std::string_view text);

}  // namespace opscope::readers
