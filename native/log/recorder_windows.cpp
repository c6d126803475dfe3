// The recorder's windows: opening, closing, snapshots, and the memory that they need.
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "log/recorder.h"
#include "log/stream_file.h"
#include "log/window_facts.h"

namespace opscope {

namespace {

// Number of threads of the process, from the link count of /proc/self/task, which has a folder per thread. 0
// if that folder is missing.
uint64_t count_process_threads() {
  struct stat threads = {};
  const bool is_known = stat("/proc/self/task", &threads) == 0 && threads.st_nlink > 2;
  return is_known ? static_cast<uint64_t>(threads.st_nlink) - 2 : 0;
}

// Adds the blocks that the view needs. Blocks kept for other windows may have equal positions of payloads.
void add_blocks(ThreadView& view, const ThreadLog& log) {
  uint64_t first = UINT64_MAX, last = 0;
  for (const Chunk* chunk : blocks_from<Chunk>(log.log().head())) {
    const BlockHeader* const next = chunk->header.next.load(std::memory_order_acquire);
    if (chunk->end_index() <= view.begin || chunk->first_index() >= view.end) continue;
    view.chunks.push_back(chunk);
    first = std::min(first, chunk->header.first_arena_block);
    last = next == nullptr ? UINT64_MAX : next->first_arena_block;
  }
  for (const ArenaBlock* block : blocks_from<ArenaBlock>(log.arena().head())) {
    if (block->header.sequence >= first && block->header.sequence <= last) view.arena.push_back(block);
  }
}

}  // namespace

uint32_t Recorder::reserve_window() {
  std::lock_guard lock(mutex_);
  return next_window_++;
}

void Recorder::prepare_blocks() {
  // With other windows open, blocks are in use already.
  if (statistics().open_windows == 0) pool_.prepare();
}

uint32_t Recorder::open_window(uint32_t wants, bool all_threads, uint32_t reserved, uint32_t collects,
                               uint64_t most_growth_bytes) {
  std::lock_guard lock(mutex_);
  auto window = std::make_shared<Window>();
  window->id = reserved != 0 ? reserved : next_window_++;
  window->wants = wants;
  window->collects = wants & collects;
  window->only_thread = all_threads ? 0 : system_thread_id();
  window->first_new_thread = next_thread_;
  const uint64_t used_bytes = pool_.used_bytes();
  if (most_growth_bytes < UINT64_MAX - used_bytes) window->most_used_bytes = used_bytes + most_growth_bytes;
  for (const auto& other : open_) {
    if (((other->wants | wants) & kWantProcessIds) == 0) continue;
    window->process_ids = other->process_ids = true;
  }
  window->process_ids |= (wants & kWantProcessIds) != 0;
  if (open_.empty()) fault_.clear();
  windows_[window->id] = window;
  open_.push_back(window);
  if (const std::string refused = configure(); !refused.empty()) {
    windows_.erase(window->id);
    open_.pop_back();
    configure();  // for the open windows
    throw std::runtime_error(refused);
  }
  limit_memory();
  if (holds_tensors(window->wants) && bridge_ != nullptr) window->tensors_mark = bridge_->mark_tensors();
  for (const auto& thread : threads_) {
    if (thread->finished || !covers(*window, *thread)) continue;
    add_slice(*window, {thread, thread->log().size(), kStillOpen, thread->dropped()});
  }
  window->tensors_not_held = tensors_not_held();
  window->unknown_frees = unknown_frees();
  window->of_ending_threads = of_ending_threads();
  // Last, so that the setup above is not measured.
  window->started = read_anchor();
  stream_facts(*window);
  return window->id;
}

void Recorder::close_window(uint32_t id) {
  const uint64_t ticks = now_ticks();
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(id);
  if (found == windows_.end() || !found->second->open) return;
  Window& window = *found->second;
  std::erase(open_, found->second);
  end(window, ticks);
  configure();
  limit_memory();
  end_slices(window);
}

uint32_t Recorder::snapshot_window(uint32_t id) {
  const uint64_t ticks = now_ticks();
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(id);
  if (found == windows_.end()) return 0;
  auto copy = std::make_shared<Window>(*found->second);
  copy->id = next_window_++;
  for (const Slice& slice : copy->slices) needed_.add(slice.thread.get(), slice.begin, slice.end);
  if (std::exchange(copy->open, false)) {
    end(*copy, ticks);
    end_slices(*copy);
  }
  windows_[copy->id] = copy;
  return copy->id;
}

void Recorder::end(Window& window, uint64_t ticks) const {
  window.open = false;
  // The window ends at the call of stop, not at the reading of the anchor.
  const ClockAnchor now = read_anchor();
  const auto late = static_cast<double>(static_cast<int64_t>(now.ticks - ticks));
  const auto late_ns = static_cast<int64_t>(late * ns_per_tick(origin_, now));
  window.stopped = {ticks, now.unix_ns - late_ns, now.monotonic_ns - late_ns};
  window.fault = fault_;
  window.process_threads = count_process_threads();
  window.tensors_not_held = tensors_not_held() - window.tensors_not_held;
  window.unknown_frees = unknown_frees() - window.unknown_frees;
  window.of_ending_threads = of_ending_threads() - window.of_ending_threads;
}

void Recorder::end_slices(Window& window) {
  for (Slice& slice : window.slices) {
    slice.end = slice.thread->log().size();
    needed_.close(slice.thread.get(), slice.begin, slice.end);
    slice.dropped = slice.thread->dropped() - slice.dropped;
  }
  for (const auto& thread : threads_) {
    if (thread->number < window.first_new_thread || !covers(window, *thread)) continue;
    add_slice(window, {thread, 0, thread->log().size(), thread->dropped()});
  }
  stream_facts(window);
}

void Recorder::pause_window(uint32_t id, bool paused) {
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(id);
  if (found == windows_.end() || !found->second->open) return;
  auto& pauses = found->second->pauses;
  const bool is_paused = !pauses.empty() && pauses.back().to_ticks == UINT64_MAX;
  if (paused == is_paused) return;
  if (paused) {
    pauses.push_back({now_ticks(), UINT64_MAX});
  } else {
    pauses.back().to_ticks = now_ticks();
  }
  stream_facts(*found->second);
  configure();
}

std::vector<std::shared_ptr<Window>> Recorder::collect(const std::vector<uint32_t>& ids, uint32_t wants) {
  std::vector<std::shared_ptr<Window>> with_more;
  std::lock_guard lock(mutex_);
  for (const uint32_t id : ids) {
    const auto found = windows_.find(id);
    if (found == windows_.end() || !found->second->open) continue;
    Window& window = *found->second;
    if ((window.wants & wants & ~window.collects) != 0) with_more.push_back(found->second);
    window.collects = window.wants & wants;
  }
  configure();
  return with_more;
}

void Recorder::release_unneeded_tensors() {
  std::lock_guard lock(mutex_);
  if (!release_tensors()) return;
  for (const auto& window : open_) {
    if (!holds_tensors(window->wants)) continue;
    window->releases.push_back(now_ticks());
    stream_facts(*window);
  }
}

std::shared_ptr<Window> Recorder::window(uint32_t id) {
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(id);
  return found == windows_.end() ? nullptr : found->second;
}

std::vector<ThreadView> Recorder::threads_of(const Window& window) const {
  if (const auto inherited = inherited_.find(window.id); inherited != inherited_.end())
    return inherited->second;
  std::vector<ThreadView> threads;
  for (const Slice& slice : window.slices) {
    const ThreadLog& log = *slice.thread;
    threads.push_back({facts_of(log), slice.begin, slice.end, slice.dropped, {}, {}});
    add_blocks(threads.back(), log);
  }
  return threads;
}

LogView Recorder::view_of(const Window& window) {
  LogView view;
  view.origin = origin_;
  view.recent_rate = recent_ns_per_tick();
  view.window = window;
  view.threads = threads_of(window);
  for (const Journal* journal : {&name_journal_, &journal_})
    view.journals.push_back(blocks_from<JournalBlock>(journal->head()));
  view.texts = Texts(view.journals);
  return view;
}

void Recorder::set_initial_stacks(uint32_t id, std::vector<InitialStack> stacks, uint64_t generation) {
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(id);
  if (found == windows_.end()) return;
  std::erase_if(stacks, [&](const InitialStack& stack) {
    return found->second->only_thread != 0 && stack.system_thread_id != found->second->only_thread;
  });
  for (InitialStack& stack : stacks) remove_recorded_frames(*found->second, stack);
  found->second->initial_stacks = std::move(stacks);
  found->second->generation = generation;
  stream_facts(*found->second);
}

// Removes frames that are already recorded: other threads may run between the start of a window and the time
// at which its stacks are noted.
void Recorder::remove_recorded_frames(const Window& window, InitialStack& stack) {
  for (const auto& thread : threads_) {
    if (!is_of(stack, *thread)) continue;
    const auto slice = std::find_if(window.slices.begin(), window.slices.end(),
                                    [&](const Slice& candidate) { return candidate.thread == thread; });
    ThreadView since;
    since.begin = slice == window.slices.end() ? 0 : slice->begin;
    since.end = thread->log().size();
    if (since.begin == since.end) continue;
    since.chunks = blocks_from<Chunk>(thread->log().head());
    for_each_record(since, [&](uint64_t, const Record& record) {
      if (!is_python(record.kind) || record.load_state() != SpanState::kOpen) return;
      std::erase_if(stack.frames,
                    [key = record.load_end()](const InitialFrame& f) { return f.key() == key; });
    });
  }
}

template <typename Function>
std::vector<uint64_t> Recorder::keys_of_initial(const ThreadLog& log, uint64_t last_generation,
                                                Function&& is_wanted) {
  std::vector<uint64_t> keys;
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Window>& window : open_) {
    if (window->generation <= last_generation) continue;
    for (const InitialStack& stack : window->initial_stacks) {
      if (!is_of(stack, log)) continue;
      for (const InitialFrame& frame : stack.frames) {
        if (is_wanted(frame)) keys.push_back(frame.key());
      }
    }
  }
  return keys;
}

