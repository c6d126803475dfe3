// The recorder's part in streaming: file contents other than blocks, and the switch of threads to the file.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "log/recorder.h"
#include "log/stream_file.h"
#include "log/window_facts.h"

namespace opscope {

namespace {

// Copies the last text about the recording, and all notes. False if there is no room.
bool copy_notes(const Journal& from, Journal& to) {
  const std::string entries = joined(blocks_from<JournalBlock>(from.head()));
  std::string_view about;
  bool has_room = true;
  for_each_entry(entries, [&](const EntryHead& head, std::string_view fields) {
    if (head.kind == EntryKind::kAbout) about = take_field(fields);
    if (head.kind == EntryKind::kNote)
      has_room = has_room && to.append(EntryKind::kNote, 0, {take_field(fields)});
  });
  return has_room && to.append(EntryKind::kAbout, 0, {about});
}

}  // namespace

void Recorder::begin_stream(uint32_t window, const std::string& path, uint64_t max_bytes,
                            const std::string& about, bool is_ring) {
  const double rate = recent_ns_per_tick();
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr && stream_->window == window) return;
  if (stream_ != nullptr && !stream_->is_ring)
    throw std::runtime_error("another recording of this process is already written to a file");
  auto file = std::make_unique<StreamFile>(path, max_bytes, is_ring);
  for (const auto& thread : threads_) {
    if (!thread->finished) file->meet(facts_of(*thread));
  }
  pool_.set_when_spent([] { instance().release_spent(); });
  auto stream = std::make_unique<Stream>(pool_, window, rate, is_ring);
  if (stream_ != nullptr) stop_streaming();
  pool_.begin_stream(std::move(file));
  stream_ = std::move(stream);
  if (!stream_->journal->append(EntryKind::kAbout, 0, {about}) || !begin_journal()) {
    stop_streaming();
    unlink(path.c_str());
    throw std::system_error(ENOSPC, std::generic_category(), path);
  }
  for (const auto& thread : threads_) thread->leave_blocks();
}

// Copies existing and future texts to the stream.
bool Recorder::begin_journal() {
  const bool has_room =
      name_journal_.copy_to(stream_->journal.get()) && journal_.copy_to(stream_->journal.get());
  stream_->journal_bytes = stream_->journal->bytes();
  return has_room;
}

void Recorder::move_stream(uint32_t window, uint32_t next) noexcept {
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr || !stream_->is_ring || stream_->window != window) return;
  const auto found = windows_.find(next);
  if (found == windows_.end()) return;
  stream_->window = next;
  // Starts of records first: a reader that still finds the old window can handle them.
  pool_.with_stream([&](StreamFile& file) {
    for (const Slice& slice : found->second->slices) file.begin_at(slice.thread->number, slice.begin);
  });
  const std::unique_ptr<Journal> replaced = renew_journal();
  stream_facts(*found->second);
}

bool Recorder::describe_ring(const std::string& about, const std::string& note) {
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr || !stream_->is_ring) return false;
  const std::unique_ptr<Journal> replaced = renew_journal();
  if (stream_ == nullptr) return false;
  Journal& journal = *stream_->journal;
  const bool has_room = journal.append(EntryKind::kAbout, 0, {about}) &&
                        (note.empty() || journal.append(EntryKind::kNote, 0, {note}));
  const auto found = windows_.find(stream_->window);
  if (found != windows_.end()) stream_facts(*found->second);
  return has_room;
}

void Recorder::note_moment() {
  pool_.with_stream([](StreamFile& file) { file.note_moment(); });
}

Recorder::StreamState Recorder::stream_state() {
  StreamState state;
  pool_.with_stream([&](const StreamFile& file) { state = {file.path(), file.is_ring(), file.is_full()}; });
  return state;
}

// Replaces the journal once much of it may be outdated. Readers use the newest journal that contains its
// window, so the old one stays until the caller has appended the window to the new one. If there is no room,
// the file ends here and the ring continues in memory.
std::unique_ptr<Journal> Recorder::renew_journal() noexcept {
  constexpr size_t kGrowthBytes = size_t{1} << 20;
  if (stream_->journal->bytes() < 2 * stream_->journal_bytes + kGrowthBytes) return nullptr;
  name_journal_.copy_to(nullptr);
  journal_.copy_to(nullptr);
  try {
    std::unique_ptr<Journal> renewed = stream_->new_journal(pool_);
    if (copy_notes(*stream_->journal, *renewed)) {
      renewed.swap(stream_->journal);
      if (begin_journal()) return renewed;
    }
  } catch (const std::bad_alloc&) {
  }
  stop_streaming();
  return nullptr;
}

