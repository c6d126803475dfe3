// One 64-bit number spread over all its bits, as hashes of arguments are made of.
#pragma once

#include <cstdint>

namespace opscope::columns {

// The finaliser of SplitMix64.
inline uint64_t mix(uint64_t value) {
  uint64_t h = value + 0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9u;
  h = (h ^ (h >> 27)) * 0x94D049BB133111EBu;
  return h ^ (h >> 31);
}

}  // namespace opscope::columns
