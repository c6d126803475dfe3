// A recorder's part in streaming: what goes to the file beside blocks, and when threads begin to write there.
#include <unistd.h>

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

void Recorder::begin_stream(uint32_t window, const std::string& path, uint64_t max_bytes,
                            const std::string& about) {
  const double rate = recent_ns_per_tick();
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr && stream_->window == window) return;
  if (stream_ != nullptr) throw std::runtime_error("another recording of this process streams already");
  auto file = std::make_unique<StreamFile>(path, max_bytes);
  for (const auto& thread : threads_) {
    if (!thread->finished) file->meet(facts_of(*thread));
  }
  pool_.set_when_spent([] { instance().release_spent(); });
  auto stream = std::make_unique<Stream>(pool_, window, rate);
  pool_.begin_stream(std::move(file));
  stream_ = std::move(stream);
  const bool has_room = stream_->journal.append(EntryKind::kAbout, 0, {about}) &&
                        name_journal_.copy_to(&stream_->journal) && journal_.copy_to(&stream_->journal);
  if (!has_room) {
    stop_streaming();
    unlink(path.c_str());
    throw std::system_error(ENOSPC, std::generic_category(), path);
  }
  for (const auto& thread : threads_) thread->leave_blocks();
}

// Nobody waits for it: who finds the registry busy takes a new block, and the next one tries again.
void Recorder::release_spent() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (lock.owns_lock()) release_spent_blocks();
}

// What another window than the stream's needs stays.
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
  for (size_t i = 0; i < threads_.size(); ++i) {
    ThreadLog& thread = *threads_[i];
    if (drained[i] == 0 || is_listed_on_closing(thread, streamed->second.get())) continue;
    const auto own = of_stream.find(&thread);
    const NeededPart part = own == of_stream.end() ? NeededPart{} : own->second;
    thread.release_spent(drained[i], NeededSweep(needed_.of(&thread), part));
  }
} catch (const std::bad_alloc&) {  // another time
}

void Recorder::note_in_stream(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) stream_->journal.append(EntryKind::kNote, 0, {text});
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

// Without room for them those before stay: the file is full, which is counted.
void Recorder::stream_facts(const Window& window) noexcept try {
  if (stream_ == nullptr || stream_->window != window.id) return;
  LogView known;
  known.origin = origin_;
  known.recent_rate = stream_->rate;
  known.window = window;
  ByteWriter out;
  put_window(out, known);
  stream_->journal.append(EntryKind::kWindow, window.open ? 0 : 1, {out.bytes});
} catch (const std::bad_alloc&) {
}

}  // namespace opscope
