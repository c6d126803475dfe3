#include "log/stream_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>

#include "log/pages.h"

namespace opscope {

namespace {

constexpr size_t kExtentBytes = size_t{64} << 20;     // unit of address space
constexpr size_t kSmallestExtent = size_t{1} << 20;   // if the program limits its address space
constexpr size_t kBatchBytes = size_t{1} << 20;       // unit of the file's growth
constexpr size_t kLeftBlocks = 16;                    // returned to the kernel together
constexpr uint64_t kDrainFrom = uint64_t{512} << 20;  // smaller files are decoded in one piece
constexpr int64_t kBetweenMoments_ns = 1'000'000'000;
constexpr int64_t kBetweenAttempts_ns = 1'000'000'000;

bool is_within_limit(uint64_t bytes) {
  rlimit limit{};
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur;
}

// Other processes consider the holder of this lock alive, also from other containers and machines.
void lock_shared(int file) {
  while (flock(file, LOCK_SH) != 0 && errno == EINTR) {
  }
}

// Creates and locks the file; repeats if another process removed it as abandoned before it was locked.
int open_locked(const char* path) {
  while (true) {
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) return file;
    lock_shared(file);
    struct stat status = {};
    if (fstat(file, &status) != 0 || status.st_nlink != 0) return file;
    close(file);
  }
}

}  // namespace

StreamFile::StreamFile(std::string path, uint64_t max_bytes, bool is_ring)
    : path_(std::move(path)), max_bytes_(max_bytes), is_ring_(is_ring) {
  const int file = open_locked(path_.c_str());
  if (file < 0) throw std::system_error(errno, std::generic_category(), path_);
  file_ = OwnFile(file);
  left_.reserve(kLeftBlocks);
  void* const block = take_own();
  if (block == nullptr || (header_ = static_cast<StreamHeader*>(block), !add_slots())) {
    const int error = errno;
    for (Extent& extent : extents_) unmap(extent);
    unlink(path_.c_str());
    throw std::system_error(error, std::generic_category(), path_);
  }
  begin_header();
}

StreamFile::~StreamFile() {
  for (Extent& extent : extents_) unmap(extent);
}

// Writes the magic last: from then on the file is readable.
void StreamFile::begin_header() {
  header_->version = kLogVersion;
  header_->record_bytes = sizeof(Record);
  header_->block_bytes = kBlockBytes;
  header_->drain_from = is_ring_ ? 0 : std::min<uint64_t>(kDrainFrom, max_bytes_ / 4);
  header_->ring = is_ring_ ? RingState::kGoesOn : RingState::kNone;
  header_->process_id = getpid();
  path_.substr(path_.rfind('/') + 1).copy(header_->identity, sizeof(header_->identity) - 1);
  note_moment();
  header_->header.kind.store(BlockKind::kStream, std::memory_order_release);
  std::memcpy(header_->magic, kStreamMagic, sizeof(kStreamMagic));
}

void* StreamFile::take() {
  if (!spare_.empty()) return take_spare();
  if (next_ == ready_ && !grow()) return nullptr;
  is_in_gap_ = false;
  char* const block = next_;
  next_ += kBlockBytes;
  ++used_blocks_;
  ++extents_.back().used_blocks;
  if (header_ != nullptr) note_moment();
  return block;
}

void* StreamFile::take_spare() {
  if (has_ended_) return nullptr;
  char* const block = spare_.back();
  spare_.pop_back();
  std::memset(block, 0, kBlockBytes);
  ++used_blocks_;
  ++extent_of(block)->used_blocks;
  is_in_gap_ = false;
  note_moment();
  return block;
}

uint64_t StreamFile::drained_of(uint64_t number) const {
  const ThreadSlot* const slot = number < slots_.size() ? slots_[number] : nullptr;
  return slot == nullptr ? 0 : slot->drained.load(std::memory_order_acquire);
}

void StreamFile::begin_at(uint64_t number, uint64_t index) {
  ThreadSlot* const slot = slot_of(number);
  if (slot != nullptr) slot->drained.store(index, std::memory_order_release);
}

// A block that is never released.
void* StreamFile::take_own() {
  void* const block = take();
  if (block == nullptr) return nullptr;
  --used_blocks_;
  --extent_of(block)->used_blocks;  // not always the last extent: the block may be a reused one
  return block;
}

