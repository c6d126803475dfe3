// Release of records that no window needs, and snapshots of open windows.
#include "check.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

TEST(memory_is_flat_over_many_windows) {
  const auto cycle = [] {
    const uint32_t window = open_window();
    for (int i = 0; i < 3000; ++i) {
      open_span("op", 1, RecordKind::kOperator, {1, 2, 3, 4});
      close_span(1);
    }
    on_another_thread([] { span("elsewhere"); });
    CHECK_SAME(finish(window).events.name.size(), 3001u);
  };
  open_span("left open for ever", 12345);
  // A cycle may need one block more, depending on the log's position in its block.
  const auto most_mapped = [&](int cycles) {
    size_t most = 0;
    for (int i = 0; i < cycles; ++i) {
      cycle();
      most = std::max<size_t>(most, recorder().statistics().mapped_bytes);
    }
    return most;
  };
  const size_t at_first = most_mapped(20);
  CHECK(most_mapped(60) <= at_first + kBlockBytes);
  CHECK_SAME(recorder().statistics().windows, 0u);
  close_span(12345);
}

TEST(a_window_released_undecoded_returns_its_memory) {
  const uint32_t other = open_window();
  size_t mapped = 0;
  for (int round = 0; round < 4; ++round) {
    const uint32_t window = open_window();
    for (int i = 0; i < 400000; ++i) span("op");
    if (round % 2 == 0) recorder().close_window(window);
    recorder().discard_window(window);  // even while open
    if (round == 0) recorder().discard_window(other);
    if (round == 1) mapped = recorder().statistics().mapped_bytes;
  }
  CHECK(recorder().statistics().mapped_bytes <= mapped);
  CHECK_SAME(recorder().wanted(), 0u);
}

TEST(kept_windows_released_in_any_order_keep_what_the_others_need) {
  std::vector<uint32_t> kept;
  for (int number = 0; number < 3; ++number) {
    kept.push_back(open_window());
    for (int i = 0; i < 400000; ++i) span("kept");
    on_another_thread([] { span("elsewhere"); });
    recorder().close_window(kept.back());
  }
  const size_t mapped = recorder().statistics().mapped_bytes;
  recorder().discard_window(kept[1]);
  const size_t without_middle = recorder().statistics().mapped_bytes;
  CHECK(without_middle < mapped);
  for (const uint32_t id : {kept[0], kept[2]}) {
    const auto window = recorder().window(id);
    CHECK_SAME(decode_window(recorder().view_of(*window), {}).events.name.size(), 400001u);
  }
  recorder().discard_window(kept[0]);
  CHECK(recorder().statistics().used_bytes < without_middle);
  const auto last = recorder().window(kept[2]);
  CHECK_SAME(decode_window(recorder().view_of(*last), {}).events.name.size(), 400001u);
  recorder().discard_window(kept[2]);
  CHECK_SAME(recorder().statistics().windows, 0u);
  CHECK_SAME(recorder().statistics().threads, 1u);
}

TEST(a_closed_window_that_is_not_read_keeps_nothing_of_what_follows) {
  const uint32_t unread = open_window();
  for (int i = 0; i < 10000; ++i) span("unread");
  recorder().close_window(unread);
  size_t most = 0;
  std::vector<uint32_t> ring{open_window()};
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 20000; ++i) span("since");
    ring.push_back(open_window());
    recorder().discard_window(ring.front());
    ring.erase(ring.begin());
    most = std::max<size_t>(most, recorder().statistics().used_bytes);
  }
  CHECK(most < 12 << 20);  // everything together would be 19 MB
  const auto window = recorder().window(unread);
  CHECK_SAME(decode_window(recorder().view_of(*window), {}).events.name.size(), 10000u);
  recorder().discard_window(unread);
  recorder().discard_window(ring.front());
}

TEST(nothing_is_given_back_while_somebody_reads) {
  const uint32_t old = open_window();
  for (int i = 0; i < 400000; ++i) span("old");
  const uint32_t window = open_window();
  for (int i = 0; i < 400000; ++i) span("new");
  recorder().close_window(window);
  const size_t mapped = recorder().statistics().mapped_bytes;
  {
    const ReadLock lock(recorder());
    const auto held = recorder().window(window);
    recorder().discard_window(old);
    recorder().discard_window(window);
    CHECK_SAME(recorder().statistics().mapped_bytes, mapped);
    CHECK_SAME(recorder().statistics().windows, 1u);
    CHECK_SAME(decode_window(recorder().view_of(*held), {}).events.name.size(), 400000u);
  }
  CHECK(recorder().statistics().mapped_bytes < mapped);
  CHECK_SAME(recorder().statistics().windows, 0u);
}

TEST(of_a_thread_that_ended_only_what_somebody_needs_is_kept) {
  const size_t threads = recorder().statistics().threads;
  uint32_t unread = 0, large = 0;
  on_another_thread([&] {
    unread = open_window();
    span("unread");
    recorder().close_window(unread);
    large = open_window();
    for (int i = 0; i < 400000; ++i) span("large");
    recorder().close_window(large);
  });
  const size_t used = recorder().statistics().used_bytes;
  recorder().discard_window(large);
  CHECK(recorder().statistics().used_bytes < used / 4);
  CHECK_SAME(names_of(decode(unread)), Names{"unread"});
  recorder().discard_window(unread);
  CHECK_SAME(recorder().statistics().threads, threads);
}

// Positions of payloads wrap around after a fixed number of blocks.
TEST(payloads_are_those_of_the_window_where_others_are_kept_from_long_ago) {
  const auto in_a_block_of_its_own = [](int64_t number) {
    Arena& arena = Recorder::this_thread()->arena();
    arena.leave_block();
    open_span("op", 1, RecordKind::kOperator, {number});
    close_span(1);
    auto* block = const_cast<BlockHeader*>(arena.head());
    while (block->next.load() != nullptr) block = block->next.load();
    return block;
  };
  const uint32_t unread = open_window();
  const uint64_t first = in_a_block_of_its_own(11)->sequence;
  recorder().close_window(unread);
  const uint32_t since = open_window();
  in_a_block_of_its_own(12)->sequence = first + (uint64_t{1} << (32 - kArenaWordBits)) - 1;
  for (int i = 0; i < 3000; ++i) span("in the next block of records");
  const uint32_t later = open_window();
  recorder().discard_window(since);
  in_a_block_of_its_own(13);
  CHECK_SAME(scalars_of(finish(later)), Names{"13"});
  CHECK_SAME(scalars_of(finish(unread)), Names{"11"});
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

TEST(blocks_that_come_back_are_kept_while_somebody_wants_them) {
  BlockPool& pool = recorder().pool();
  const auto mapped_after_use = [] {
    const uint32_t window = open_window();
    for (int i = 0; i < 500'000; ++i) span("more than is kept by itself");
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

int main() { return opscope::tests::run_all(); }
