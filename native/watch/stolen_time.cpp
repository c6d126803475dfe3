#include "watch/stolen_time.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <string>

#include "log/clock.h"
#include "log/proc_files.h"

namespace opscope {

namespace {

constexpr size_t kReadingsRemembered = 64;
constexpr size_t kMostText = 64 << 10;  // of the lines of processors, which come first
constexpr int64_t kShortestLookPause_ns = 100'000'000, kLongestLookPause_ns = 1'000'000'000;
constexpr int64_t kPausePerLook = 1'000;
constexpr int kFieldsBefore =
    7;  // user, nice, system, idle, iowait, irq, softirq: then comes what was stolen

int64_t number_at(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return error == std::errc() ? value : -1;
}

// As many as there are lines `cpu0 ...`; all of what was stolen from each since it began.
std::vector<int64_t> stolen_of_each(std::string_view text) {
  const int64_t tick_ns = 1'000'000'000 / std::max(sysconf(_SC_CLK_TCK), 1L);
  cpu_set_t allowed;
  const bool knows = sched_getaffinity(0, sizeof(allowed), &allowed) == 0;
  std::vector<int64_t> found;
  while (text.starts_with("cpu")) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line.remove_prefix(3);
    if (line.starts_with(' ')) continue;  // of all processors together
    const int64_t processor = number_at(line);
    if (processor < 0 || processor >= CPU_SETSIZE) continue;
    for (int i = 0; i < kFieldsBefore; ++i) number_at(line);
    const int64_t ticks = number_at(line);
    found.resize(std::max(found.size(), static_cast<size_t>(processor) + 1), -1);
    const bool is_allowed = !knows || CPU_ISSET(static_cast<size_t>(processor), &allowed);
    found[static_cast<size_t>(processor)] = is_allowed && ticks >= 0 ? ticks * tick_ns : -1;
  }
  return found;
}

}  // namespace

void StolenTime::look(int64_t now_ns, bool is_asked) {
  if (!is_asked && now_ns - read_at_ns_ < pause_ns_) return;
  read_at_ns_ = now_ns;
  const int64_t computed_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  note(now_ns, read_proc_file("/proc/stat", kMostText));
  const int64_t cost_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - computed_ns;
  pause_ns_ = std::clamp(cost_ns * kPausePerLook, kShortestLookPause_ns, kLongestLookPause_ns);
}

void StolenTime::note(int64_t now_ns, std::string_view text) {
  Reading reading{now_ns, stolen_of_each(text)};
  const std::lock_guard lock(mutex_);
  readings_.push_back(std::move(reading));
  if (readings_.size() > kReadingsRemembered) readings_.pop_front();
}

int64_t StolenTime::stolen_ns(int64_t from_ns, int64_t to_ns) const {
  const std::lock_guard lock(mutex_);
  if (readings_.empty()) return 0;
  const Reading* before = &readings_.front();
  const Reading* after = &readings_.back();
  for (const Reading& one : readings_) {
    if (one.at_ns <= from_ns) before = &one;
    if (one.at_ns >= to_ns) {
      after = &one;
      break;
    }
  }
  int64_t most_ns = 0;
  for (size_t i = 0; i < std::min(before->taken_ns.size(), after->taken_ns.size()); ++i) {
    if (before->taken_ns[i] >= 0 && after->taken_ns[i] >= 0)
      most_ns = std::max(most_ns, after->taken_ns[i] - before->taken_ns[i]);
  }
  return most_ns;
}

}  // namespace opscope
