// Rings of flight recorders in files: the file has the records of the ring's oldest window.
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "log/stream_file.h"
#include "log/streamed_log.h"
#include "recording.h"
#include "streaming.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

// Like a flight recorder's: a few overlapping windows; rotate() discards the oldest.
struct StreamingRing {
  std::string path = new_path();
  std::vector<uint32_t> windows;

  explicit StreamingRing(uint64_t max_bytes = kAnySize) {
    const uint32_t first = recorder().reserve_window();
    recorder().begin_stream(first, path, max_bytes, "{}", /*is_ring=*/true);
    windows.push_back(recorder().open_window(kAll, true, first));
  }
  ~StreamingRing() {
    for (const uint32_t window : windows) recorder().discard_window(window);
    unlink(path.c_str());
  }

  void rotate() {
    windows.push_back(recorder().open_window(kAll, true));
    if (windows.size() < 3) return;
    recorder().move_stream(windows[0], windows[1]);
    recorder().discard_window(windows[0]);
    windows.erase(windows.begin());
  }

  // The oldest window, as its process decodes it.
  Columns decoded() const {
    const uint32_t copy = recorder().snapshot_window(windows.front());
    Columns columns = decode(copy);
    recorder().discard_window(copy);
    return columns;
  }
};

}  // namespace

TEST(the_file_of_a_ring_has_what_its_oldest_window_has) {
  StreamingRing ring;
  for (int part = 0; part < 16; ++part) {
    record_some(2000);
    ring.rotate();
    const StreamedLog log(ring.path);
    const Columns in_file = decode_window(log.view(), {});
    const Columns here = ring.decoded();
    CHECK_SAME(names_of(in_file), names_of(here));
    CHECK_SAME(in_file.allocations.event.size(), here.allocations.event.size());
    CHECK(!scalars_of(here).empty());
    CHECK_SAME(scalars_of(in_file), scalars_of(here));
    CHECK_SAME(log.missing_blocks(), 0u);
    CHECK(!recorder().stream_state().is_full);
  }
  struct stat status = {};
  stat(ring.path.c_str(), &status);
  CHECK(static_cast<uint64_t>(status.st_size) < uint64_t{6} << 20);  // 16 parts of about 1 MB
}

TEST(threads_record_while_a_ring_is_handed_on) {
  StreamingRing ring;
  std::atomic<bool> is_over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&is_over] {
      while (!is_over) record_some(100);
    });
  }
  for (int part = 0; part < 40; ++part) {
    usleep(5000);
    ring.rotate();
    CHECK(recorder().describe_ring(std::string(50000, 'x'), "note"));
    recorder().note_moment();
  }
  is_over = true;
  for (std::thread& thread : threads) thread.join();
  const StreamedLog log(ring.path);
  CHECK_SAME(count_of(decode_window(log.view(), {}), "op"), count_of(ring.decoded(), "op"));
  CHECK_SAME(log.notes().size(), 40u);
}

TEST(of_a_ring_whose_process_went_on_without_room_the_last_run_is_kept) {
  StreamingRing ring(3u << 20);
  record_some(20000);
  CHECK(recorder().stream_state().is_full);
  const StreamedLog log(ring.path);
  CHECK(log.gaps().size() == 1 && log.gaps()[0].lost > 0);
  const Columns in_file = decode_window(log.view(), {});
  const Columns here = ring.decoded();
  CHECK_SAME(count_of(here, "op"), 20000u);  // in memory
  CHECK(count_of(in_file, "op") < 20000u);
}

TEST(facts_about_a_ring_are_replaced_and_its_journal_does_not_grow) {
  StreamingRing ring;
  const std::string text(10000, 'x');
  for (int time = 0; time < 1000; ++time) {
    CHECK(recorder().describe_ring(text + std::to_string(time), time % 250 == 0 ? "note" : ""));
    if (time % 100 == 0) {
      record_some(1);
      ring.rotate();
    }
  }
  const StreamedLog log(ring.path);
  CHECK_SAME(log.about(), text + "999");
  CHECK_SAME(log.notes().size(), 4u);
  struct stat status = {};
  stat(ring.path.c_str(), &status);
  CHECK(static_cast<uint64_t>(status.st_size) < uint64_t{8} << 20);  // about 10 MB were written
}

TEST(a_ring_makes_room_for_a_recording_that_streams) {
  StreamingRing ring;
  record_some(10);
  {
    Streaming stream;
    record_some(10);
    const StreamedLog log(stream.path);
    CHECK_SAME(count_of(decode_window(log.view(), {}), "op"), 10u);
    CHECK(!recorder().describe_ring("", ""));
  }
  CHECK_SAME(count_of(ring.decoded(), "op"), 20u);
}

TEST(the_bytes_that_a_ring_uses_are_counted_and_limited) {
  const uint64_t before = recorder().pool().used_bytes();
  StreamingRing ring;
  record_some(20000);
  CHECK(recorder().pool().used_bytes() - before > uint64_t{3} << 20);
  const uint32_t limited = recorder().open_window(kAll, true, 0, UINT32_MAX, 1u << 20);
  recorder().move_stream(ring.windows[0], limited);
  recorder().discard_window(ring.windows[0]);
  ring.windows = {limited};
  record_some(60000);
  CHECK(ring.decoded().dropped.spans != 0);
}

// Slots of many threads need several blocks, which may be reused blocks of the ring.
TEST(facts_about_many_threads_keep_no_block_from_staying_mapped) {
  constexpr size_t kExtentBlocks = (size_t{64} << 20) / kBlockBytes;
  const std::string path = new_path();
  StreamFile file(path, kAnySize, /*is_ring=*/true);
  std::vector<BlockHeader*> first, second;
  for (size_t i = 0; i < 2 * kExtentBlocks - 100; ++i)
    (i < kExtentBlocks - 2 ? first : second).push_back(static_cast<BlockHeader*>(file.take()));
  for (BlockHeader* block : first) file.release(block);
  ThreadFacts thread;
  for (thread.number = 0; thread.number < 20 * ThreadBlock::kSlots; ++thread.number) file.meet(thread);
  file.end();
  file.discard();
  for (BlockHeader* block : second) {
    CHECK(block->next.load() == nullptr);  // readable until its release
    file.release(block);
  }
  CHECK(file.is_unused());
  unlink(path.c_str());
}

int main(int, char** arguments) {
  program = arguments[0];
  return opscope::tests::run_all();
}
