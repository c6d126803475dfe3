#include "interpreter/thread_of_pthread.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace opscope {

namespace {

constexpr size_t kMostBytes = 4096;  // searched for the number; the structure is larger

// Copies from an address that may be unmapped. False: it is unmapped.
bool read_memory(uintptr_t address, void* to, size_t size) {
  const iovec here{to, size};
  const iovec there{reinterpret_cast<void*>(address), size};
  return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == static_cast<ssize_t>(size);
}

using Places = std::vector<size_t>;  // offsets from the pthread_t

// Offsets at which the C library has this thread's number, or an equal number by chance.
Places places_of_own_number() {
  const auto own = static_cast<pid_t>(syscall(SYS_gettid));
  const auto begin = reinterpret_cast<uintptr_t>(reinterpret_cast<void*>(pthread_self()));
  Places places;
  pid_t number = 0;
  for (size_t at = 0; at < kMostBytes && read_memory(begin + at, &number, sizeof number);
       at += sizeof number) {
    if (number == own) places.push_back(at);
  }
  return places;
}

// Offset of the number, common to two threads. -1 if there is none, or no second thread can be started.
ptrdiff_t place_of_number() {
  Places others;
  try {
    std::thread([&others] { others = places_of_own_number(); }).join();
  } catch (const std::system_error&) {
    return -1;
  }
  for (const size_t place : places_of_own_number()) {
    if (std::find(others.begin(), others.end(), place) != others.end()) return static_cast<ptrdiff_t>(place);
  }
  return -1;
}

}  // namespace

int64_t system_thread_id_of(pthread_t thread) {
  static const ptrdiff_t place = place_of_number();
  pid_t number = 0;
  const auto begin = reinterpret_cast<uintptr_t>(reinterpret_cast<void*>(thread));
  const bool is_there = place >= 0 && read_memory(begin + static_cast<size_t>(place), &number, sizeof number);
  return is_there && number > 0 ? number : 0;
}

}  // namespace opscope
