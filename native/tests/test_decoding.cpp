// What decoding a window gives: the order of events, what is inside what, arguments and allocations.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "check.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

TEST(events_of_all_threads_are_in_order_of_start) {
  const uint32_t window = open_window();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 3000; ++i) {
        open_span("outer", 1);
        span("inner");
        close_span(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Columns columns = finish(window);
  const EventColumns& e = columns.events;
  CHECK_SAME(e.name.size(), 8u * 6000);
  CHECK_SAME(columns.threads.name.size(), 8u);
  CHECK(std::is_sorted(e.start_ns.begin(), e.start_ns.end()));
  for (size_t i = 0; i < e.name.size(); ++i) {
    const bool inner = columns.names.text(e.name[i]) == "inner";
    if (inner != (e.parent[i] >= 0)) CHECK(false);
    if (!inner) continue;
    const size_t parent = static_cast<size_t>(e.parent[i]);
    if (parent >= i || e.thread[parent] != e.thread[i]) CHECK(false);
  }
}

TEST(a_span_may_end_on_another_thread) {
  const uint32_t window = open_window();
  open_span("around", 1);
  open_span("async", 2, RecordKind::kAnnotation);
  span("while it runs");
  on_another_thread([] { close_span(2); });
  span("afterwards");
  allocation(64, 0x1000);
  close_span(1);
  const Columns columns = finish(window);
  CHECK_SAME(names_of(columns), Names{"around", "async", "while it runs", "afterwards"});
  CHECK_SAME(columns.events.parent, Rows{-1, 0, 1, 0});
  CHECK_SAME(columns.events.is_async[1], 1);
  CHECK_SAME(columns.events.unfinished[1], 0);
  CHECK(columns.events.start_ns[1] + columns.events.duration_ns[1] <= columns.events.start_ns[3]);
  CHECK_SAME(columns.allocations.event, Rows{0});
  CHECK_SAME(columns.unmatched_ends, 0u);
}

TEST(what_a_function_cannot_be_around_shows_when_it_was_over) {
  for (const RecordKind kind : {RecordKind::kOperator, RecordKind::kAnnotation}) {
    const uint32_t window = open_window(kAll | kWantPython);
    ThreadLog& log = *Recorder::this_thread();
    recorder().set_initial_stacks(
        window,
        {{log.native_thread,
          log.system_thread_id,
          {running_call(kWatchedCall | 8, 0, -1, false), running_call(kWatchedCall | 16, 0, -1, false)}}},
        1);
    span("before");
    open_span("crossing", 1, kind);
    span("inside");
    log.notice_end(kWatchedCall | 16, now_ticks(), log.native_thread);
    close_span(1);
    span("after");
    const EventColumns e = finish(window).events;
    const bool ends_late = kind == RecordKind::kAnnotation;  // which may outlast what it began in
    CHECK_SAME(e.parent, Rows{-1, 0, 1, 0, 3, 0});
    const int64_t end_ns = e.start_ns[1] + e.duration_ns[1];
    CHECK_SAME(end_ns > e.start_ns[3], ends_late);
    CHECK(end_ns >= e.start_ns[2] + e.duration_ns[2]);
    CHECK_SAME(e.unfinished[1], 0);
  }
}

TEST(spans_that_overlap_without_nesting) {
  const uint32_t window = open_window();
  open_span("a", 1);
  open_span("b", 2);
  close_span(1);
  span("c");
  close_span(2);
  const Columns columns = finish(window);
  const EventColumns& e = columns.events;
  CHECK_SAME(names_of(columns), Names{"a", "b", "c"});
  // Each is in what contains it.
  CHECK_SAME(e.parent, Rows{-1, -1, 1});
  CHECK_SAME(e.is_async[1], 0);
  CHECK(e.start_ns[1] + e.duration_ns[1] > e.start_ns[2] + e.duration_ns[2]);
}

TEST(an_annotation_begun_in_a_call_contains_what_follows_it) {
  const uint32_t window = open_window();
  open_span("function", 1);
  open_span("enter", 2);
  open_span("enter in C", 3);
  open_span("annotation", 4, RecordKind::kAnnotation);
  close_span(3);
  span("still in enter");
  close_span(2);
  span("op");
  allocation(8, 0x10);
  open_span("enter", 2);
  open_span("inner annotation", 5, RecordKind::kAnnotation);
  close_span(2);
  span("inner op");
  close_span(5);
  open_span("exit", 6);
  close_span(4);
  span("rest of exit");
  close_span(6);
  span("after");
  close_span(1);
  const Columns columns = finish(window);
  const EventColumns& e = columns.events;
  CHECK_SAME(names_of(columns),
             Names{"function", "enter", "enter in C", "annotation", "still in enter", "op", "enter",
                   "inner annotation", "inner op", "exit", "rest of exit", "after"});
  CHECK_SAME(e.parent, Rows{-1, 0, 1, 0, 1, 3, 3, 3, 7, 0, 9, 0});
  CHECK_SAME(std::count(e.is_async.begin(), e.is_async.end(), 1), 0l);
  CHECK_SAME(columns.allocations.event, Rows{3});
}

TEST(a_span_never_ended_ends_with_what_is_around_it) {
  const uint32_t window = open_window();
  open_span("around", 1);
  open_span("left open", 2);
  span("child");
  close_span(1);
  const Columns columns = finish(window);
  const EventColumns& e = columns.events;
  CHECK_SAME(e.unfinished[1], 1);
  CHECK_SAME(e.start_ns[1] + e.duration_ns[1], e.start_ns[0] + e.duration_ns[0]);
  CHECK_SAME(e.parent, Rows{-1, 0, 1});
}

TEST(ends_heard_after_the_window_do_not_change_what_was_in_what) {
  const uint32_t window = open_window(kAll | kWantPython | kWantNewThreads);
  open_span("around", 1);
  open_span("operator", 2);
  ThreadLog* const log = Recorder::this_thread();
  Record* const call = log->open_span(3);
  call->kind = RecordKind::kCCall;
  call->call = {3, recorder().intern(log, "function"), 0, -1};
  call->ticks = now_ticks();
  log->publish_span();
  recorder().close_window(window);
  close_span(2);  // no event reports that the function ended before
  close_span(1);
  const Columns columns = decode(window);
  recorder().discard_window(window);
  log->close_span(3, now_ticks());
  CHECK_SAME(columns.events.parent, Rows{-1, 0, 1});
  CHECK_SAME(std::count(columns.events.unfinished.begin(), columns.events.unfinished.end(), 1), 3l);
}

TEST(an_end_goes_to_the_later_of_two_spans_with_one_key) {
  const uint32_t window = open_window();
  open_span("around", 1);
  open_span("forgotten", 7);
  close_span(1);
  open_span("around again", 1);
  open_span("same address", 7);
  close_span(1);
  on_another_thread([] { close_span(7); });
  const Columns columns = finish(window);
  CHECK_SAME(columns.events.unfinished[1], 1);
  CHECK_SAME(columns.events.unfinished[3], 0);
  CHECK_SAME(columns.events.is_async[3], 1);
  CHECK_SAME(columns.unmatched_ends, 0u);
}

TEST(ends_without_a_start_are_counted) {
  open_span("before", 3);
  const uint32_t window = open_window();
  on_another_thread([] { close_span(3); });
  close_span(99);
  CHECK_SAME(finish(window).unmatched_ends, 2u);
  close_span(3);
}

TEST(arguments_belong_to_their_span) {
  const uint32_t window = open_window();
  for (int64_t i = 0; i < 20000; ++i) {
    open_span("op", 1, RecordKind::kOperator, {i, -i});
    close_span(1);
  }
  const Columns columns = finish(window);
  CHECK_SAME(columns.scalars.event.size(), 40000u);
  for (size_t row = 0; row < columns.scalars.event.size(); ++row) {
    const auto event = static_cast<size_t>(columns.scalars.event[row]);
    const int64_t number = static_cast<int64_t>(event) * (columns.scalars.argument[row] == 0 ? 1 : -1);
    const std::string value = columns.names.text(columns.scalars.value[row]);
    if (event != row / 2 || value != std::to_string(number)) CHECK_SAME(value, std::to_string(number));
  }
  CHECK_SAME(columns.cut_payloads, 0u);
}

TEST(allocations_of_all_threads_are_in_order_of_time) {
  const uint32_t window = open_window();
  open_span("op", 1);
  allocation(128, 0x100);
  on_another_thread([] { allocation(256, 0x200); });
  allocation(-128, 0x100);
  close_span(1);
  const AllocationColumns a = finish(window).allocations;
  CHECK_SAME(a.size_bytes, std::vector<int64_t>{128, 256, -128});
  CHECK_SAME(a.event, Rows{0, -1, 0});
  CHECK_SAME(a.action[0] + 10 * a.action[2], 10);
  CHECK_SAME(a.allocation_id[0], a.allocation_id[2]);
  CHECK(a.allocation_id[0] != a.allocation_id[1]);
}

TEST(an_allocation_where_one_was_is_another_and_the_free_between_went_unheard) {
  const uint32_t window = open_window();
  allocation(128, 0x100);
  allocation(64, 0x100);
  allocation(-64, 0x100);
  allocation(32, 0x100);
  const Columns columns = finish(window);
  CHECK_SAME(columns.unheard_frees, 1u);
  const std::vector<int64_t>& ids = columns.allocations.allocation_id;
  CHECK(ids[0] != ids[1]);
  CHECK_SAME(ids[1], ids[2]);
  CHECK(ids[2] != ids[3]);
}

int main() { return opscope::tests::run_all(); }
