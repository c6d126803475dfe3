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

#include "log/checked_view.h"
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

// Number of complete records from the start of a chunk.
size_t count_published(const Chunk& chunk) {
  const size_t used = chunk.count();
  size_t count = 0;
  while (count < used && __atomic_load_n(&chunk.records[count].is_published, __ATOMIC_ACQUIRE) != 0) ++count;
  return count;
}

constexpr size_t kMappedBytes = 256 * kBlockBytes;  // of a file whose headers are read

// Drops the blocks after a missing one, because entries span blocks and the start of the next entry is
// unknown. Returns the number of dropped blocks.
size_t leave_after_gap(std::vector<const JournalBlock*>& journal) {
  size_t kept = 0;
  while (kept < journal.size() && journal[kept]->header.sequence == kept) ++kept;
  const size_t left_out = journal.size() - kept;
  journal.resize(kept);
  return left_out;
}

}  // namespace

StreamedLog::StreamedLog(const std::string& path, DrainedParts drained)
    : path_(path), drained_(std::move(drained)) {
  map(path);
  try {
    read_blocks();
    choose_journal();
    read_journal();
    if (header().ring != RingState::kNone) find_begins_of_ring();
    if (!has_window_) throw NothingRecorded("it ended before anything was recorded");
    keep_covered_threads();
    find_ends();
    check_view(view_);
    if (!has_end_) end_now();
    view_.texts = Texts(view_.journals);
    madvise(memory_, bytes_, MADV_DONTNEED);  // decoding reads one part at a time
  } catch (...) {
    munmap(memory_, bytes_);
    throw;
  }
}

StreamedLog::~StreamedLog() { munmap(memory_, bytes_); }

void StreamedLog::map(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0) throw std::system_error(errno, std::generic_category(), path);
  struct stat status = {};
  const bool is_known = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  bytes_ = is_known ? static_cast<size_t>(status.st_size) / kBlockBytes * kBlockBytes : 0;
  void* const memory = bytes_ == 0 ? MAP_FAILED : mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file, 0);
  const int error = errno;
  close(file);
  if (bytes_ == 0) throw NothingRecorded("it is empty");
  if (memory == MAP_FAILED) throw std::system_error(error, std::generic_category(), path);
  memory_ = static_cast<char*>(memory);
  const StreamHeader& head = header();
  const bool is_stream = std::memcmp(head.magic, kStreamMagic, sizeof(kStreamMagic)) == 0;
  const bool is_same =
      head.version == kLogVersion && head.record_bytes == sizeof(Record) && head.block_bytes == kBlockBytes;
  if (is_stream && is_same) return;
  const std::string magic(head.magic, sizeof(head.magic));
  munmap(memory_, bytes_);
  if (is_stream) throw Damage("it was written by another version of opscope");
  if (magic == std::string(magic.size(), '\0')) throw NothingRecorded("it was lost when it began");
  throw Damage("it is not a recording");
}

