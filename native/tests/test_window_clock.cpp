// Faulty clocks: times stay in order and in the window, and the fault is reported.
#include <vector>

#include "check.h"
#include "decode/window_clock.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kHour = 3600 * kSecond;
constexpr int64_t kNoon = 1'700'000'000 * kSecond;
constexpr double kRate = 0.5;  // two ticks per nanosecond

ClockAnchor at(int64_t ns, int64_t ticks_off_ns = 0, int64_t wall_off_ns = 0) {
  return {static_cast<uint64_t>((kHour + ns + ticks_off_ns) * 2), kNoon + ns + wall_off_ns, ns};
}

const ClockAnchor kOrigin = at(0), kStarted = at(10 * kSecond), kStopped = at(12 * kSecond);

}  // namespace

TEST(sound_clocks_give_no_doubt) {
  const WindowClock clock(kOrigin, kStarted, kStopped, kRate);
  CHECK_SAME(clock.jumped_ns(), 0);
  CHECK_SAME(clock.set_by_ns(), 0);
  CHECK_SAME(clock.unix_ns(at(11 * kSecond).ticks), kNoon + 11 * kSecond);
  CHECK_SAME(clock.unix_ns(at(13 * kSecond).ticks),
             kNoon + 13 * kSecond);  // device work may end after the window
  CHECK_SAME(clock.duration_ns(kStarted.ticks, kStopped.ticks), 2 * kSecond);
}

TEST(a_wall_clock_that_is_set_moves_no_duration) {
  for (const int64_t by : {kHour, -kHour}) {
    const WindowClock clock(kOrigin, kStarted, at(12 * kSecond, 0, by), kRate);
    CHECK_SAME(clock.set_by_ns(), by);
    CHECK_SAME(clock.jumped_ns(), 0);
    CHECK_SAME(clock.end_ns() - clock.start_ns(), 2 * kSecond);
    CHECK_SAME(clock.unix_ns(kStarted.ticks), clock.start_ns());
  }
  const WindowClock before(kOrigin, at(10 * kSecond, 0, kHour), at(12 * kSecond, 0, kHour), kRate);
  CHECK_SAME(before.set_by_ns(), 0);
}

TEST(a_machine_that_slept_before_the_window_changes_no_rate) {
  for (const int64_t asleep : {8 * kHour, -kHour / 2}) {  // ticks continued, or restarted
    const WindowClock clock(kOrigin, at(10 * kSecond, asleep), at(12 * kSecond, asleep), kRate);
    CHECK_SAME(clock.jumped_ns(), 0);
    CHECK_SAME(clock.duration_ns(at(10 * kSecond, asleep).ticks, at(12 * kSecond, asleep).ticks),
               2 * kSecond);
  }
}

TEST(a_machine_that_slept_in_the_window_is_reported_and_times_stay_in_it) {
  for (const int64_t asleep : {8 * kHour, -kHour / 2}) {
    const ClockAnchor stopped = at(12 * kSecond, asleep);
    const WindowClock clock(kOrigin, kStarted, stopped, kRate);
    CHECK_SAME(clock.jumped_ns(), -asleep);
    CHECK_SAME(clock.end_ns() - clock.start_ns(), 2 * kSecond);
    for (const uint64_t ticks :
         {uint64_t{0}, kStarted.ticks, stopped.ticks, at(11 * kSecond).ticks, UINT64_MAX}) {
      CHECK(clock.unix_ns(ticks) >= clock.start_ns());
      CHECK(clock.unix_ns(ticks) <= clock.end_ns());
    }
  }
}

TEST(readings_without_information_give_no_rate) {
  CHECK_SAME(ns_per_tick(kStopped, kStarted), 0.0);
  CHECK_SAME(ns_per_tick(kStarted, kStarted), 0.0);
  CHECK_SAME(ns_per_tick(at(5), at(4, 10)), 0.0);  // only one of the two decreases
  const WindowClock clock(kStopped, kStarted, kStopped, kRate);
  CHECK_SAME(clock.duration_ns(kStarted.ticks, kStopped.ticks), 2 * kSecond);
  const WindowClock blind(kStopped, kStopped, kStopped, 0);
  CHECK_SAME(blind.start_ns(), blind.end_ns());
}

TEST(the_rate_can_be_measured_at_once) {
  const double first = recent_ns_per_tick();
  CHECK(first > 0);
  CHECK(std::abs(recent_ns_per_tick() / first - 1) < 0.05);
}

TEST(spans_of_a_window_whose_ticks_began_anew_are_all_there_and_in_order) {
  Recorder& recorder = Recorder::instance();
  const uint32_t window = recorder.open_window(kAll, true);
  span("one");
  open_span("two", 1);
  span("three");
  close_span(1);
  allocation(64, 0x1000);
  recorder.close_window(window);
  // As if ticks had restarted between the third span and the end of the window.
  Window& closed = *recorder.window(window);
  closed.stopped.ticks = closed.started.ticks / 2;
  const Columns columns = decode(window);
  recorder.discard_window(window);
  CHECK_SAME(names_of(columns), Names{"one", "two", "three"});
  CHECK_SAME(columns.allocations.time_ns.size(), 1u);
  CHECK(columns.clock_jumped_ns != 0);
  int64_t previous = columns.start_ns;
  for (size_t i = 0; i < columns.events.start_ns.size(); ++i) {
    const int64_t start = columns.events.start_ns[i];
    CHECK(start >= previous);
    CHECK(columns.events.duration_ns[i] >= 0);
    CHECK(start + columns.events.duration_ns[i] <= columns.end_ns);
    previous = start;
  }
}

TEST(ticks_of_two_cores_that_differ_leave_rows_in_order) {
  Recorder& recorder = Recorder::instance();
  const uint32_t window = recorder.open_window(kAll, true);
  ThreadLog* log = Recorder::this_thread();
  const uint64_t ticks = now_ticks();
  for (const uint64_t behind : {uint64_t{0}, uint64_t{40}, uint64_t{20}}) {
    Record* record = log->open_span(7);
    record->kind = RecordKind::kOperator;
    record->scope = 0;
    record->op = {7, -1, recorder.intern(log, "moved"), kNoArena, 0, 0};
    record->ticks = ticks + 100 - behind;
    log->publish_span();
    log->close_span(7, ticks + 50);
  }
  while (now_ticks() < ticks + 200) {
  }
  const Columns columns = finish(window);
  CHECK_SAME(columns.events.start_ns.size(), 3u);
  CHECK(std::is_sorted(columns.events.start_ns.begin(), columns.events.start_ns.end()));
  for (const int64_t duration : columns.events.duration_ns) CHECK_SAME(duration, 0);
}

int main() { return run_all(); }
