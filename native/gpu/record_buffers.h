// Buffers that a device's library fills with records and a thread of opscope parses.
//
// The library requests and returns buffers on any threads, even the program's. So take() and give_back() only
// move pointers, and a launch never waits for a parser.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace opscope::gpu {

// Never destroyed: its thread runs until the process ends.
class RecordBuffers {
 public:
  static constexpr size_t kBytes = 4u << 20;  // of each buffer

  // `parse` gets the filled part of one buffer at a time, on opscope's thread, and raises nothing.
  explicit RecordBuffers(std::function<void(uint8_t* buffer, size_t valid)> parse)
      : parse_(std::move(parse)) {}
  RecordBuffers(const RecordBuffers&) = delete;
  RecordBuffers& operator=(const RecordBuffers&) = delete;

  void set_budget(size_t bytes);
  // [MT] Creates the first buffers, and the thread if there is none yet. False: no thread can be started.
  bool start();
  // [MT] A buffer of zeros for the library. nullptr if the budget is used up, unless `must`.
  uint8_t* take(bool must) noexcept;
  // [MT] Takes back a buffer (or nullptr) with `valid` bytes of records; `dropped` records found no buffer.
  void give_back(uint8_t* buffer, size_t valid, size_t dropped) noexcept;
  // [MT] Returns when all buffers given back before are parsed.
  void wait_until_parsed();

  // [MT] Records without a buffer, since the last call.
  uint64_t take_dropped();
  // [MT] Number of times that take() failed, since forget().
  uint64_t refused();
  // [MT] Resets both counts.
  void forget();

 private:
  struct Filled {
    uint8_t* buffer;
    size_t valid;
  };

  void parse_forever();
  bool keep(uint8_t* buffer) noexcept;  // under mutex_; false if the buffer is freed instead

  const std::function<void(uint8_t*, size_t)> parse_;
  std::mutex mutex_;
  std::condition_variable filled_or_idle_;
  std::vector<uint8_t*> free_;
  std::deque<Filled> filled_;
  size_t max_buffers_ = 64;  // a burst of a million records, if the parser gets no CPU time during it
  size_t buffers_ = 0;       // existing ones: free, filled and in the library
  uint64_t refused_ = 0;
  uint64_t dropped_ = 0;
  bool parsing_ = false;
  bool has_thread_ = false;
};

}  // namespace opscope::gpu
