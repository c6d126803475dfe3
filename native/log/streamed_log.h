// Log of a recording that streamed to a file. Any process may read it, at any time.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "log/log_view.h"
#include "log/stream_layout.h"

namespace opscope {

// The process had only begun to record, or ended then.
class NothingRecorded : public std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

class StreamedLog {
 public:
  // Raises std::system_error if the file is unreadable, NothingRecorded, or Damage if it is no stream, of
  // another version, or changed. `drained`: parts that are already in segments.
  explicit StreamedLog(const std::string& path, DrainedParts drained = {});
  StreamedLog(const StreamedLog&) = delete;
  StreamedLog& operator=(const StreamedLog&) = delete;
  ~StreamedLog();

  // A recording without an end ends at the last write.
  const LogView& view() const { return view_; }
  const StreamHeader& header() const { return *reinterpret_cast<const StreamHeader*>(memory_); }
  // Text from the process that began the recording.
  const std::string& about() const { return about_; }
  // Texts added during the recording.
  const std::vector<std::string>& notes() const { return notes_; }
  // Journal of the work of devices.
  std::string devices() const;
  // Whether the recording was stopped, so that the file is complete.
  bool has_end() const { return has_end_; }
  // Blocks without their content: the machine stopped before they were on the disk.
  uint64_t missing_blocks() const { return missing_blocks_; }
  // Periods of losses for lack of room.
  std::vector<Gap> gaps() const;
  // Ticks up to which there are about this many records; UINT64_MAX if there are no more.
  uint64_t moment_of(uint64_t records) const;
  // Leaves out drained records, and all but about `records` of the rest.
  void narrow(const DrainedParts& drained, uint64_t records);
  // Marks blocks that draining made free, so that the program reuses them. Raises std::system_error.
  void mark_spent(const DrainedParts& drained) const;
  // Ticks of the first and the last record lost for lack of room; 0 for none.
  uint64_t first_loss() const { return first_loss_; }
  uint64_t last_loss() const { return last_loss_; }

 private:
  void map(const std::string& path);
  void read_blocks();
  void read_threads(const ThreadBlock& block);
  void read_journal();
  void choose_journal();
  void find_begins_of_ring();
  void keep_covered_threads();
  void find_ends();
  void find_end(ThreadView& thread);
  void keep_last_run(ThreadView& thread);
  uint64_t last_ticks() const;
  void end_now();
  void leave_before(ThreadView& thread, uint64_t from) const;

  uint64_t drained_of(uint64_t thread) const;

  const std::string path_;
  DrainedParts drained_;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  LogView view_;
  std::string about_;
  std::vector<std::string> notes_;
  bool has_window_ = false;
  bool has_end_ = false;
  uint64_t missing_blocks_ = 0;
  uint64_t first_loss_ = 0;
  uint64_t last_loss_ = 0;
  std::vector<std::pair<const ThreadSlot*, uint64_t>> slots_;  // and the number of the thread
  std::vector<const Chunk*> chunks_;
  std::vector<const ArenaBlock*> arenas_;
  std::map<uint32_t, std::vector<const JournalBlock*>> journals_;  // of the stream; by number
  std::vector<const JournalBlock*> devices_;
};

}  // namespace opscope
