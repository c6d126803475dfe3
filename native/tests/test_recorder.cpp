// Windows: contents, cost, and concurrent operations.
#include <stdexcept>

#include "check.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

// A bridge that stores the arguments of its calls.
std::vector<uint32_t> configured;
bool refuse = false;
uint64_t not_held = 0;
uint64_t mark = 0, held_bytes = 0;
std::vector<uint64_t> released_before;
int released = 0;  // times that all were
bool is_holding = false;
std::atomic<uint32_t> bridge_wanted{0};
const BridgeApi fake_bridge = {
    kCoreApiVersion,
    "none",
    &bridge_wanted,
    [](uint32_t wanted, char* message, size_t bytes) {
      if (refuse && wanted != 0) {
        std::snprintf(message, bytes, "no");
        return false;
      }
      configured.push_back(wanted);
      return true;
    },
    [](bool) {},
    [] {},
    [] {},
    [](bool) {},
    [] { return false; },
    []() -> uint64_t { return 0; },
    [](bool wanted) { is_holding = wanted; },
    [] { ++released; },
    [] { return ++mark; },
    [](uint64_t before, uint64_t) {
      released_before.push_back(before);
      return true;
    },
    [] { return held_bytes; },
    []() -> uint64_t { return not_held; },
    nullptr,
    [] { return false; },
    [] { return true; },
};

}  // namespace

TEST(a_window_counts_the_tensors_it_could_not_hold) {
  recorder().attach_bridge(&fake_bridge);
  not_held = 3;
  const uint32_t window = open_window();
  not_held = 10;
  recorder().close_window(window);
  CHECK_SAME(recorder().window(window)->tensors_not_held, 7u);
  recorder().discard_window(window);
  recorder().attach_bridge(nullptr);
}

TEST(tensors_are_held_from_the_oldest_window_on_that_is_open) {
  recorder().attach_bridge(&fake_bridge);
  mark = 0;
  released_before.clear();
  const uint64_t before = recorder().used_bytes();
  held_bytes = 1000;
  CHECK_SAME(recorder().used_bytes() - before, 1000u);
  recorder().release_old_tensors();  // no window is open
  CHECK(!is_holding);
  const uint32_t other = open_window(kWantInputs);
  const uint32_t first = open_window(kWantInputs | kWantMemory);
  const uint32_t second = open_window(kWantInputs | kWantMemory);
  recorder().release_old_tensors();
  CHECK_SAME(released_before, std::vector<uint64_t>{1});
  CHECK(is_holding);
  recorder().discard_window(first);
  recorder().release_old_tensors();
  CHECK_SAME(released_before, (std::vector<uint64_t>{1, 2}));
  recorder().discard_window(second);
  recorder().release_old_tensors();  // the remaining window needs none
  CHECK(!is_holding);
  CHECK_SAME(released_before.size(), 2u);
  recorder().discard_window(other);
  held_bytes = 0;
  recorder().attach_bridge(nullptr);
}

TEST(tensors_are_released_when_no_window_collects_them_any_more) {
  recorder().attach_bridge(&fake_bridge);
  const uint32_t first = open_window(kWantInputs | kWantMemory);
  const uint32_t second = open_window(kWantInputs | kWantMemory);
  const auto released_after = [](uint32_t window, uint32_t collects) {
    const int before = released;
    recorder().collect({window}, collects);
    recorder().release_unneeded_tensors();
    return released - before;
  };
  CHECK_SAME(released_after(first, kWantInputs), 0);
  CHECK_SAME(released_after(second, kWantInputs), 1);
  CHECK(!is_holding);
  CHECK_SAME(released_after(second, kWantInputs | kWantMemory), 0);
  CHECK(is_holding);
  recorder().discard_window(first);
  recorder().discard_window(second);
  recorder().attach_bridge(nullptr);
}

TEST(a_bridge_can_read_what_is_wanted_at_any_time) {
  recorder().attach_bridge(&fake_bridge);
  CHECK_SAME(bridge_wanted.load(), 0u);
  const uint32_t window = open_window();
  CHECK_SAME(bridge_wanted.load(), kAll);
  recorder().pause_window(window, true);
  CHECK_SAME(bridge_wanted.load(), 0u);
  recorder().pause_window(window, false);
  CHECK_SAME(bridge_wanted.load(), kAll);
  recorder().set_fault("out of luck");
  CHECK_SAME(bridge_wanted.load(), 0u);
  recorder().discard_window(window);
  const uint32_t later = open_window();
  CHECK_SAME(bridge_wanted.load(), kAll);
  recorder().discard_window(later);
  recorder().attach_bridge(nullptr);
}

