// Writers without pauses, beside threads that open, pause, decode and discard windows. For the thread
// sanitizer; without it, still detects lost and torn records.
#include <algorithm>
#include <atomic>
#include <random>

#include "check.h"
#include "recording.h"

using namespace opscope;
using namespace opscope::tests;

namespace {

// Runs `work` on its threads until it is destroyed.
class Background {
 public:
  Background(int count, std::function<void(int)> work) {
    for (int t = 0; t < count; ++t) {
      threads_.emplace_back([this, work, t] {
        while (!done_.load(std::memory_order_relaxed)) work(t);
      });
    }
  }
  ~Background() {
    done_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> done_{false};
  std::vector<std::thread> threads_;
};

// The span's argument is the number in its key, to detect mixed records.
void write_spans(int writer) {
  static thread_local int64_t number = 0;
  const auto key = static_cast<uint64_t>(writer + 1) << 32 | static_cast<uint64_t>(++number);
  open_span("outer", key, RecordKind::kOperator, {writer, number});
  open_span("inner", key + (1ull << 31), RecordKind::kAnnotation);
  allocation(64, key);
  close_span(key + (1ull << 31));
  close_span(key);
}

void check_consistent(const Columns& columns) {
  const EventColumns& e = columns.events;
  if (!std::is_sorted(e.start_ns.begin(), e.start_ns.end())) CHECK(false);
  for (size_t i = 0; i < e.name.size(); ++i) {
    const int32_t parent = e.parent[i];
    if (parent >= static_cast<int32_t>(i)) CHECK(false);
    if (parent >= 0 && e.thread[static_cast<size_t>(parent)] != e.thread[i]) CHECK(false);
    if (e.duration_ns[i] < 0) CHECK(false);
  }
  // Arguments come in pairs; the numbers of one writer only increase.
  std::vector<int64_t> last(64, 0);
  for (size_t row = 0; row + 1 < columns.scalars.event.size(); row += 2) {
    if (columns.scalars.event[row] != columns.scalars.event[row + 1]) CHECK(false);
    const auto writer = static_cast<size_t>(std::stoll(columns.names.text(columns.scalars.value[row])));
    const int64_t number = std::stoll(columns.names.text(columns.scalars.value[row + 1]));
    if (writer >= last.size() || number <= last[writer]) CHECK(false);
    if (writer < last.size()) last[writer] = number;
  }
  CHECK_SAME(columns.cut_payloads, 0u);
  CHECK_SAME(columns.dropped.spans, 0u);
}

void wait_for_records(uint64_t count) {
  while (Recorder::this_thread()->log().size() < count) span("wait");
}

constexpr int kRounds = 30;

}  // namespace

TEST(windows_over_threads_that_never_stop_writing) {
  const Background writers(3, write_spans);
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t window = recorder().open_window(kAll, true);
    wait_for_records(Recorder::this_thread()->log().size() + 200);
    check_consistent(finish(window));
  }
}

TEST(windows_opened_and_released_by_several_threads) {
  const Background writers(2, write_spans);
  std::vector<std::thread> users;
  for (unsigned user = 0; user < 3; ++user) {
    users.emplace_back([user] {
      std::minstd_rand random(user);
      std::vector<uint32_t> windows;
      for (int round = 0; round < kRounds; ++round) {
        windows.push_back(
            recorder().open_window(random() % 2 == 0 ? kAll : kWantOperators, random() % 4 != 0));
        wait_for_records(Recorder::this_thread()->log().size() + random() % 300);
        recorder().pause_window(windows.back(), true);
        recorder().pause_window(windows.back(), random() % 2 == 0);
        const size_t pick = random() % windows.size();
        const uint32_t window = windows[pick];
        windows.erase(windows.begin() + static_cast<std::ptrdiff_t>(pick));
        if (random() % 3 == 0) {
          recorder().discard_window(window);
        } else {
          check_consistent(finish(window));
        }
      }
      for (const uint32_t window : windows) recorder().discard_window(window);
    });
  }
  for (std::thread& user : users) user.join();
  CHECK_SAME(recorder().statistics().windows, 0u);
}

TEST(one_window_decoded_by_several_threads_while_others_go) {
  const Background writers(2, write_spans);
  const Background others(1, [](int) {
    const uint32_t window = recorder().open_window(kAll, true);
    wait_for_records(Recorder::this_thread()->log().size() + 50);
    recorder().discard_window(window);
  });
  for (int round = 0; round < kRounds / 4; ++round) {
    const uint32_t window = recorder().open_window(kAll, true);
    wait_for_records(Recorder::this_thread()->log().size() + 300);
    recorder().close_window(window);
    std::vector<size_t> counts(2);
    std::vector<std::thread> readers;
    for (size_t& count : counts) {
      readers.emplace_back([&count, window] {
        const Columns columns = decode(window);
        check_consistent(columns);
        count = columns.events.name.size();
      });
    }
    for (std::thread& reader : readers) reader.join();
    CHECK_SAME(counts[0], counts[1]);
    recorder().discard_window(window);
  }
}

TEST(threads_that_come_and_go) {
  const Background short_lived(2, [](int writer) { std::thread([writer] { write_spans(writer); }).join(); });
  for (int round = 0; round < kRounds; ++round) {
    const uint32_t window = recorder().open_window(kAll, true);
    wait_for_records(Recorder::this_thread()->log().size() + 500);
    const Columns columns = finish(window);
    CHECK_SAME(columns.cut_payloads, 0u);
  }
}

TEST(spans_ended_on_other_threads) {
  const uint32_t window = recorder().open_window(kAll, true);
  constexpr uint64_t kSpans = 2000;
  std::atomic<uint64_t> opened{0};
  std::thread ending([&] {
    for (uint64_t key = 1; key <= kSpans; ++key) {
      while (opened.load(std::memory_order_acquire) < key) {
      }
      close_span(key);
    }
  });
  for (uint64_t key = 1; key <= kSpans; ++key) {
    open_span("async", key, RecordKind::kAnnotation);
    opened.store(key, std::memory_order_release);
  }
  ending.join();
  const Columns columns = finish(window);
  CHECK_SAME(columns.events.name.size(), kSpans);
  CHECK_SAME(std::count(columns.events.is_async.begin(), columns.events.is_async.end(), 1),
             static_cast<long>(kSpans));
  CHECK_SAME(columns.unmatched_ends, 0u);
}

TEST(names_interned_by_all_threads_at_once) {
  std::vector<std::thread> threads;
  std::vector<std::vector<uint32_t>> ids(4);
  for (std::vector<uint32_t>& own : ids) {
    threads.emplace_back([&own] {
      for (int i = 0; i < 500; ++i) own.push_back(recorder().names().intern("shared " + std::to_string(i)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& own : ids) CHECK_SAME(own, ids[0]);
}

int main() { return opscope::tests::run_all(); }
