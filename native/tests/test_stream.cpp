// Recordings that stream to a file: the file has what was recorded, however the process ended.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "check.h"
#include "log/stream_file.h"
#include "log/streamed_log.h"
#include "recording.h"
#include "streaming.h"

using namespace opscope;
using namespace opscope::tests;

TEST(all_of_a_thread_that_recorded_before_is_in_the_file) {
  std::atomic<bool> streams{false}, is_over{false};
  std::atomic<uint64_t> before{0};
  const uint32_t earlier = open_window();
  std::thread thread([&] {
    while (!streams.load()) {
      span("before");
      ++before;
    }
    span("last one that may be elsewhere");
    for (int i = 0; i < 5000; ++i) span("after");
    is_over = true;
  });
  while (before.load() < 100) std::this_thread::yield();
  {
    Streaming stream;
    streams = true;
    thread.join();
    const StreamedLog log(stream.path);
    CHECK_SAME(count_of(decode_window(log.view(), {}), "after"), 5000u);
    recorder().close_window(stream.window);
    recorder().end_stream(stream.window);
    span("after its end");
    CHECK_SAME(count_of(decode(stream.window), "after"), 5000u);
  }
  const Columns all = finish(earlier);
  CHECK_SAME(count_of(all, "after"), 5000u);
  CHECK_SAME(count_of(all, "before"), before.load());
  CHECK_SAME(count_of(all, "after its end"), 1u);
}

