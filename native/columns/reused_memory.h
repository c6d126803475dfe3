// Reuses memory of large arrays during computations on many of them.
//
// The C library returns a block of many MiB to the kernel, which clears every page of the next one: for
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
  // The C library provides smaller blocks, and all blocks outside of computations.
  static constexpr size_t kSmallestBytes = 1 << 20;
  // Minimum size of an allocation from the kernel.
  static constexpr size_t kChunkBytes = 64 << 20;
  // Maximum free memory to keep, or a quarter of the memory in use if that is more.
  static constexpr size_t kKeptBytes = 256 << 20;

  // One per process; never destroyed, as arrays may outlive all other objects.
  static ReusedMemory& instance();

  ReusedMemory() = default;
  ReusedMemory(const ReusedMemory&) = delete;
  ReusedMemory& operator=(const ReusedMemory&) = delete;

  // Keeps freed memory until as many computations have ended as begun. From any thread, in pairs.
  void begin();
  void end();

  // Like malloc, calloc, realloc and free; thread-safe. nullptr without memory.
  void* allocate(size_t size);
  void* allocate_cleared(size_t count, size_t size);
  void* reallocate(void* data, size_t size);
  void release(void* data);

  struct Amounts {
    size_t used_bytes;
    size_t kept_bytes;  // free memory that is not returned to the kernel
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
