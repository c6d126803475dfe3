// Texts that records refer to by number (names, functions, modules), appended when they are first met, so
// that nothing has to be asked of a process when its recording is decoded.
//
// A journal is a stream of entries over blocks: a head, then its fields, each of them a length and that many
// bytes. Entries may begin in one block and end in another.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <mutex>
#include <string_view>

#include "log/block_pool.h"

namespace opscope {

enum class EntryKind : uint32_t {
  kName = 1,       // text, overload
  kFunction = 2,   // file, function, first line, line table
  kModule = 3,     // address, address of its class, name of its class
  kOptimizer = 4,  // likewise
};

struct EntryHead {
  uint32_t bytes;  // of the fields
  EntryKind kind;
  uint32_t id;  // what records call it
};

struct JournalBlock {
  BlockHeader header;
  static constexpr size_t kBytes = kBlockBytes - sizeof(BlockHeader);
  char bytes[kBytes];
};
static_assert(sizeof(JournalBlock) == kBlockBytes);

// A number as a field.
template <typename Number>
std::string_view field_of(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

class Journal {
 public:
  // `number` tells the journals of a process apart.
  Journal(BlockPool& pool, uint32_t number) : pool_(pool), number_(number) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() { forget(); }

  // [MT] False if there is no memory for it; then nothing is appended.
  bool append(EntryKind kind, uint32_t id, std::initializer_list<std::string_view> fields) noexcept;

  // [MT] Gives all blocks back. Nobody may be reading.
  void forget();

  // [reader] The first block, or nullptr.
  const BlockHeader* head() const { return head_.load(std::memory_order_acquire); }

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  bool make_room(size_t bytes);
  void write(std::string_view entry);

  std::mutex mutex_;
  std::atomic<BlockHeader*> head_{nullptr};
  BlockHeader* tail_ = nullptr;  // the block being written to, which may have successors
  BlockPool& pool_;
  const uint32_t number_;
  uint64_t next_sequence_ = 0;
};

}  // namespace opscope
