// Arithmetic of times that wraps on overflow: times of a damaged file may be anything.
#pragma once

#include <cstdint>

namespace opscope::writers {

inline int64_t sum_of(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t difference_of(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

}  // namespace opscope::writers
