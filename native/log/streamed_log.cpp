#include "log/streamed_log.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "log/stream.h"
#include "log/window_facts.h"

namespace opscope {

namespace {

template <typename Block>
void sort_by_owner(std::vector<const Block*>& blocks) {
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) {
    if (a->header.owner != b->header.owner) return a->header.owner < b->header.owner;
    return a->header.sequence < b->header.sequence;
  });
}

template <typename Block>
std::vector<const Block*> blocks_of(const std::vector<const Block*>& sorted, uint64_t owner) {
  const auto is_before = [](const Block* block, uint64_t number) { return block->header.owner < number; };
  const auto is_after = [](uint64_t number, const Block* block) { return number < block->header.owner; };
  return {std::lower_bound(sorted.begin(), sorted.end(), owner, is_before),
          std::upper_bound(sorted.begin(), sorted.end(), owner, is_after)};
}

// How many of its records are whole.
size_t count_published(const Chunk& chunk) {
  const size_t used = std::min<size_t>(chunk.header.used.load(std::memory_order_acquire), Chunk::kRecords);
  size_t count = 0;
  while (count < used && __atomic_load_n(&chunk.records[count].is_published, __ATOMIC_ACQUIRE) != 0) ++count;
  return count;
}

}  // namespace

StreamedLog::StreamedLog(const std::string& path) {
  map(path);
  try {
    read_blocks();
    read_journal();
    if (!has_window_) throw std::invalid_argument("it ended before anything was recorded");
    keep_covered_threads();
    find_ends();
    if (!has_end_) end_now();
    view_.texts = Texts(view_.journals);
  } catch (...) {
    munmap(memory_, bytes_);
    throw;
  }
}

StreamedLog::~StreamedLog() { munmap(memory_, bytes_); }

void StreamedLog::map(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw std::system_error(errno, std::generic_category(), path);
  struct stat status = {};
  const bool is_known = fstat(file, &status) == 0;
  bytes_ = is_known ? static_cast<size_t>(status.st_size) / kBlockBytes * kBlockBytes : 0;
  void* const memory = bytes_ == 0 ? MAP_FAILED : mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  if (bytes_ == 0) throw std::invalid_argument("it is empty");
  if (memory == MAP_FAILED) throw std::system_error(error, std::generic_category(), path);
  memory_ = static_cast<char*>(memory);
  const StreamHeader& head = header();
  const bool is_stream = std::memcmp(head.magic, kStreamMagic, sizeof(kStreamMagic)) == 0;
  const bool is_same =
      head.version == kLogVersion && head.record_bytes == sizeof(Record) && head.block_bytes == kBlockBytes;
  if (is_stream && is_same) return;
  munmap(memory_, bytes_);
  throw std::invalid_argument(is_stream ? "it was written by another version of opscope"
                                        : "it is no recording, or one that was lost as it began");
}

void StreamedLog::read_blocks() {
  view_.journals.resize(Stream::kJournal + 1);
  for (size_t at = kBlockBytes; at < bytes_; at += kBlockBytes) {
    const auto& block = *reinterpret_cast<const BlockHeader*>(memory_ + at);
    switch (block.kind.load(std::memory_order_acquire)) {
      case BlockKind::kRecords:
        chunks_.push_back(reinterpret_cast<const Chunk*>(&block));
        break;
      case BlockKind::kArena:
        arenas_.push_back(reinterpret_cast<const ArenaBlock*>(&block));
        break;
      case BlockKind::kJournal:
        if (block.owner == Stream::kJournal) add_in_order(view_.journals[block.owner], block);
        break;
      case BlockKind::kThreads:
        read_threads(reinterpret_cast<const ThreadBlock&>(block));
        break;
      default:
        break;
    }
  }
  sort_by_owner(chunks_);
  sort_by_owner(arenas_);
}