bool StreamFile::grow() {
  if (has_ended_ || !is_time_to_try()) return false;
  if (file_bytes_ + kBatchBytes > max_bytes_ || !is_within_limit(file_bytes_ + kBatchBytes))
    return fail(EFBIG);
  if (!has_own_file()) return fail(EBADF);
  const Extent* const last = extents_.empty() ? nullptr : &extents_.back();
  if ((last == nullptr || ready_ == last->memory + last->bytes) && !map_extent()) return fail(ENOMEM);
  if (!grow_file()) return fail(errno);
  if (!make_pages(ready_, kBatchBytes)) return fail(ENOSPC);
  file_bytes_ += kBatchBytes;
  ready_ += kBatchBytes;
  return true;
}

bool StreamFile::fail(int error) {
  failed_at_ns_ = clock_ns(CLOCK_MONOTONIC_COARSE);
  if (header_ != nullptr) header_->growth_error.store(error, std::memory_order_relaxed);
  errno = error;
  return false;
}

// A full disk is tried once a second, not for every record.
bool StreamFile::is_time_to_try() const {
  return failed_at_ns_ == 0 || clock_ns(CLOCK_MONOTONIC_COARSE) - failed_at_ns_ > kBetweenAttempts_ns;
}

// The program may have closed the file, and released its lock.
bool StreamFile::has_own_file() {
  if (file_.get() >= 0) return true;
  OwnFile again(open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (again.identity() != file_.identity()) return false;
  file_ = std::move(again);
  lock_shared(file_.get());
  return true;
}

// Writes zeros: this reserves room on the disk, and creates pages in larger units than page faults do.
bool StreamFile::grow_file() {
  static const char zeros[kBlockBytes] = {};
  iovec parts[kBatchBytes / kBlockBytes];
  std::fill(std::begin(parts), std::end(parts), iovec{const_cast<char*>(zeros), kBlockBytes});
  ssize_t written = 0;
  do {
    written = pwritev(file_.get(), parts, std::size(parts), static_cast<off_t>(file_bytes_));
  } while (written < 0 && errno == EINTR);
  if (written >= 0 && static_cast<size_t>(written) < kBatchBytes) errno = ENOSPC;
  return written == static_cast<ssize_t>(kBatchBytes);
}

bool StreamFile::map_extent() {
  const uint64_t offset = file_bytes_;
  for (size_t bytes = kExtentBytes; bytes >= kSmallestExtent; bytes /= 4) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_.get(),
                              static_cast<off_t>(offset));
    if (memory == MAP_FAILED) continue;
    try {
      extents_.push_back({static_cast<char*>(memory), bytes, offset, 0});
    } catch (const std::bad_alloc&) {
      munmap(memory, bytes);
      return false;
    }
    next_ = ready_ = static_cast<char*>(memory);
    return true;
  }
  return false;
}

StreamFile::Extent* StreamFile::extent_of(const void* block) {
  const auto* const address = static_cast<const char*>(block);
  const auto found = std::find_if(extents_.rbegin(), extents_.rend(), [address](const Extent& extent) {
    return address >= extent.memory && address < extent.memory + extent.bytes;
  });
  return found == extents_.rend() ? nullptr : &*found;
}

void StreamFile::leave(const void* block) {
  if (is_ring_ || extent_of(block) == nullptr) return;
  left_.push_back(static_cast<const char*>(block));
  if (left_.size() == kLeftBlocks) return_left_blocks();
}

// One call per run of adjacent blocks: each call interrupts the other processors.
void StreamFile::return_left_blocks() {
  std::sort(left_.begin(), left_.end());
  for (size_t first = 0, next = 0; first < left_.size(); first = next) {
    for (next = first + 1; next < left_.size() && left_[next] == left_[next - 1] + kBlockBytes;) ++next;
    madvise(const_cast<char*>(left_[first]), (next - first) * kBlockBytes, MADV_DONTNEED);
  }
  left_.clear();
}

bool StreamFile::release(void* block) {
  Extent* const extent = extent_of(block);
  if (extent == nullptr) return false;
  if (is_discarded_) madvise(block, kBlockBytes, MADV_REMOVE);
  auto& kind = static_cast<BlockHeader*>(block)->kind;
  if (is_ring_ && !has_ended_) kind.store(BlockKind::kSpent);
  // In an ended ring, spare blocks are only a list of what discard() removes.
  const bool is_spent = has_ended_ ? is_ring_ && !is_discarded_ : kind.load() == BlockKind::kSpent;
  if (is_spent) keep_spare(block);
  --used_blocks_;
  if (--extent->used_blocks == 0 && has_ended_) {
    forget_spare(*extent);
    unmap(*extent);
    extents_.erase(extents_.begin() + (extent - extents_.data()));
  }
  return true;
}