std::vector<uint64_t> Recorder::frames_that_may_begin(const ThreadLog& log, uint64_t last_generation) {
  return keys_of_initial(log, last_generation, [](const InitialFrame& frame) { return frame.may_begin; });
}

std::vector<uint64_t> Recorder::initial_frames(const ThreadLog& log, uint64_t last_generation) {
  return keys_of_initial(log, last_generation, [](const InitialFrame&) { return true; });
}

void Recorder::forget_initial_frame(const ThreadLog& log, uint64_t key) {
  std::lock_guard lock(mutex_);
  for (const std::shared_ptr<Window>& window : open_) {
    for (InitialStack& stack : window->initial_stacks) {
      if (!is_of(stack, log)) continue;
      const auto is_meant = [key](const InitialFrame& f) { return f.may_begin && f.key() == key; };
      if (std::erase_if(stack.frames, is_meant) != 0) stream_facts(*window);
    }
  }
}

void Recorder::discard_window(uint32_t id) {
  std::lock_guard lock(mutex_);
  const auto found = windows_.find(id);
  if (found == windows_.end()) return;
  if (stream_ != nullptr && stream_->window == id) stop_streaming();  // the stream was never closed
  remove_slices(*found->second);
  const bool was_open = std::erase(open_, found->second) != 0;
  windows_.erase(found);
  if (was_open) {
    configure();
    limit_memory();
  }
  release_memory();
}