// Does not wait: if the registry is busy, the caller takes a new block, and the next call tries again.
void Recorder::release_spent() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  release_spent_blocks();
  release_spent_tensors();
}

// Releases a part per call, because a thread of the program waits.
void Recorder::release_spent_tensors() {
  const bool is_through =
      bridge_ == nullptr || bridge_->release_tensors_before(oldest_tensors(), kTensorsAtOnce);
  pool_.set_release_pending(!is_through);
}

// Keeps blocks that another window than the stream's needs.
void Recorder::release_spent_blocks() noexcept try {
  if (stream_ == nullptr || readers_ != 0) return;
  const auto streamed = windows_.find(stream_->window);
  if (streamed == windows_.end()) return;
  std::unordered_map<const ThreadLog*, NeededPart> of_stream;
  for (const Slice& slice : streamed->second->slices)
    of_stream.insert({slice.thread.get(), {slice.begin, slice.end}});
  std::vector<uint64_t> drained(threads_.size());
  pool_.with_stream([&](StreamFile& file) {
    for (size_t i = 0; i < threads_.size(); ++i) drained[i] = file.drained_of(threads_[i]->number);
    file.note_spent();
  });
  // For a ring, `drained` is the start of its window, and a ring is decoded in one piece.
  const bool has_drained = std::any_of(drained.begin(), drained.end(), [](uint64_t end) { return end != 0; });
  for_child_.clear();
  Window& window = *streamed->second;
  if (has_drained && !stream_->is_ring && !window.is_in_pieces && holds_tensors(window.wants)) {
    window.is_in_pieces = true;
    hold_tensors(configured_);
    pool_.set_release_pending(true);
  }
  for (size_t i = 0; i < threads_.size(); ++i) {
    ThreadLog& thread = *threads_[i];
    if (drained[i] == 0 || is_listed_on_closing(thread, streamed->second.get())) continue;
    const auto own = of_stream.find(&thread);
    const NeededPart part = own == of_stream.end() ? NeededPart{} : own->second;
    thread.release_spent(drained[i], NeededSweep(needed_.of(&thread), part));
  }
} catch (const std::bad_alloc&) {  // the next call tries again
}

void Recorder::note_in_stream(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) stream_->journal->append(EntryKind::kNote, 0, {text});
}

uint32_t Recorder::streamed_window() {
  const std::lock_guard lock(mutex_);
  return stream_ == nullptr || stream_->is_ring ? 0 : stream_->window;
}

bool Recorder::note_devices(uint32_t window, uint32_t kind, const std::string& bytes, bool is_last) {
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr || stream_->is_ring || stream_->window != window) return false;
  if (!stream_->devices.append(EntryKind::kDevices, kind, {bytes})) return false;
  if (is_last) pool_.with_stream([](StreamFile& file) { file.note_moment(/*now=*/true); });
  return true;
}

void Recorder::end_stream(uint32_t window) {
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr || stream_->window != window) return;
  const auto found = windows_.find(window);
  if (found != windows_.end()) stream_facts(*found->second);
  stop_streaming();
}

void Recorder::stop_streaming() {
  name_journal_.copy_to(nullptr);
  journal_.copy_to(nullptr);
  pool_.end_stream();
  stream_.reset();
  for (const auto& thread : threads_) thread->leave_blocks();
}

// Without room the previous facts stay: the file is full, which is counted.
void Recorder::stream_facts(const Window& window) noexcept try {
  if (stream_ == nullptr || stream_->window != window.id) return;
  LogView known;
  known.origin = origin_;
  known.recent_rate = stream_->rate;
  known.window = window;
  ByteWriter out;
  put_window(out, known);
  stream_->journal->append(EntryKind::kWindow, window.open ? 0 : 1, {out.bytes});
} catch (const std::bad_alloc&) {
}

}  // namespace opscope
