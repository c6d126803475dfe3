// What threads waited for, and what the host of a machine took: by what the kernel is said to have counted.
#include <unistd.h>

#include <string>

#include "check.h"
#include "watch/processor_waits.h"
#include "watch/stolen_time.h"

using namespace opscope;

namespace {

constexpr int64_t kMs = 1'000'000;

std::string counts(int first_stolen, int second_stolen) {
  const auto line = [](const char* name, int stolen) {
    return std::string(name) + " 10 20 30 40 50 60 70 " + std::to_string(stolen) + " 0 0\n";
  };
  return line("cpu ", first_stolen + second_stolen) + line("cpu0", first_stolen) +
         line("cpu1", second_stolen) + "intr 1 2 3\n";
}

TEST(threads_that_have_all_processors_wait_for_each_other) {
  // Six threads on two processors for a second: two seconds ran, four were waited.
  CHECK_SAME(waited_for_own_threads_ns(2000 * kMs, 4000 * kMs, 2, 1000 * kMs), 4000 * kMs);
}

TEST(threads_that_fit_beside_each_other_do_not) {
  CHECK_SAME(waited_for_own_threads_ns(500 * kMs, 400 * kMs, 2, 1000 * kMs), 0);
}

TEST(threads_that_are_kept_from_running_do_not_either) {
  // Four threads for a second, of which they had a hundredth; all of the time they wanted a processor.
  CHECK_SAME(waited_for_own_threads_ns(20 * kMs, 3980 * kMs, 2, 1000 * kMs), 39'800'000);
}

TEST(what_the_host_took_is_that_of_the_processor_which_had_most_taken) {
  StolenTime stolen;
  CHECK_SAME(stolen.stolen_ns(0, 100 * kMs), 0);
  stolen.note(0, counts(5, 100));
  stolen.note(100 * kMs, counts(6, 100));
  stolen.note(200 * kMs, counts(6, 104));
  stolen.note(300 * kMs, counts(30, 104));
  const int64_t tick_ns = 1'000'000'000 / sysconf(_SC_CLK_TCK);
  CHECK_SAME(stolen.stolen_ns(120 * kMs, 180 * kMs), 4 * tick_ns);
  CHECK_SAME(stolen.stolen_ns(10 * kMs, 90 * kMs), 1 * tick_ns);
  CHECK_SAME(stolen.stolen_ns(150 * kMs, 999 * kMs), 24 * tick_ns);
}

TEST(what_is_no_count_of_a_processor_is_passed_over) {
  StolenTime stolen;
  stolen.note(0, "");
  stolen.note(100 * kMs, "cpu0\ncpux 1 2\nintr");
  stolen.note(200 * kMs, counts(1, 2));
  CHECK_SAME(stolen.stolen_ns(0, 200 * kMs), 0);
}

TEST(this_machine_says_what_was_taken) {
  StolenTime stolen;
  stolen.look(1, true);
  stolen.look(2, true);
  CHECK(stolen.stolen_ns(1, 2) >= 0);
}

}  // namespace

int main() { return opscope::tests::run_all(); }
