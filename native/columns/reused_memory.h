// Reuses memory of large arrays during computations on many of them.
//
// The C library gives a block of many MiB back to the kernel, which clears every page of the next one: for
// columns of millions of rows that takes as long as computing them. Freed blocks are kept for later arrays
// until the computation ends; then all free blocks are returned.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace opscope::columns {

class ReusedMemory {
 public:
  // Smaller blocks come from the C library, and all blocks outside of computations.
  static constexpr size_t kSmallestBytes = 1 << 20;
  // What is asked of the kernel at once, at least.
  static constexpr size_t kChunkBytes = 64 << 20;
  // What may be kept; beyond that a quarter of what is in use.
  static constexpr size_t kKeptBytes = 256 << 20;

  // One for the process; never destroyed, as arrays may outlive everything.
  static ReusedMemory& instance();

  ReusedMemory() = default;
  ReusedMemory(const ReusedMemory&) = delete;
  ReusedMemory& operator=(const ReusedMemory&) = delete;

  // What is freed is kept as long as one has begun that has not ended. From any thread, which ends what it
  // has begun.
  void begin();
  void end();

  // As malloc, calloc, realloc and free, from any thread; a null pointer where there is no memory.
  void* allocate(size_t size);
  void* allocate_cleared(size_t count, size_t size);
  void* reallocate(void* data, size_t size);
  void release(void* data);

  struct Amounts {
    size_t used_bytes;
    size_t kept_bytes;  // free, and still the process'
  };
  Amounts amounts();

 private:
  static void before_fork();
  static void after_fork_in_parent();
  static void after_fork_in_child();

  char* take(size_t bytes);
  void add_free(char* place, size_t bytes);
  void give_back_all();
  void give_back_largest();

  std::mutex mutex_;
  std::map<char*, size_t> free_;
  std::set<std::pair<size_t, char*>> free_by_size_;
  size_t used_bytes_ = 0;
  size_t kept_bytes_ = 0;
  size_t begun_ = 0;
};

}  // namespace opscope::columns
