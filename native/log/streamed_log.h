// The log of a recording that streamed to a file, read by any process, also while it goes on or when its
// process was killed.
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

// Its process has only begun to record, or came to an end then.
class NothingRecorded : public std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

class StreamedLog {
 public:
  // Raises std::system_error where the file cannot be read, NothingRecorded, or Damage where it is no stream,
  // one of another version, or one that was changed. `drained`: what has been moved elsewhere.
  explicit StreamedLog(const std::string& path, DrainedParts drained = {});
  StreamedLog(const StreamedLog&) = delete;
  StreamedLog& operator=(const StreamedLog&) = delete;
  ~StreamedLog();

  // Of a recording that has no end: until the last thing that was written.
  const LogView& view() const { return view_; }
  const StreamHeader& header() const { return *reinterpret_cast<const StreamHeader*>(memory_); }
  // The text from the process that began it.
  const std::string& about() const { return about_; }
  // Texts added during the recording.
  const std::vector<std::string>& notes() const { return notes_; }
  // What was said of devices, as a journal.
  std::string devices() const;
  // Was it stopped, so that the file has all of it?
  bool has_end() const { return has_end_; }
  // Blocks whose content is not there: the machine stopped before it was on the disk.
  uint64_t missing_blocks() const { return missing_blocks_; }
  // Times in which something found no room.
  std::vector<Gap> gaps() const;
  // The moment, in ticks, until which there are about so many records; UINT64_MAX if there are no more.
  uint64_t moment_of(uint64_t records) const;
  // Leaves out what is elsewhere, and of the rest all but about so many records.
  void narrow(const DrainedParts& drained, uint64_t records);
  // Marks what is of no use any more once so much is elsewhere, so that the program may use it again. Raises
  // std::system_error.
  void mark_spent(const DrainedParts& drained) const;
  // In ticks: when the first record was lost for want of room, and the last; 0 if none was.
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
