// What an instant of a thread may have gone to: the numbers of opscope.analysis.account.causes.Cause.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace opscope::account {

enum class Cause : int8_t {
  kAsAround = -1,  // of an event without a cause of its own; no instant has it
  kOperator,
  kDispatch,
  kPython,
  kCollection,
  kImport,
  kCompilation,
  kLoader,
  kLock,
  kGil,
  kDevice,
  kCollective,
  kIo,
  kTimer,
  kMemory,
  kDescheduled,
  kProfiler,
  kIdle,
  kCopy,
  kUnknown,
  kBackward,
};
inline constexpr size_t kCauses = 20;

inline constexpr const char* kCauseNames[kCauses] = {
    "OPERATOR",    "DISPATCH", "PYTHON", "COLLECTION", "IMPORT",  "COMPILATION", "LOADER",
    "LOCK",        "GIL",      "DEVICE", "COLLECTIVE", "IO",      "TIMER",       "MEMORY",
    "DESCHEDULED", "PROFILER", "IDLE",   "COPY",       "UNKNOWN", "BACKWARD"};

class Causes {
 public:
  constexpr Causes(std::initializer_list<Cause> members) {
    for (const Cause one : members) add(one);
  }
  constexpr bool is_empty() const { return bits_ == 0; }
  constexpr void add(Cause one) { bits_ |= 1U << static_cast<int>(one); }
  constexpr bool has(Cause one) const {
    return one != Cause::kAsAround && (bits_ >> static_cast<int>(one) & 1U) != 0;
  }

 private:
  uint32_t bits_ = 0;
};

// Where a thread is expected to be off its processor.
inline constexpr Causes kWaits{Cause::kLoader, Cause::kLock,       Cause::kIo,
                               Cause::kTimer,  Cause::kCollective, Cause::kBackward};

}  // namespace opscope::account