void StreamedLog::read_threads(const ThreadBlock& block) {
  const size_t used =
      std::min<size_t>(block.header.used.load(std::memory_order_acquire), ThreadBlock::kSlots);
  for (size_t i = 0; i < used; ++i) {
    const ThreadSlot& slot = block.slots[i];
    if (slot.is_known.load(std::memory_order_acquire) == 0) continue;
    ThreadView& thread = view_.threads.emplace_back();
    thread.facts = slot.facts();
    thread.dropped = {slot.dropped_spans.load(), slot.dropped_allocations.load(), slot.dropped_others.load(),
                      0};
    const uint64_t first = slot.first_loss.load();
    if (first != 0) first_loss_ = first_loss_ == 0 ? first : std::min(first_loss_, first);
    last_loss_ = std::max(last_loss_, slot.last_loss.load());
  }
}

void StreamedLog::read_journal() {
  const std::string journal = joined(view_.journals[Stream::kJournal]);
  for_each_entry(journal, [this](const EntryHead& head, std::string_view fields) {
    if (head.kind == EntryKind::kAbout) about_ = take_field(fields);
    if (head.kind == EntryKind::kNote) notes_.emplace_back(take_field(fields));
    if (head.kind != EntryKind::kWindow) return;
    LogView known;
    ByteReader in(take_field(fields));
    get_window(in, known);
    view_.origin = known.origin;
    view_.recent_rate = known.recent_rate;
    view_.window = std::move(known.window);
    has_window_ = true;
    has_end_ = head.id != 0;
  });
}

void StreamedLog::keep_covered_threads() {
  const int64_t only = view_.window.only_thread;
  std::erase_if(view_.threads, [only](const ThreadView& thread) {
    return only != 0 && thread.facts.system_thread_id != only;
  });
  std::sort(view_.threads.begin(), view_.threads.end(),
            [](const ThreadView& a, const ThreadView& b) { return a.facts.number < b.facts.number; });
}

void StreamedLog::find_ends() {
  for (ThreadView& thread : view_.threads) {
    thread.chunks = blocks_of(chunks_, thread.facts.number);
    thread.arena = blocks_of(arenas_, thread.facts.number);
    find_end(thread);
  }
}

// Of each thread what is whole and without a gap.
void StreamedLog::find_end(ThreadView& thread) {
  if (thread.chunks.empty()) return;
  thread.begin = thread.end = thread.chunks.front()->first_index();
  size_t kept = 0;
  for (; kept < thread.chunks.size() && thread.chunks[kept]->first_index() == thread.end; ++kept) {
    const Chunk& chunk = *thread.chunks[kept];
    const size_t count = count_published(chunk);
    thread.end += count;
    if (chunk.first_index() + count != chunk.end_index()) {
      ++kept;
      break;
    }
  }
  missing_blocks_ += thread.chunks.size() - kept;
  thread.chunks.resize(kept);
}

uint64_t StreamedLog::last_ticks() const {
  uint64_t last = view_.window.started.ticks;
  for (const ThreadView& thread : view_.threads) {
    for_each_record(thread, [&last](uint64_t, const Record& record) {
      last = std::max(last, record.ticks);
      if (is_span(record.kind) && is_closed(record.load_state())) last = std::max(last, record.load_end());
    });
  }
  return last;
}

// What the process counted until the end of a window is not known here.
void StreamedLog::end_now() {
  WindowFacts& window = view_.window;
  const uint64_t moments = header().moment_count.load(std::memory_order_acquire);
  const ClockAnchor last = moments == 0 ? window.started : header().moments[(moments - 1) % 2];
  const ClockAnchor anchor = last.monotonic_ns > window.started.monotonic_ns ? last : window.started;
  const double since_origin = ns_per_tick(view_.origin, anchor);
  const double rate = since_origin > 0 ? since_origin : view_.recent_rate;
  const uint64_t ticks = std::max(last_ticks(), anchor.ticks);
  const auto later_ns = static_cast<int64_t>(static_cast<double>(ticks - anchor.ticks) * rate);
  window.stopped = {ticks, anchor.unix_ns + later_ns, anchor.monotonic_ns + later_ns};
  window.tensors_not_held = window.unknown_frees = window.unheard_evaluations = 0;
  window.unhooked_threads = window.process_threads = 0;
  window.of_ending_threads = {};
}

}  // namespace opscope