TEST(what_a_window_does_not_want_hands_its_children_on) {
  const uint32_t all = open_window();
  const uint32_t annotations = open_window(kWantAnnotations);
  open_span("outer", 1, RecordKind::kAnnotation);
  open_span("operator", 2);
  span("inner", RecordKind::kAnnotation);
  close_span(2);
  close_span(1);
  const Columns columns = finish(annotations);
  CHECK_SAME(names_of(columns), Names{"outer", "inner"});
  CHECK_SAME(columns.events.parent, Rows{-1, 0});
  CHECK_SAME(names_of(finish(all)), Names{"outer", "operator", "inner"});
}

TEST(a_function_noted_as_running_that_only_begins_is_there_once) {
  span("so that this thread has a log");
  const ThreadLog& log = *Recorder::this_thread();
  const std::vector<InitialStack> stacks = {
      {log.native_thread,
       log.system_thread_id,
       {running_call(6, 0, -1, false), running_call(7, 0, 0, true), running_call(8, 0, 0, true)}}};
  const uint32_t earlier = open_window(kAll | kWantPython);
  recorder().set_initial_stacks(earlier, stacks, 1);
  const uint32_t later = open_window(kAll | kWantPython);
  recorder().set_initial_stacks(later, stacks, 2);
  CHECK_SAME(recorder().frames_that_may_begin(log, 2), std::vector<uint64_t>{});
  CHECK_SAME(recorder().frames_that_may_begin(log, 1), (std::vector<uint64_t>{7, 8}));
  recorder().forget_initial_frame(log, 6);  // not one that may begin, so it stays
  recorder().forget_initial_frame(log, 7);
  const auto keys = [](uint32_t window) {
    std::vector<uint64_t> keys;
    for (const InitialFrame& frame : recorder().window(window)->initial_stacks.front().frames) {
      keys.push_back(frame.key());
    }
    return keys;
  };
  CHECK_SAME(keys(later), (std::vector<uint64_t>{6, 8}));
  for (const uint32_t window : {earlier, later}) {
    recorder().close_window(window);
    recorder().discard_window(window);
  }
}

TEST(a_function_that_began_before_the_stacks_were_noted_is_there_once) {
  const uint32_t window = open_window(kAll | kWantPython);
  const auto noted = [&] {
    const ThreadLog& log = *Recorder::this_thread();
    recorder().set_initial_stacks(window,
                                  {{log.native_thread,
                                    log.system_thread_id,
                                    {running_call(6, 0, -1, false), running_call(7, 0, 3, false)}}},
                                  1);
    std::vector<uint64_t> keys;
    for (const InitialFrame& frame : recorder().window(window)->initial_stacks.front().frames)
      keys.push_back(frame.key());
    return keys;
  };
  CHECK_SAME(noted(), (std::vector<uint64_t>{6, 7}));
  open_span("began meanwhile", 7, RecordKind::kPythonCall);
  CHECK_SAME(noted(), std::vector<uint64_t>{6});
  on_another_thread([&] {
    open_span("on a thread that began meanwhile", 6, RecordKind::kPythonCall);
    CHECK_SAME(noted(), std::vector<uint64_t>{7});
    close_span(6);
    CHECK_SAME(noted(), (std::vector<uint64_t>{6, 7}));  // the key belongs to a later call now
  });
  close_span(7);
  recorder().close_window(window);
  recorder().discard_window(window);
}

TEST(what_a_thread_loses_while_it_ends_is_counted_in_the_windows_that_are_open) {
  recorder().core_api().lost_at_thread_end(true);
  const uint32_t window = open_window();
  recorder().core_api().lost_at_thread_end(true);
  recorder().core_api().lost_at_thread_end(false);
  recorder().core_api().lost_at_thread_end(false);
  recorder().close_window(window);
  recorder().core_api().lost_at_thread_end(true);
  CHECK_SAME(recorder().window(window)->of_ending_threads.spans, 2u);
  CHECK_SAME(recorder().window(window)->of_ending_threads.allocations, 1u);
  recorder().discard_window(window);
}

TEST(what_finds_no_memory_is_counted_in_every_window_it_is_missing_from) {
  const uint32_t first = open_window();
  span("kept");
  recorder().pool().set_budget(0);
  const uint32_t second = open_window();
  uint64_t opened = 0;
  while (Recorder::this_thread()->dropped().spans < 100) {
    open_span("op", 1, RecordKind::kOperator, {1, 2, 3});
    close_span(1);
    ++opened;
  }
  recorder().pool().set_budget(SIZE_MAX);
  const Columns of_second = finish(second);
  const Columns of_first = finish(first);
  CHECK_SAME(of_second.dropped.spans, 100u);
  CHECK_SAME(of_second.events.name.size() + of_second.dropped.spans, opened);
  CHECK_SAME(of_first.dropped.spans, 100u);
  CHECK_SAME(of_first.events.name.size() + of_first.dropped.spans, opened + 1);
  CHECK_SAME(of_second.scalars.event.size() / 3 + of_second.cut_payloads, of_second.events.name.size());
  const Columns later = finish(open_window());
  CHECK_SAME(later.dropped.spans, 0u);
}