void StreamFile::end() {
  has_ended_ = true;
  if (is_ring_) header_->ring = RingState::kEnded;
}

void StreamFile::discard() {
  is_discarded_ = has_ended_;
  if (!is_discarded_) return;
  for (char* const block : spare_) madvise(block, kBlockBytes, MADV_REMOVE);
  spare_.clear();
}

// If memory is short, the block is not reused.
void StreamFile::keep_spare(void* block) try {
  spare_.push_back(static_cast<char*>(block));
} catch (const std::bad_alloc&) {
}

// Other mappings may soon get its addresses.
void StreamFile::forget_spare(const Extent& extent) {
  const auto is_in = [&extent](const char* block) {
    return block >= extent.memory && block < extent.memory + extent.bytes;
  };
  std::erase_if(spare_, is_in);
}

void StreamFile::unmap(Extent& extent) { munmap(extent.memory, extent.bytes); }

// Maps empty memory instead of the file: a fork while a record is being filled in makes the child write there
// once more. Unmaps the extent if the system reserves no memory for that.
void StreamFile::leave_to_parent() {
  file_.end();
  for (Extent& extent : extents_) {
    void* const memory = mmap(extent.memory, extent.bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) unmap(extent);
  }
  extents_.clear();
}

void StreamFile::note_moment(bool now) {
  const int64_t time_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
  const uint64_t count = header_->moment_count.load(std::memory_order_relaxed);
  if (!now && count != 0 && time_ns - moment_at_ns_ < kBetweenMoments_ns) return;
  moment_at_ns_ = time_ns;
  header_->moments[count % 2] = read_anchor();
  header_->moment_count.store(count + 1, std::memory_order_release);
}

bool StreamFile::add_slots() {
  void* const memory = take_own();
  if (memory == nullptr) return false;
  slot_block_ = static_cast<ThreadBlock*>(memory);
  slot_block_->header.kind.store(BlockKind::kThreads, std::memory_order_release);
  return true;
}

ThreadSlot* StreamFile::slot_of(uint64_t number) { return number < slots_.size() ? slots_[number] : nullptr; }

void StreamFile::meet(const ThreadFacts& thread) {
  ThreadSlot* slot = slot_of(thread.number);
  if (slot == nullptr) {
    if (slot_block_->header.used.load() == ThreadBlock::kSlots && !add_slots()) return;
    if (thread.number >= slots_.size()) slots_.resize(thread.number + 1);
    slot = slots_[thread.number] = &slot_block_->slots[slot_block_->header.used.fetch_add(1)];
    slot->number = thread.number;
    slot->native_thread = thread.native_thread;
    slot->system_thread_id = thread.system_thread_id;
  }
  const size_t length = thread.name.copy(slot->name, sizeof(slot->name) - 1);
  slot->name[length] = '\0';
  slot->torch_thread_id.store(thread.torch_thread_id, std::memory_order_relaxed);
  slot->is_known.store(1, std::memory_order_release);
}

void StreamFile::count_loss(uint32_t owner, Loss what) {
  ThreadSlot* const slot = slot_of(owner);
  if (slot == nullptr) return;
  std::atomic<uint64_t>& counter = what == Loss::kSpan         ? slot->dropped_spans
                                   : what == Loss::kAllocation ? slot->dropped_allocations
                                                               : slot->dropped_others;
  const uint64_t now = now_ticks();
  if (slot->first_loss.load(std::memory_order_relaxed) == 0) slot->first_loss.store(now);
  slot->last_loss.store(now, std::memory_order_relaxed);
  counter.fetch_add(1, std::memory_order_relaxed);
  note_gap(now);
}

void StreamFile::note_gap(uint64_t ticks) {
  uint64_t count = header_->gap_count.load(std::memory_order_relaxed);
  if (!is_in_gap_ && count < StreamHeader::kGaps) {
    header_->gaps[count++] = {ticks, ticks, 0};
    header_->gap_count.store(count, std::memory_order_release);
  }
  is_in_gap_ = true;
  Gap& gap = header_->gaps[count - 1];
  gap.last = ticks;
  ++gap.lost;
}

}  // namespace opscope
