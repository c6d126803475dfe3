// Texts that records refer to by number (names, functions, modules), appended when they are first met, so
// that nothing has to be asked of a process when its recording is decoded.
//
// A journal is a stream of entries over blocks: a head, then its fields, each of them a length and that many
// bytes. Entries may begin in one block and end in another.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "log/block_pool.h"

namespace opscope {

enum class EntryKind : uint32_t {
  kName = 1,       // text, overload
  kFunction = 2,   // file, function, first line, line table
  kModule = 3,     // address, address of its class, name of its class
  kOptimizer = 4,  // likewise
  // Of a stream, each in place of the last one of its kind.
  kWindow = 5,   // what is known of its window (window_facts.h); id: 1 once that has closed
  kAbout = 6,    // a text from the process that began it
  kNote = 7,     // a text added during the recording; all are kept
  kDevices = 8,  // what devices did, in the journal for that; id: what of it (gpu/device_notes.h)
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

// The bytes of a journal, its blocks in order.
std::string joined(const std::vector<const JournalBlock*>& blocks);

// Calls function(head, fields) for each whole entry of a journal.
template <typename Function>
void for_each_entry(std::string_view journal, Function&& function) {
  EntryHead head;
  while (journal.size() >= sizeof(head)) {
    std::memcpy(&head, journal.data(), sizeof(head));
    journal.remove_prefix(sizeof(head));
    if (journal.size() < head.bytes) return;  // being written
    function(head, journal.substr(0, head.bytes));
    journal.remove_prefix(head.bytes);
  }
}

// Takes a field off the front; an empty one where there is none.
std::string_view take_field(std::string_view& fields);

class Journal {
 public:
  // `number` tells the journals of a process apart. `is_streamed`: its blocks are those of the stream that
  // runs.
  Journal(BlockPool& pool, uint32_t number, bool is_streamed = false)
      : pool_(pool), number_(number), is_streamed_(is_streamed) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() { forget(); }

  // [MT] False if there is no memory for it; then nothing is appended.
  bool append(EntryKind kind, uint32_t id, std::initializer_list<std::string_view> fields) noexcept;

  // [MT] From now on all entries, and first those that there are, are appended to `other` too; to none with
  // nullptr. False if `other` has no memory for them.
  bool copy_to(Journal* other) noexcept;

  // [MT] Of the blocks it has.
  size_t bytes() {
    const std::lock_guard lock(mutex_);
    return blocks_ * kBlockBytes;
  }

  // [MT] Returns all blocks. No thread may be reading.
  void forget();

  // [reader] The first block, or nullptr.
  const BlockHeader* head() const { return head_.load(std::memory_order_acquire); }

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  bool append_bytes(std::string_view entry);  // holding mutex_
  bool make_room(size_t bytes);
  void write(std::string_view entry);

  std::mutex mutex_;
  std::atomic<BlockHeader*> head_{nullptr};
  BlockHeader* tail_ = nullptr;  // the block being written to, which may have successors
  BlockPool& pool_;
  const uint32_t number_;
  const bool is_streamed_;
  uint64_t next_sequence_ = 0;
  Journal* copied_to_ = nullptr;
  size_t blocks_ = 0;
};

}  // namespace opscope
