// Buffers that a device's library fills with records and a thread of ours parses.
//
// The library asks for buffers and hands them back on threads of its choice, the program's included. So
// take() and give_back() only move pointers, and a launch never waits for a parser.
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

  // `parse` gets the filled part of one buffer at a time, on our thread, and raises nothing.
  explicit RecordBuffers(std::function<void(uint8_t* buffer, size_t valid)> parse)
      : parse_(std::move(parse)) {}
  RecordBuffers(const RecordBuffers&) = delete;
  RecordBuffers& operator=(const RecordBuffers&) = delete;

  // [MT]
  void set_budget(size_t bytes);
  // [MT] Makes the first buffers, and the thread if there is none yet. False where no thread can be started.
  bool start();
  // [MT] A buffer for the library, all zero. nullptr if none is left of the budget, unless `must`.
  uint8_t* take(bool must) noexcept;
  // [MT] The library is done with a buffer (nullptr for none), of which `valid` bytes are records. `dropped`
  // records found no buffer meanwhile.
  void give_back(uint8_t* buffer, size_t valid, size_t dropped) noexcept;
  // [MT] Returns when all that was given back before is parsed.
  void wait_until_parsed();

  // [MT] Records that found no buffer, since the last call.
  uint64_t take_dropped();
  // [MT] How often take() had no buffer to give, since forget().
  uint64_t refused();
  // [MT] Forgets both counts.
  void forget();

 private:
  struct Filled {
    uint8_t* buffer;
    size_t valid;
  };

  void parse_forever();
  bool keep(uint8_t* buffer) noexcept;  // under mutex_; false if it is freed instead

  const std::function<void(uint8_t*, size_t)> parse_;
  std::mutex mutex_;
  std::condition_variable filled_or_idle_;
  std::vector<uint8_t*> free_;
  std::deque<Filled> filled_;
  size_t max_buffers_ = 64;  // a burst of a million records, if the parser gets no processor meanwhile
  size_t buffers_ = 0;       // that there are: free, filled and with the library
  uint64_t refused_ = 0;
  uint64_t dropped_ = 0;
  bool parsing_ = false;
  bool has_thread_ = false;
};

}  // namespace opscope::gpu
