// Windows that go on while what they have so far is looked at, and that collect less for a while.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "check.h"
#include "log/log_copy.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

TEST(a_snapshot_has_what_a_window_has_so_far_and_the_window_goes_on) {
  const uint32_t window = open_window();
  span("before");
  const uint32_t snapshot = recorder().snapshot_window(window);
  span("after");
  on_another_thread([] { span("elsewhere"); });
  CHECK_SAME(names_of(finish(snapshot)), Names{"before"});
  CHECK(recorder().window(window)->open);
  CHECK_SAME(names_of(finish(window)), (Names{"before", "after", "elsewhere"}));
}

TEST(a_snapshot_outlives_its_window) {
  const uint32_t window = open_window();
  open_span("running", 7);
  on_another_thread([] { span("of a thread that has ended"); });
  const uint32_t snapshot = recorder().snapshot_window(window);
  recorder().discard_window(window);
  close_span(7);
  CHECK_SAME(names_of(finish(snapshot)), (Names{"running", "of a thread that has ended"}));
  CHECK_SAME(recorder().statistics().windows, 0u);
}

TEST(there_is_no_snapshot_of_a_window_that_is_gone) { CHECK_SAME(recorder().snapshot_window(123456), 0u); }

TEST(windows_that_overlap_keep_only_what_the_oldest_needs) {
  uint32_t oldest = open_window();
  uint64_t most = 0;
  for (int part = 0; part < 20; ++part) {
    for (int i = 0; i < 5'000; ++i) span("one of many");
    const uint32_t next = open_window();
    recorder().discard_window(oldest);
    oldest = next;
    most = std::max(most, recorder().statistics().used_bytes);
  }
  recorder().discard_window(oldest);
  CHECK(most < 20 * 5'000 * sizeof(Record) / 4);
}

TEST(a_window_collects_no_more_than_it_is_told_to) {
  const uint32_t window = recorder().open_window(kAll, true, 0, kWantGc);
  CHECK_SAME(recorder().wanted(), uint32_t{kWantGc});
  recorder().collect({window}, kWantOperators | kWantCalls);
  CHECK_SAME(recorder().wanted(), uint32_t{kWantOperators});  // calls it never wanted
  CHECK_SAME(recorder().window(window)->wants, kAll);
  recorder().discard_window(window);
}

TEST(memory_in_use_is_told_apart_from_memory_that_is_kept) {
  const uint32_t window = open_window();
  const RecorderStatistics before = recorder().statistics();
  for (int i = 0; i < 20'000; ++i) span("much");
  const RecorderStatistics after = recorder().statistics();
  CHECK(after.used_bytes > before.used_bytes);
  CHECK(after.used_bytes <= after.mapped_bytes);
  CHECK_SAME(after.records - before.records, 20'000u);
  recorder().discard_window(window);
  CHECK(recorder().statistics().used_bytes < after.used_bytes);
}

TEST(blocks_that_come_back_are_kept_while_somebody_wants_them) {
  BlockPool& pool = recorder().pool();
  const auto mapped_after_use = [] {
    const uint32_t window = open_window();
    for (int i = 0; i < 600'000; ++i) span("more than is kept by itself");
    recorder().discard_window(window);
    return recorder().statistics().mapped_bytes;
  };
  const uint64_t by_itself = mapped_after_use();
  pool.keep(64u << 20);
  const uint64_t kept = mapped_after_use();
  CHECK(kept > by_itself + (4u << 20));
  pool.keep(0);
  CHECK_SAME(recorder().statistics().mapped_bytes, by_itself);
}

TEST(a_log_is_written_to_a_file_as_it_is_copied) {
  const uint32_t window = open_window();
  span("written", RecordKind::kOperator);
  recorder().close_window(window);
  const ReadLock lock(recorder());
  const LogView view = recorder().view_of(*recorder().window(window));
  const std::string path = "/tmp/opscope-log-" + std::to_string(getpid());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  const auto write_to = [](int to) {
    return [to](std::string_view bytes) { return write_bytes(to, bytes); };
  };
  CHECK_SAME(write_log(view, write_to(file)), 0);
  close(file);
  std::ifstream written(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(written), {}};
  std::remove(path.c_str());
  CHECK(bytes == copy_of(view));
  CHECK_SAME(write_log(view, write_to(-1)), EBADF);
  recorder().discard_window(window);
}

int main() { return opscope::tests::run_all(); }
