// What an instant of a thread may have gone to: opscope.columns.causes.Cause, and sets of these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>

#include "schema/codes.h"

namespace opscope::account {

inline constexpr size_t kCauses = std::size(kAllCauses);

// Of an event without a cause of its own; no instant has it. In columns of causes it is -1.
inline constexpr auto kAsAround = static_cast<Cause>(-1);

class Causes {
 public:
  constexpr Causes(std::initializer_list<Cause> members) {
    for (const Cause one : members) add(one);
  }
  constexpr bool is_empty() const { return bits_ == 0; }
  constexpr void add(Cause one) { bits_ |= 1U << static_cast<int>(one); }
  constexpr bool has(Cause one) const {
    return one != kAsAround && (bits_ >> static_cast<int>(one) & 1U) != 0;
  }

 private:
  uint32_t bits_ = 0;
};

// Whether a thread is expected to be off its processor.
inline bool waits(Cause cause) {
  for (const uint32_t one : kWaits) {
    if (one == cause) return true;
  }
  return false;
}

}  // namespace opscope::account
