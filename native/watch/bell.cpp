#include "watch/bell.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <ctime>

namespace opscope {

namespace {

// Never destroyed: a signal may come at any time.
std::atomic<uint32_t> rings{0};
static_assert(sizeof(rings) == sizeof(uint32_t) && std::atomic<uint32_t>::is_always_lock_free);

void call_futex(int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, &rings, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

}  // namespace

void Bell::ring() {
  rings.fetch_add(1, std::memory_order_release);
  call_futex(FUTEX_WAKE, INT_MAX, nullptr);
}

uint32_t Bell::rung() { return rings.load(std::memory_order_acquire); }

void Bell::wait(uint32_t heard, int64_t timeout_ns) {
  constexpr int64_t kSecond_ns = 1'000'000'000;
  const timespec timeout{static_cast<time_t>(timeout_ns / kSecond_ns),
                         static_cast<long>(timeout_ns % kSecond_ns)};
  call_futex(FUTEX_WAIT, heard, &timeout);
}

}  // namespace opscope
