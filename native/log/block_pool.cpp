#include "log/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "log/pages.h"
#include "log/stream_file.h"

namespace opscope {

// Reserves now, so that releasing a block never allocates and is possible anywhere.
BlockPool::BlockPool() { free_.reserve(kKeptBlocks + kBatch); }

BlockPool::~BlockPool() = default;

void* BlockPool::acquire(const void* left) {
  std::unique_lock lock(mutex_);
  const bool is_spent = is_release_pending_ || (stream_ != nullptr && stream_->has_spent());
  if (left != nullptr && release_spent_ != nullptr && is_spent) {
    lock.unlock();
    release_spent_();
    lock.lock();
  }
  if (stream_ == nullptr) return take_memory();
  if (left != nullptr) stream_->leave(left);
  if (stream_->is_ring() && used() >= most_used_) return nullptr;
  void* const block = stream_->take();
  // If a ring's file is full, memory still has the data; only readers of the file miss it.
  if (block != nullptr || !stream_->is_ring()) return block;
  stream_->note_gap(now_ticks());
  return take_memory();
}

void* BlockPool::acquire_streamed(const void* left) {
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr) return nullptr;
  if (left != nullptr) stream_->leave(left);
  return stream_->take();
}

void* BlockPool::acquire_memory() {
  const std::lock_guard lock(mutex_);
  void* const block = take_memory();
  if (block != nullptr) madvise(block, kBlockBytes, MADV_KEEPONFORK);
  return block;
}

void* BlockPool::take_memory() {
  if (used() >= most_used_) return nullptr;
  if (free_.empty()) grow();
  if (free_.empty()) return nullptr;
  void* block = free_.back();
  free_.pop_back();
  return block;
}

void BlockPool::release(void* block) {
  const std::lock_guard lock(mutex_);
  if (release_of_stream(block)) return;
  static_cast<BlockHeader*>(block)->kind.store(BlockKind::kFree, std::memory_order_relaxed);
  if (free_.size() >= kept_) {
    munmap(block, kBlockBytes);
    --mapped_;
  } else {
    free_.push_back(block);
  }
}

// Writes nothing to such a block: a recording stays complete in its file until it is discarded.
bool BlockPool::release_of_stream(void* block) {
  if (stream_ != nullptr && stream_->release(block)) return true;
  const auto is_of = [block](const auto& file) { return file->release(block); };
  const auto found = std::find_if(ended_.begin(), ended_.end(), is_of);
  if (found == ended_.end()) return false;
  if ((*found)->is_unused()) ended_.erase(found);
  return true;
}

void BlockPool::count_loss(uint32_t owner, Loss what) {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) stream_->count_loss(owner, what);
}

void BlockPool::prepare() {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) return;  // new blocks will be in its file
  while (free_.size() < kKeptBlocks) {
    const size_t before = free_.size();
    grow();
    if (free_.size() == before) return;
  }
}

void BlockPool::keep(size_t bytes) {
  const std::lock_guard lock(mutex_);
  kept_ = std::max(kKeptBlocks, bytes / kBlockBytes);
  free_.reserve(kept_ + kBatch);
  for (; free_.size() > kept_; --mapped_) {
    munmap(free_.back(), kBlockBytes);
    free_.pop_back();
  }
}

size_t BlockPool::used_bytes() {
  const std::lock_guard lock(mutex_);
  return used() * kBlockBytes;
}

size_t BlockPool::used() const {
  size_t blocks = mapped_ - free_.size();
  if (stream_ != nullptr && stream_->is_ring()) blocks += stream_->used_blocks();
  for (const auto& file : ended_) blocks += file->is_ring() ? file->used_blocks() : 0;
  return blocks;
}

void BlockPool::set_budget(size_t bytes) {
  const std::lock_guard lock(mutex_);
  budget_ = bytes / kBlockBytes;
}

void BlockPool::set_most_used(size_t bytes) {
  const std::lock_guard lock(mutex_);
  most_used_ = bytes / kBlockBytes;
}

size_t BlockPool::mapped_bytes() {
  const std::lock_guard lock(mutex_);
  return mapped_ * kBlockBytes;
}

void BlockPool::grow() {
  if (mapped_ + kBatch > budget_) return;
  constexpr size_t kBytes = kBatch * kBlockBytes;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  // A child inherits none of these blocks without keep_for_child(), so a fork need not copy them. Kernels
  // before 4.14 do not know this advice and copy them. The advice precedes the page faults; otherwise the
  // kernel keeps each batch as a separate mapping.
  madvise(memory, kBytes, MADV_WIPEONFORK);
  make_pages(memory, kBytes);
  mapped_ += kBatch;
  for (size_t i = kBatch; i-- > 0;) free_.push_back(static_cast<char*>(memory) + i * kBlockBytes);
}

void BlockPool::begin_stream(std::unique_ptr<StreamFile> file) {
  const std::lock_guard lock(mutex_);
  ended_.reserve(ended_.size() + 2);  // so that end_stream() needs no memory
  stream_ = std::move(file);
  ++place_;
}

void BlockPool::end_stream() {
  const std::lock_guard lock(mutex_);
  if (stream_ == nullptr) return;
  stream_->end();
  ++place_;
  if (stream_->is_unused()) {
    stream_.reset();
  } else {
    ended_.push_back(std::move(stream_));
  }
}

void BlockPool::discard_stream(const char* path) {
  const std::lock_guard lock(mutex_);
  for (const auto& file : ended_) {
    if (file->path() == path) file->discard();
  }
}

// One call per run of adjacent blocks.
bool BlockPool::keep_for_child(std::vector<const void*> blocks) {
  const auto is_in_file = [this](const void* block) {
    const auto has = [block](const auto& file) { return file->has(block); };
    return (stream_ != nullptr && has(stream_)) || std::any_of(ended_.begin(), ended_.end(), has);
  };
  if (std::any_of(blocks.begin(), blocks.end(), is_in_file)) return false;
  std::sort(blocks.begin(), blocks.end());
  for (size_t first = 0, next = 0; first < blocks.size(); first = next) {
    auto* const memory = static_cast<char*>(const_cast<void*>(blocks[first]));
    for (next = first + 1; next < blocks.size() && blocks[next] == memory + (next - first) * kBlockBytes;)
      ++next;
    if (madvise(memory, (next - first) * kBlockBytes, MADV_KEEPONFORK) != 0 && errno != EINVAL) return false;
  }
  return true;
}

void BlockPool::leave_to_parent(size_t kept_bytes) {
  const std::lock_guard lock(mutex_);
  if (stream_ != nullptr) stream_->leave_to_parent();
  for (const auto& file : ended_) file->leave_to_parent();
  stream_.reset();
  ended_.clear();
  mapped_ = free_.size() + kept_bytes / kBlockBytes;
  is_release_pending_ = false;
  ++place_;
}

}  // namespace opscope
