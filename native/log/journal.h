// Texts that records refer to by number (names, functions, modules). They are appended at first use, so
// decoding a recording needs nothing else of its process.
//
// A journal is a stream of entries over blocks. An entry is a head and fields; a field is a length and that
// many bytes. Entries may span blocks.
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
  kOptimizer = 4,  // same fields as kModule
  // In the journal of a stream; the last entry of a kind is valid.
  kWindow = 5,   // facts of the window (window_facts.h); id: 1 once it has closed
  kAbout = 6,    // a text from the process that began the stream
  kNote = 7,     // a text added during the recording; all are kept
  kDevices = 8,  // work of devices, in its own journal; id: which part (gpu/device_notes.h)
};

struct EntryHead {
  uint32_t bytes;  // of the fields
  EntryKind kind;
  uint32_t id;  // number in records
};

struct JournalBlock {
  BlockHeader header;
  static constexpr size_t kBytes = kBlockBytes - sizeof(BlockHeader);
  char bytes[kBytes];
};
static_assert(sizeof(JournalBlock) == kBlockBytes);

// Bytes of a number, as a field.
template <typename Number>
std::string_view field_of(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

// Bytes of a journal, its blocks in order.
std::string joined(const std::vector<const JournalBlock*>& blocks);

// Calls function(head, fields) for each complete entry of a journal.
template <typename Function>
void for_each_entry(std::string_view journal, Function&& function) {
  EntryHead head;
  while (journal.size() >= sizeof(head)) {
    std::memcpy(&head, journal.data(), sizeof(head));
    journal.remove_prefix(sizeof(head));
    if (journal.size() < head.bytes) return;  // incomplete: being written
    function(head, journal.substr(0, head.bytes));
    journal.remove_prefix(head.bytes);
  }
}

// Removes and returns the first field; empty if there is none.
std::string_view take_field(std::string_view& fields);

class Journal {
 public:
  // `number` identifies the journal within a process. `is_streamed`: its blocks are in the stream's file.
  Journal(BlockPool& pool, uint32_t number, bool is_streamed = false)
      : pool_(pool), number_(number), is_streamed_(is_streamed) {}
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;
  ~Journal() { forget(); }

  // [MT] False if memory is short; then nothing is appended.
  bool append(EntryKind kind, uint32_t id, std::initializer_list<std::string_view> fields) noexcept;

  // [MT] Also appends existing and future entries to `other`; nullptr ends that. False if `other` has no
  // memory.
  bool copy_to(Journal* other) noexcept;

  // [MT] Bytes of its blocks.
  size_t bytes() {
    const std::lock_guard lock(mutex_);
    return blocks_ * kBlockBytes;
  }

  // [MT] Releases all blocks. No thread may be reading.
  void forget();

  // [reader] First block, or nullptr.
  const BlockHeader* head() const { return head_.load(std::memory_order_acquire); }

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  bool append_bytes(std::string_view entry);  // holding mutex_
  bool make_room(size_t bytes);
  void write(std::string_view entry);

  std::mutex mutex_;
  std::atomic<BlockHeader*> head_{nullptr};
  BlockHeader* tail_ = nullptr;  // current block, possibly with successors
  BlockPool& pool_;
  const uint32_t number_;
  const bool is_streamed_;
  uint64_t next_sequence_ = 0;
  Journal* copied_to_ = nullptr;
  size_t blocks_ = 0;
};

}  // namespace opscope