TEST(a_fault_stops_recording_and_is_reported_with_the_window) {
  const uint32_t window = open_window();
  span("before");
  recorder().core_api().fault("broken");
  recorder().core_api().fault("again");
  CHECK_SAME(recorder().wanted(), 0u);
  const uint32_t inner = open_window();
  CHECK_SAME(recorder().wanted(), 0u);
  recorder().close_window(inner);
  recorder().discard_window(inner);
  recorder().close_window(window);
  CHECK_SAME(recorder().window(window)->fault, "broken");
  CHECK_SAME(names_of(decode(window)), Names{"before"});
  recorder().discard_window(window);
  // The next window clears the fault.
  const uint32_t next = open_window();
  CHECK_SAME(recorder().wanted(), kAll);
  CHECK_SAME(recorder().fault(), "");
  finish(next);
}

TEST(the_bridge_receives_the_union_of_what_windows_want) {
  recorder().attach_bridge(&fake_bridge);
  configured.clear();
  const uint32_t first = open_window(kWantOperators);
  const uint32_t second = open_window(kWantMemory);
  const uint32_t third = open_window(kWantOperators);
  recorder().pause_window(second, true);
  recorder().pause_window(second, false);
  recorder().close_window(first);
  recorder().close_window(third);
  recorder().close_window(second);
  constexpr uint32_t both = kWantOperators | kWantMemory;
  CHECK_SAME(configured, std::vector<uint32_t>{kWantOperators, both, kWantOperators, both, kWantMemory, 0});
  for (const uint32_t window : {first, second, third}) recorder().discard_window(window);
}

TEST(a_bridge_that_refuses_leaves_no_window_and_no_harm) {
  const uint32_t open = open_window(kWantAnnotations);
  refuse = true;
  std::string message;
  try {
    open_window(kWantOperators);
  } catch (const std::runtime_error& error) {
    message = error.what();
  }
  CHECK_SAME(message, "no");
  CHECK_SAME(recorder().statistics().windows, 1u);
  span("still recorded", RecordKind::kAnnotation);
  CHECK_SAME(recorder().wanted(), kWantAnnotations);
  refuse = false;
  CHECK_SAME(names_of(finish(open)), Names{"still recorded"});
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
    log.append_late_end(kWatchedCall | 16, now_ticks(), log.native_thread);
    close_span(1);
    span("after");
    const EventColumns e = finish(window).events;
    const bool ends_late = kind == RecordKind::kAnnotation;  // annotations may outlive their parents
    CHECK_SAME(e.parent, Rows{-1, 0, 1, 0, 3, 0});
    const int64_t end_ns = e.start_ns[1] + e.duration_ns[1];
    CHECK_SAME(end_ns > e.start_ns[3], ends_late);
    CHECK(end_ns >= e.start_ns[2] + e.duration_ns[2]);
    CHECK_SAME(e.unfinished[1], 0);
  }
}

TEST(ends_received_after_the_window_do_not_change_the_nesting) {
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
  close_span(2);  // the end of the inner function was not reported
  close_span(1);
  const Columns columns = decode(window);
  recorder().discard_window(window);
  log->close_span(3, now_ticks());
  CHECK_SAME(columns.events.parent, Rows{-1, 0, 1});
  CHECK_SAME(std::count(columns.events.unfinished.begin(), columns.events.unfinished.end(), 1), 3l);
}

TEST(ends_without_a_start_are_counted) {
  open_span("before", 3);
  const uint32_t window = open_window();
  on_another_thread([] { close_span(3); });
  close_span(99);
  CHECK_SAME(finish(window).unmatched_ends, 2u);
  close_span(3);
}

TEST(a_second_allocation_at_an_address_counts_an_unreported_free) {
  const uint32_t window = open_window();
  allocation(128, 0x100);
  allocation(64, 0x100);
  allocation(-64, 0x100);
  allocation(32, 0x100);
  const Columns columns = finish(window);
  CHECK_SAME(columns.unreported_frees, 1u);
  const std::vector<int64_t>& ids = columns.allocations.allocation_id;
  CHECK(ids[0] != ids[1]);
  CHECK_SAME(ids[1], ids[2]);
  CHECK(ids[2] != ids[3]);
}

int main() { return opscope::tests::run_all(); }