uint64_t Recorder::oldest_tensors() const {
  uint64_t oldest = UINT64_MAX;
  for (const auto& window : open_) {
    if (holds_tensors(*window)) oldest = std::min(oldest, window->tensors_mark);
  }
  return oldest;
}

void Recorder::release_old_tensors() {
  constexpr std::chrono::microseconds kBetween{50};  // otherwise this thread takes the mutex again first
  const BridgeApi* bridge = nullptr;
  uint64_t oldest = UINT64_MAX;
  {
    std::lock_guard lock(mutex_);
    bridge = bridge_;
    oldest = oldest_tensors();
  }
  // Threads that begin or end need the mutex during this. Windows that open during this have later marks.
  if (bridge == nullptr || oldest == UINT64_MAX || oldest == 0) return;
  while (!bridge->release_tensors_before(oldest, kTensorsAtOnce)) std::this_thread::sleep_for(kBetween);
}

uint64_t Recorder::used_bytes() {
  const uint64_t recorded = pool_.used_bytes();
  std::lock_guard lock(mutex_);
  return recorded + (bridge_ == nullptr ? 0 : bridge_->held_tensor_bytes());
}

void Recorder::limit_memory() {
  uint64_t most = open_.empty() ? UINT64_MAX : 0;
  for (const auto& window : open_) most = std::max(most, window->most_used_bytes);
  pool_.set_most_used(most);
}

void Recorder::add_slice(Window& window, Slice slice) {
  needed_.add(slice.thread.get(), slice.begin, slice.end);
  window.slices.push_back(std::move(slice));
}

void Recorder::remove_slices(Window& window) {
  for (const Slice& slice : window.slices) needed_.remove(slice.thread.get(), slice.begin, slice.end);
}

// Whether an open window will add this thread when it closes, as it does for threads that began later.
bool Recorder::is_listed_on_closing(const ThreadLog& thread, const Window* except) const {
  return std::any_of(open_.begin(), open_.end(), [&](const auto& window) {
    return window.get() != except && thread.number >= window->first_new_thread && covers(*window, thread);
  });
}

}  // namespace opscope
