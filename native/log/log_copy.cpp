#include "log/log_copy.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "log/checked_view.h"
#include "log/stream.h"
#include "log/window_facts.h"

namespace opscope {

namespace {

constexpr std::string_view kMagic = "OPSCOPE log";

// First bytes of a copy; they must match completely.
std::string signature() {
  ByteWriter out;
  out.bytes = kMagic;
  out.put(kLogVersion);
  out.put(uint64_t{sizeof(Record)});
  out.put(uint64_t{kBlockBytes});
  return out.bytes;
}

// Calls function(field) for each plain field of a thread's facts.
template <typename Thread, typename Function>
void for_each_field_of_thread(Thread& thread, Function&& function) {
  function(thread.facts.number);
  function(thread.facts.native_thread);
  function(thread.facts.system_thread_id);
  function(thread.facts.torch_thread_id);
  function(thread.begin);
  function(thread.end);
  function(thread.dropped);
}

void put_threads(ByteWriter& out, const LogView& view) {
  out.put(uint64_t{view.threads.size()});
  for (const ThreadView& thread : view.threads) {
    for_each_field_of_thread(thread, [&](const auto& field) { out.put(field); });
    out.put_text(thread.facts.name);
  }
}

void get_threads(ByteReader& in, LogView& view) {
  in.get_each(view.threads, [&in](ThreadView& thread) {
    for_each_field_of_thread(thread, [&in](auto& field) { in.get(field); });
    thread.facts.name = in.get_text();
  });
}

// Kind and content of a block, even if a stream has marked it as spent.
struct CopiedBlock {
  BlockKind kind;
  const void* memory;

  std::string_view rest() const {
    return {static_cast<const char*>(memory) + sizeof(BlockKind), kBlockBytes - sizeof(BlockKind)};
  }
};
static_assert(offsetof(BlockHeader, kind) == 0 && sizeof(std::atomic<BlockKind>) == sizeof(BlockKind));

std::vector<CopiedBlock> blocks_of(const LogView& view) {
  std::vector<CopiedBlock> blocks;
  for (const ThreadView& thread : view.threads) {
    uint64_t first_arena_block = UINT64_MAX;
    for (const Chunk* chunk : thread.chunks) {
      if (chunk->end_index() <= thread.begin || chunk->first_index() >= thread.end) continue;
      first_arena_block = std::min(first_arena_block, chunk->header.first_arena_block);
      blocks.push_back({BlockKind::kRecords, chunk});
    }
    for (const ArenaBlock* block : thread.arena) {
      if (block->header.sequence >= first_arena_block) blocks.push_back({BlockKind::kArena, block});
    }
  }
  for (const auto& journal : view.journals) {
    for (const JournalBlock* block : journal) blocks.push_back({BlockKind::kJournal, block});
  }
  return blocks;
}

// Header before the blocks.
ByteWriter head_of(const LogView& view, size_t blocks) {
  ByteWriter out;
  out.bytes = signature();
  put_window(out, view);
  put_threads(out, view);
  out.put(uint64_t{blocks});
  return out;
}

}  // namespace

int write_log(const LogView& view, const std::function<int(std::string_view)>& write) {
  const std::vector<CopiedBlock> blocks = blocks_of(view);
  const ByteWriter out = head_of(view, blocks.size());
  int error = write(out.bytes);
  for (const CopiedBlock& block : blocks) {
    if (error == 0) error = write(field_of(block.kind));
    if (error == 0) error = write(block.rest());
  }
  return error;
}

int write_bytes(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written < 0 ? errno : EIO;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

CopiedLog::CopiedLog(std::string_view bytes) {
  ByteReader in(bytes);
  const std::string expected = signature();
  if (!bytes.starts_with(expected))
    throw Damage("not the copy of a log, or one of another version of opscope");
  in.take(expected.size());
  get_window(in, view_);
  get_threads(in, view_);
  const uint64_t count = in.get_count(kBlockBytes);
  const size_t size = count * kBlockBytes;
  blocks_.reset(static_cast<char*>(operator new[](size, std::align_val_t{alignof(BlockHeader)})));
  std::memcpy(blocks_.get(), in.take(size).data(), size);
  for (size_t at = 0; at < size; at += kBlockBytes)
    add_block(*reinterpret_cast<const BlockHeader*>(blocks_.get() + at));
  check_view(view_);
  view_.texts = Texts(view_.journals);
}

void CopiedLog::add_block(const BlockHeader& block) {
  const BlockKind kind = block.kind.load(std::memory_order_relaxed);
  if (kind == BlockKind::kJournal) {
    require(block.owner <= Stream::kJournal, "no journal has this number");
    if (block.owner >= view_.journals.size()) view_.journals.resize(block.owner + 1);
    return add_in_order(view_.journals[block.owner], block);
  }
  for (ThreadView& thread : view_.threads) {
    if (static_cast<uint32_t>(thread.facts.number) != block.owner) continue;
    if (kind == BlockKind::kRecords) add_in_order(thread.chunks, block);
    if (kind == BlockKind::kArena) add_in_order(thread.arena, block);
  }
}

}  // namespace opscope
