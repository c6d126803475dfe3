// A recorder's part in streaming: what goes to the file beside blocks, and when threads begin to write there.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <stdexcept>
#include <system_error>
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

// Windows that ended before this stream's began have nothing in its file.
bool Recorder::is_needed_beside_stream() const {
  const auto streamed = windows_.find(stream_->window);
  if (streamed == windows_.end()) return true;
  return std::any_of(windows_.begin(), windows_.end(), [&](const auto& entry) {
    const Window& window = *entry.second;
    if (&window == streamed->second.get()) return false;
    return window.open || window.stopped.ticks >= streamed->second->started.ticks;
  });
}

// Nobody waits for it: who finds the registry busy takes a new block, and the next one tries again. What
// another window needs stays.
void Recorder::release_spent() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock() || stream_ == nullptr || readers_ != 0 || is_needed_beside_stream()) return;
  std::vector<uint64_t> drained(threads_.size());
  pool_.with_stream([&](StreamFile& file) {
    for (size_t i = 0; i < threads_.size(); ++i) drained[i] = file.drained_of(threads_[i]->number);
    file.note_spent();
  });
  for (size_t i = 0; i < threads_.size(); ++i) threads_[i]->release_spent(drained[i]);
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