TEST(a_forked_child_writes_nothing_to_the_file) {
  Streaming stream;
  record_some(2000);
  open_span("ends in both", 7);
  const std::string before = read_file(stream.path);
  const pid_t child = fork();
  if (child == 0) {
    close_span(7);
    const uint32_t window = open_window();
    record_some(2000);
    const bool is_right = count_of(finish(window), "op") == 2000;
    recorder().discard_window(stream.window);
    _exit(is_right ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK_SAME(status, 0);
  CHECK(read_file(stream.path) == before);
  close_span(7);
  record_some(1000);
  const StreamedLog log(stream.path);
  CHECK_SAME(count_of(decode_window(log.view(), {}), "op"), 3000u);
}

// The child completes the record and its payload, although nothing reads them.
TEST(a_fork_in_the_middle_of_filling_in_a_record) {
  for (const bool is_streamed : {true, false}) {
    const auto stream = is_streamed ? std::make_unique<Streaming>() : nullptr;
    const uint32_t window = is_streamed ? 0 : open_window();
    record_some(10);
    ThreadLog& log = *Recorder::this_thread();
    Record* const record = log.open_span(7);
    CHECK(log.arena().begin());
    uint64_t* const word = log.arena().reserve(2);
    const auto continues = [&] {
      word[0] = make_head(0, 0);
      log.arena().advance_to(word + 1);
      record->kind = RecordKind::kOperator;
      record->op.name = recorder().intern(&log, "forks");
      record->op.inputs = log.arena().commit();
      record->ticks = now_ticks();
      log.publish_span();
      log.close_span(7, now_ticks());
    };
    CHECK_SAME(status_of_child([&] {
                 continues();
                 const uint32_t own = open_window();
                 record_some(2000);
                 const Columns columns = finish(own);
                 return count_of(columns, "op") == 2000 && count_of(columns, "forks") == 0;
               }),
               0);
    continues();
    const uint32_t whole = is_streamed ? recorder().snapshot_window(stream->window) : window;
    CHECK_SAME(count_of(finish(whole), "forks"), 1u);
  }
}

// Open spans end in the child too, whatever happens to the blocks that contain them.
TEST(what_is_open_at_a_fork_is_open_in_the_child) {
  Streaming stream;
  open_span("call", 7, RecordKind::kPythonCall);
  open_span("around", 8, RecordKind::kAnnotation);
  const uint64_t began = Recorder::this_thread()->top_start();
  CHECK_SAME(status_of_child([&] {
               ThreadLog& log = *Recorder::this_thread();
               const bool is_same = log.depth() == 2 && log.top_start() == began &&
                                    log.open()[0].record->kind == RecordKind::kPythonCall &&
                                    log.open()[1].record->kind == RecordKind::kAnnotation;
               return is_same && status_of_child([&] {
                                   const uint32_t own = open_window();
                                   close_span(8);
                                   close_span(7);
                                   span("own");
                                   return Recorder::this_thread()->depth() == 0 &&
                                          names_of(finish(own)) == Names{"own"};
                                 }) == 0;
             }),
             0);
  close_span(8);
  close_span(7);
}

TEST(a_recording_that_had_ended_is_the_child_s_where_it_lies_in_memory) {
  const uint32_t in_memory = open_window();
  record_some(3000);
  on_another_thread([] { record_some(2000); });
  recorder().close_window(in_memory);
  const uint32_t continues = open_window();
  record_some(10);
  uint32_t in_file = 0;
  {
    Streaming stream;
    in_file = recorder().reserve_window();
    recorder().open_window(kAll, true, in_file);
    record_some(10);
    recorder().close_window(in_file);
  }
  const auto looks = [&] {
    const bool has_memory = count_of(decode(in_memory), "op") == 5000;
    return has_memory && recorder().window(in_file) == nullptr && names_of(decode(continues)).empty();
  };
  CHECK_SAME(status_of_child([&] {
               record_some(10);
               return looks() && status_of_child(looks) == 0;
             }),
             0);
  CHECK_SAME(count_of(finish(in_memory), "op"), 5000u);
  CHECK_SAME(count_of(finish(in_file), "op"), 10u);
  CHECK_SAME(count_of(finish(continues), "op"), 20u);
}

// Threads of the parent continue; the child does not have their new records.
TEST(children_of_children_see_what_was_there_when_they_began) {
  Streaming stream;
  record_some(2000);
  std::atomic<bool> is_over{false};
  std::thread other([&] {
    while (!is_over.load()) record_some(10);
  });
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  // The child cannot acquire an allocator lock that another thread holds at the fork.
  is_over = true;
  other.join();
#endif
  open_span("ends in all", 7);
  const auto records = [](const std::function<bool()>& meanwhile) {
    const uint32_t window = open_window();
    record_some(1000);
    const bool is_right = meanwhile();
    record_some(1000);
    return is_right && count_of(finish(window), "op") == 2000;
  };
  const auto in_child = [](const std::function<bool()>& work) {
    const pid_t child = fork();
    if (child == 0) _exit(work() ? 0 : 1);
    for (int i = 0; i < 3000; ++i) span("meanwhile");
    int status = -1;
    waitpid(child, &status, 0);
    return status == 0;
  };
  for (int i = 0; i < 5; ++i) {
    CHECK(in_child([&] {
      return records([&] {
        return in_child([&] {
          close_span(7);
          return records([] { return true; });
        });
      });
    }));
  }
  is_over = true;
  if (other.joinable()) other.join();
  close_span(7);
}

TEST(what_finds_no_room_is_counted) {
  Streaming stream(3u << 20);
  record_some(30000);
  const StreamedLog log(stream.path);
  uint64_t spans = 0, allocations = 0;
  for (const ThreadView& thread : log.view().threads) {
    spans += thread.dropped.spans;
    allocations += thread.dropped.allocations;
  }
  const Columns columns = decode_window(log.view(), {});
  CHECK(spans != 0);
  CHECK(allocations != 0);
  CHECK_SAME(columns.events.name.size() + spans, 60000u);
  CHECK_SAME(columns.allocations.event.size() + allocations, 30000u);
  CHECK(log.first_loss() != 0 && log.first_loss() <= log.last_loss());
  CHECK_SAME(log.header().growth_error.load(), EFBIG);
}

TEST(blocks_that_never_reached_the_disk_are_missed) {
  const std::string path = new_path();
  std::string copy;
  {
    Streaming stream;
    record_some(3000);
    copy = read_file(stream.path);
  }
  size_t chunks = 0;
  for (size_t at = 0; at < copy.size(); at += kBlockBytes) {
    if (reinterpret_cast<const BlockHeader*>(copy.data() + at)->kind.load() != BlockKind::kRecords) continue;
    if (++chunks == 2) copy.replace(at, kBlockBytes, kBlockBytes, '\0');
  }
  std::ofstream(path, std::ios::binary) << copy;
  const StreamedLog log(path);
  CHECK(log.missing_blocks() > 0);
  const Columns columns = decode_window(log.view(), {});
  CHECK(columns.events.name.size() > 100 && columns.events.name.size() <= Chunk::kRecords);
  unlink(path.c_str());
}

int main(int, char** arguments) {
  program = arguments[0];
  return opscope::tests::run_all();
}
