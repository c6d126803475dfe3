// Windows over the logs: what each holds, what it costs, and what happens beside it.
#include <stdexcept>

#include "check.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

// A bridge that writes down what it is asked for.
std::vector<uint32_t> configured;
bool refuse = false;
uint64_t not_held = 0;
uint64_t mark = 0, held_bytes = 0;
std::vector<uint64_t> released_before;
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
    [] {},
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
  recorder().release_old_tensors();  // nothing is open
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
  recorder().release_old_tensors();  // the window that is left needs none
  CHECK(!is_holding);
  CHECK_SAME(released_before.size(), 2u);
  recorder().discard_window(other);
  held_bytes = 0;
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

TEST(a_window_holds_what_happened_while_it_was_open) {
  span("before");
  const uint32_t window = open_window();
  open_span("outer", 1);
  span("inner");
  close_span(1);
  recorder().close_window(window);
  span("after");
  const Columns columns = decode(window);
  recorder().discard_window(window);
  CHECK_SAME(names_of(columns), Names{"outer", "inner"});
  CHECK_SAME(columns.events.parent, Rows{-1, 0});
  const EventColumns& e = columns.events;
  CHECK(columns.start_ns <= e.start_ns[0] && e.start_ns[0] <= e.start_ns[1]);
  CHECK(e.start_ns[1] + e.duration_ns[1] <= e.start_ns[0] + e.duration_ns[0]);
  CHECK(e.start_ns[0] + e.duration_ns[0] <= columns.end_ns);
  CHECK(std::abs(columns.end_ns - clock_ns(CLOCK_REALTIME)) < 60'000'000'000);
}

TEST(spans_across_the_edges_of_a_window) {
  open_span("begun before", 1);
  const uint32_t window = open_window();
  span("inside");
  close_span(1);
  open_span("ends after", 2);
  span("child");
  recorder().close_window(window);
  close_span(2);
  const Columns columns = decode(window);
  recorder().discard_window(window);
  CHECK_SAME(names_of(columns), Names{"inside", "ends after", "child"});
  CHECK_SAME(columns.events.parent, Rows{-1, -1, 1});
  CHECK_SAME(columns.events.unfinished[1], 1);
  CHECK_SAME(columns.events.start_ns[1] + columns.events.duration_ns[1], columns.end_ns);
}

TEST(overlapping_windows_each_see_their_own_slice) {
  const uint32_t first = open_window(kWantOperators | kWantInputs);
  open_span("one", 1, RecordKind::kOperator, {11});
  const uint32_t second = open_window(kWantOperators);
  open_span("two", 2, RecordKind::kOperator, {22});
  span("note", RecordKind::kAnnotation);
  close_span(2);
  const Columns of_first = finish(first);
  span("three");
  close_span(1);
  const Columns of_second = finish(second);
  CHECK_SAME(names_of(of_first), Names{"one", "two"});
  CHECK_SAME(scalars_of(of_first), Names{"11", "22"});
  CHECK_SAME(names_of(of_second), Names{"two", "three"});
  CHECK_SAME(of_second.events.parent, Rows{-1, -1});
  CHECK_SAME(of_second.scalars.value.size(), 0u);
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

TEST(a_thread_that_ended_is_still_in_the_trace) {
  const uint32_t window = open_window();
  for (int i = 0; i < 20; ++i) on_another_thread([] { span("short"); });
  const Columns columns = finish(window);
  CHECK_SAME(columns.events.name.size(), 20u);
  CHECK_SAME(columns.threads.name.size(), 20u);
  on_another_thread([] { span("unseen"); });
  CHECK(recorder().statistics().threads <= 2);
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
  recorder().forget_initial_frame(log, 6);  // that one did run
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
    CHECK_SAME(noted(), (std::vector<uint64_t>{6, 7}));  // another object has that key now
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

TEST(a_fault_stops_recording_and_is_told_with_the_window) {
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
  // A new beginning.
  const uint32_t next = open_window();
  CHECK_SAME(recorder().wanted(), kAll);
  CHECK_SAME(recorder().fault(), "");
  finish(next);
}

TEST(the_bridge_is_told_the_union_of_what_windows_want) {
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

int main() { return opscope::tests::run_all(); }