void StreamedLog::read_blocks() {
  for (size_t at = kBlockBytes; at < bytes_; at += kBlockBytes) {
    // Reading a header maps the pages around it: without this, all of the file at once.
    if (at % kMappedBytes == 0) madvise(memory_ + at - kMappedBytes, kMappedBytes, MADV_DONTNEED);
    const auto& block = *reinterpret_cast<const BlockHeader*>(memory_ + at);
    switch (block.kind.load(std::memory_order_acquire)) {
      case BlockKind::kRecords:
        chunks_.push_back(reinterpret_cast<const Chunk*>(&block));
        break;
      case BlockKind::kArena:
        arenas_.push_back(reinterpret_cast<const ArenaBlock*>(&block));
        break;
      case BlockKind::kJournal:
        if (block.owner == Stream::kDevices)
          add_in_order(devices_, block);
        else if (block.owner >= Stream::kJournal)
          add_in_order(journals_[block.owner], block);
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
  missing_blocks_ += leave_after_gap(devices_);
}

void StreamedLog::read_threads(const ThreadBlock& block) {
  const size_t used =
      std::min<size_t>(block.header.used.load(std::memory_order_acquire), ThreadBlock::kSlots);
  for (size_t i = 0; i < used; ++i) {
    const ThreadSlot& slot = block.slots[i];
    if (slot.is_known.load(std::memory_order_acquire) == 0) continue;
    slots_.emplace_back(&slot, slot.number);
    ThreadView& thread = view_.threads.emplace_back();
    thread.facts = slot.facts();
    thread.dropped = {slot.dropped_spans.load(), slot.dropped_allocations.load(), slot.dropped_others.load()};
    const uint64_t first = slot.first_loss.load();
    if (first != 0) first_loss_ = first_loss_ == 0 ? first : std::min(first_loss_, first);
    last_loss_ = std::max(last_loss_, slot.last_loss.load());
  }
}

// Uses the newest journal with facts of its window; a ring may also still have the one before it.
void StreamedLog::choose_journal() {
  const auto has_window = [](const std::vector<const JournalBlock*>& blocks) {
    bool found = false;
    for_each_entry(joined(blocks), [&found](const EntryHead& head, std::string_view) {
      found = found || head.kind == EntryKind::kWindow;
    });
    return found;
  };
  view_.journals.resize(Stream::kJournal + 1);
  for (auto one = journals_.rbegin(); one != journals_.rend(); ++one) {
    const size_t left_out = leave_after_gap(one->second);
    view_.journals[Stream::kJournal] = one->second;
    if (!has_window(one->second)) continue;
    missing_blocks_ += left_out;
    return;
  }
}

// Records of a ring before its oldest window are not needed.
void StreamedLog::find_begins_of_ring() {
  for (const auto& [slot, number] : slots_) {
    drained_[number].end = slot->drained.load(std::memory_order_acquire);
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

uint64_t StreamedLog::drained_of(uint64_t thread) const {
  const auto known = drained_.find(thread);
  return known == drained_.end() ? 0 : known->second.end;
}

// Keeps what a ring's window needs. If the file had no room for some, records after the last gap matter more.
void StreamedLog::keep_last_run(ThreadView& thread) {
  const uint64_t begin = drained_of(thread.facts.number);
  std::erase_if(thread.chunks, [begin](const Chunk* chunk) { return chunk->end_index() <= begin; });
  const auto has_gap = [](const Chunk* a, const Chunk* b) { return a->end_index() != b->first_index(); };
  const auto gap =
      std::adjacent_find(thread.chunks.rbegin(), thread.chunks.rend(),
                         [&](const Chunk* later, const Chunk* sooner) { return has_gap(sooner, later); });
  if (gap != thread.chunks.rend()) {
    const auto first = gap.base() - 1;
    missing_blocks_ += static_cast<uint64_t>(first - thread.chunks.begin());
    thread.chunks.erase(thread.chunks.begin(), first);
  }
  const uint64_t first_arena_block =
      thread.chunks.empty() ? UINT64_MAX : thread.chunks.front()->header.first_arena_block;
  std::erase_if(thread.arena, [first_arena_block](const ArenaBlock* block) {
    return block->header.sequence < first_arena_block;
  });
}

// Keeps complete records of a thread without gaps.
void StreamedLog::find_end(ThreadView& thread) {
  if (header().ring != RingState::kNone) keep_last_run(thread);
  if (thread.chunks.empty()) return;
  const uint64_t drained = drained_of(thread.facts.number);
  // Drained chunks at the start are those with an open span.
  size_t kept = 0;
  while (kept < thread.chunks.size() && thread.chunks[kept]->end_index() <= drained) ++kept;
  thread.begin = thread.end = drained;
  if (kept == thread.chunks.size()) return;
  const uint64_t first = thread.chunks[kept]->first_index();
  thread.begin = std::max(first, drained);
  thread.end = first;
  for (; kept < thread.chunks.size() && thread.chunks[kept]->first_index() == thread.end; ++kept) {
    const Chunk& chunk = *thread.chunks[kept];
    const size_t count = count_published(chunk);
    thread.end += count;
    if (chunk.first_index() + count != chunk.end_index()) {
      ++kept;
      break;
    }
  }
  thread.published = thread.end;
  missing_blocks_ += thread.chunks.size() - kept;
  thread.chunks.resize(kept);
}

std::string StreamedLog::devices() const { return joined(devices_); }

std::vector<Gap> StreamedLog::gaps() const {
  const StreamHeader& head = header();
  const auto count = std::min<uint64_t>(head.gap_count.load(std::memory_order_acquire), StreamHeader::kGaps);
  return {head.gaps, head.gaps + count};
}

uint64_t StreamedLog::moment_of(uint64_t records) const {
  struct Part {
    uint64_t ticks;
    uint64_t records;
  };
  std::vector<Part> parts;
  for (const ThreadView& thread : view_.threads) {
    for (const Chunk* chunk : thread.chunks) {
      const uint64_t first = chunk->first_index();
      const uint64_t begin = std::max(first, thread.begin);
      const uint64_t end = std::min(first + chunk->count(), thread.published);
      if (begin < end) parts.push_back({chunk->records[begin - first].ticks, end - begin});
    }
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.ticks < b.ticks; });
  for (const Part& part : parts) {
    if (records < part.records) return part.ticks;
    records -= part.records;
  }
  return UINT64_MAX;
}

namespace {

bool has_open_span(const Chunk& chunk) {
  return std::any_of(chunk.records, chunk.records + chunk.count(), [](const Record& record) {
    return is_span(record.kind) && record.load_state() == SpanState::kOpen;
  });
}

class Marks {
 public:
  explicit Marks(const std::string& path)
      : file_(open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)) {
    if (file_ < 0) throw std::system_error(errno, std::generic_category(), path);
  }
  Marks(const Marks&) = delete;
  Marks& operator=(const Marks&) = delete;
  ~Marks() { close(file_); }

  template <typename Value>
  void write(size_t offset, Value value) const {
    if (pwrite(file_, &value, sizeof(value), static_cast<off_t>(offset)) != sizeof(value))
      throw std::system_error(errno, std::generic_category());
  }

 private:
  const int file_;
};

}  // namespace

void StreamedLog::narrow(const DrainedParts& drained, uint64_t records) {
  for (ThreadView& thread : view_.threads) {
    const auto part = drained.find(thread.facts.number);
    const uint64_t before = thread.begin;
    if (part != drained.end()) thread.begin = std::max(before, part->second.end);
    leave_before(thread, before);
  }
  const uint64_t until = moment_of(records);
  for (ThreadView& thread : view_.threads) {
    thread.end = thread.published;
    for (const Chunk* chunk : thread.chunks) {
      if (chunk->end_index() <= thread.begin || chunk->records[0].ticks <= until) continue;
      thread.end = std::max(std::min(thread.end, chunk->first_index()), thread.begin);
      break;
    }
  }
}

// Removes chunks that were read, except those with open spans; before `from`, only such chunks are left.
void StreamedLog::leave_before(ThreadView& thread, uint64_t from) const {
  uint64_t first_arena_block = 0;
  const auto is_read = [&](const Chunk* chunk) { return chunk->end_index() <= thread.begin; };
  const auto unread = std::find_if_not(thread.chunks.begin(), thread.chunks.end(), is_read);
  if (unread != thread.chunks.end()) first_arena_block = (*unread)->header.first_arena_block;
  const auto kept = std::remove_if(thread.chunks.begin(), unread, [from](const Chunk* chunk) {
    if (chunk->end_index() <= from || has_open_span(*chunk)) return false;
    madvise(const_cast<Chunk*>(chunk), kBlockBytes, MADV_DONTNEED);
    return true;
  });
  thread.chunks.erase(kept, unread);
  const auto needed = std::find_if(thread.arena.begin(), thread.arena.end(), [&](const ArenaBlock* block) {
    return block->header.sequence >= first_arena_block;
  });
  for (auto block = thread.arena.begin(); block != needed; ++block)
    madvise(const_cast<ArenaBlock*>(*block), kBlockBytes, MADV_DONTNEED);
  thread.arena.erase(thread.arena.begin(), needed);
}

// Keeps a thread's last chunk, to which it writes. Uses write calls, because the mapping is read-only.
void StreamedLog::mark_spent(const DrainedParts& drained) const {
  const Marks marks(path_);
  uint64_t spent = header().spent_blocks.load();
  const auto place = [this](const void* at) {
    return static_cast<size_t>(static_cast<const char*>(at) - memory_);
  };
  const auto mark = [&](const BlockHeader& block) {
    marks.write(place(&block), BlockKind::kSpent);
    ++spent;
  };
  for (const ThreadView& thread : view_.threads) {
    const auto known = drained.find(thread.facts.number);
    if (known == drained.end()) continue;
    const DrainedPart& part = known->second;
    uint64_t first_arena_block = 0;
    for (size_t i = 0; i + 1 < thread.chunks.size(); ++i) {
      const Chunk& chunk = *thread.chunks[i];
      if (chunk.end_index() > part.end) break;
      first_arena_block = thread.chunks[i + 1]->header.first_arena_block;
      const bool is_needed = std::any_of(part.open.begin(), part.open.end(), [&](uint64_t index) {
        return index >= chunk.first_index() && index < chunk.end_index();
      });
      if (!is_needed && !has_open_span(chunk)) mark(chunk.header);
    }
    for (const ArenaBlock* block : thread.arena) {
      if (block->header.sequence < first_arena_block) mark(block->header);
    }
  }
  for (const auto& [slot, number] : slots_) {
    const auto part = drained.find(number);
    if (part != drained.end()) marks.write(place(&slot->drained), part->second.end);
  }
  marks.write(place(&header().spent_blocks), spent);
}

// In a running recording, reads only the last chunk of each thread: later reads note other ends.
uint64_t StreamedLog::last_ticks() const {
  uint64_t last = view_.window.started.ticks;
  for (ThreadView thread : view_.threads) {
    if (header().ring == RingState::kNone && !drained_.empty() && thread.published > Chunk::kRecords)
      thread.begin = std::max(thread.begin, thread.published - Chunk::kRecords);
    for_each_record(thread, [&last](uint64_t, const Record& record) {
      last = std::max(last, record.ticks);
      if (is_span(record.kind) && is_closed(record.load_state())) last = std::max(last, record.load_end());
    });
  }
  return last;
}

// The process's counts up to the end of the window are unknown here.
void StreamedLog::end_now() {
  WindowFacts& window = view_.window;
  const uint64_t moments = header().moment_count.load(std::memory_order_acquire);
  const ClockAnchor last = moments == 0 ? window.started : header().moments[(moments - 1) % 2];
  const ClockAnchor anchor = last.monotonic_ns > window.started.monotonic_ns ? last : window.started;
  check_anchor(anchor);
  const double since_origin = ns_per_tick(view_.origin, anchor);
  const double rate = since_origin > 0 ? since_origin : view_.recent_rate;
  const uint64_t ticks = std::max(last_ticks(), anchor.ticks);
  const double later = static_cast<double>(ticks - anchor.ticks) * rate;
  const auto later_ns = static_cast<int64_t>(std::min(later, static_cast<double>(kLongest_ns)));
  window.stopped = {ticks, anchor.unix_ns + later_ns, anchor.monotonic_ns + later_ns};
  window.tensors_not_held = window.unknown_frees = window.unrecorded_evaluations = 0;
  window.unhooked_threads = window.process_threads = 0;
  window.of_ending_threads = {};
}

}  // namespace opscope
