#include "log/log_copy.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace opscope {

namespace {

constexpr std::string_view kMagic = "OPSCOPE log";

class Writer {
 public:
  template <typename Value>
    requires std::is_trivially_copyable_v<Value>
  void put(const Value& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void put_text(std::string_view text) {
    put(uint64_t{text.size()});
    bytes.append(text);
  }
  template <typename Value>
  void put_all(const std::vector<Value>& values) {
    put(uint64_t{values.size()});
    for (const Value& value : values) put(value);
  }

  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::string_view take(size_t count) {
    if (count > bytes_.size()) throw std::invalid_argument("the copy of a log ends early");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  template <typename Value>
    requires std::is_trivially_copyable_v<Value>
  void get(Value& value) {
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
  }
  uint64_t get_count(size_t bytes_each) {
    uint64_t count = 0;
    get(count);
    if (count > bytes_.size() / bytes_each) throw std::invalid_argument("the copy of a log ends early");
    return count;
  }
  std::string get_text() { return std::string(take(get_count(1))); }
  template <typename Value>
  void get_all(std::vector<Value>& values) {
    values.resize(get_count(sizeof(Value)));
    for (Value& value : values) get(value);
  }

 private:
  std::string_view bytes_;
};

// What a copy begins with, which is compared as a whole.
std::string signature() {
  Writer out;
  out.bytes = kMagic;
  out.put(kLogVersion);
  out.put(uint64_t{sizeof(Record)});
  out.put(uint64_t{kBlockBytes});
  return out.bytes;
}

// Calls function(field) for each plain field of what is known of a window, of a thread.
template <typename View, typename Function>
void for_each_field(View& view, Function&& function) {
  function(view.origin);
  function(view.recent_rate);
  function(view.window.wants);
  function(view.window.process_ids);
  function(view.window.started);
  function(view.window.stopped);
  function(view.window.tensors_not_held);
  function(view.window.unknown_frees);
  function(view.window.of_ending_threads);
  function(view.window.unhooked_threads);
  function(view.window.process_threads);
}
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

void put_facts(Writer& out, const LogView& view) {
  for_each_field(view, [&](const auto& field) { out.put(field); });
  out.put_all(view.window.pauses);
  out.put(uint64_t{view.window.initial_stacks.size()});
  for (const InitialStack& stack : view.window.initial_stacks) {
    out.put(stack.native_thread);
    out.put(stack.system_thread_id);
    out.put_all(stack.frames);
  }
  out.put_text(view.window.fault);
  out.put(uint64_t{view.window.notes.size()});
  for (const LedgerNote& note : view.window.notes) {
    out.put_text(note.source);
    out.put_text(note.what);
    out.put(note.value);
  }
  out.put(uint64_t{view.threads.size()});
  for (const ThreadView& thread : view.threads) {
    for_each_field_of_thread(thread, [&](const auto& field) { out.put(field); });
    out.put_text(thread.facts.name);
  }
}

void get_facts(Reader& in, LogView& view) {
  for_each_field(view, [&](auto& field) { in.get(field); });
  in.get_all(view.window.pauses);
  view.window.initial_stacks.resize(in.get_count(sizeof(uint64_t)));
  for (InitialStack& stack : view.window.initial_stacks) {
    in.get(stack.native_thread);
    in.get(stack.system_thread_id);
    in.get_all(stack.frames);
  }
  view.window.fault = in.get_text();
  view.window.notes.resize(in.get_count(sizeof(uint64_t)));
  for (LedgerNote& note : view.window.notes) {
    note.source = in.get_text();
    note.what = in.get_text();
    in.get(note.value);
  }
  view.threads.resize(in.get_count(sizeof(uint64_t)));
  for (ThreadView& thread : view.threads) {
    for_each_field_of_thread(thread, [&](auto& field) { in.get(field); });
    thread.facts.name = in.get_text();
  }
}

std::vector<const void*> blocks_of(const LogView& view) {
  std::vector<const void*> blocks;
  for (const ThreadView& thread : view.threads) {
    uint64_t first_arena_block = UINT64_MAX;
    for (const Chunk* chunk : thread.chunks) {
      if (chunk->end_index() <= thread.begin || chunk->first_index() >= thread.end) continue;
      first_arena_block = std::min(first_arena_block, chunk->header.first_arena_block);
      blocks.push_back(chunk);
    }
    for (const ArenaBlock* block : thread.arena) {
      if (block->header.sequence >= first_arena_block) blocks.push_back(block);
    }
  }
  for (const auto& journal : view.journals) blocks.insert(blocks.end(), journal.begin(), journal.end());
  return blocks;
}

template <typename Block>
void add_in_order(std::vector<const Block*>& blocks, const BlockHeader& block) {
  blocks.push_back(reinterpret_cast<const Block*>(&block));
  const auto earlier = [](const Block* a, const Block* b) { return a->header.sequence < b->header.sequence; };
  for (size_t i = blocks.size(); --i > 0 && earlier(blocks[i], blocks[i - 1]);)
    std::swap(blocks[i], blocks[i - 1]);
}

}  // namespace

std::string copy_log(const LogView& view) {
  Writer out;
  out.bytes = signature();
  put_facts(out, view);
  const std::vector<const void*> blocks = blocks_of(view);
  out.put(uint64_t{blocks.size()});
  out.bytes.reserve(out.bytes.size() + blocks.size() * kBlockBytes);
  for (const void* block : blocks) out.bytes.append(static_cast<const char*>(block), kBlockBytes);
  return std::move(out.bytes);
}

CopiedLog::CopiedLog(std::string_view bytes) {
  Reader in(bytes);
  const std::string expected = signature();
  if (!bytes.starts_with(expected))
    throw std::invalid_argument("not the copy of a log, or one of another version of opscope");
  in.take(expected.size());
  get_facts(in, view_);
  const uint64_t count = in.get_count(kBlockBytes);
  const size_t size = count * kBlockBytes;
  blocks_.reset(static_cast<char*>(operator new[](size, std::align_val_t{alignof(BlockHeader)})));
  std::memcpy(blocks_.get(), in.take(size).data(), size);
  for (size_t at = 0; at < size; at += kBlockBytes)
    add_block(*reinterpret_cast<const BlockHeader*>(blocks_.get() + at));
  view_.texts = Texts(view_.journals);
}

void CopiedLog::add_block(const BlockHeader& block) {
  const BlockKind kind = block.kind.load(std::memory_order_relaxed);
  if (kind == BlockKind::kJournal) {
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
