// Files of ours in a program that closes all it might have opened, and what wakes threads without any.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <utility>

#include "check.h"
#include "log/clock.h"
#include "log/own_file.h"
#include "watch/bell.h"

using namespace opscope;

namespace {

constexpr int64_t kLong_ns = 60'000'000'000;

bool is_open(int descriptor) { return fcntl(descriptor, F_GETFD) >= 0; }

int open_statistics() { return open("/proc/self/stat", O_RDONLY | O_CLOEXEC); }

// What the program opens once it has closed a file of ours.
int replace(int descriptor) {
  close(descriptor);
  const int other = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (other == descriptor) return other;
  dup2(other, descriptor);
  close(other);
  return descriptor;
}

}  // namespace

TEST(a_file_is_ours_until_it_is_closed) {
  int descriptor = -1;
  {
    const OwnFile file(open_statistics());
    descriptor = file.get();
    CHECK(is_open(descriptor));
  }
  CHECK(!is_open(descriptor));
  OwnFile file(open_statistics());
  CHECK(file.get() >= 0);
  file.end();
  CHECK_SAME(file.get(), -1);
  file.end();
  CHECK_SAME(OwnFile(-1).get(), -1);
  CHECK_SAME(OwnFile().get(), -1);
}

TEST(what_the_program_opens_under_its_number_is_not_ours) {
  int descriptor = -1;
  {
    OwnFile file(open_statistics());
    descriptor = file.get();
    replace(descriptor);
    CHECK_SAME(file.get(), -1);
    file.move_away();
    CHECK_SAME(file.get(), -1);
    file = OwnFile();
  }
  CHECK(is_open(descriptor));
  close(descriptor);
}

TEST(one_that_was_closed_is_taken_again_if_it_is_the_same) {
  OwnFile file(open_statistics());
  const int before = replace(file.get());
  CHECK(!file.take_again(open("/proc/self/maps", O_RDONLY | O_CLOEXEC)));
  CHECK(!file.take_again(-1));
  CHECK_SAME(file.get(), -1);
  CHECK(file.take_again(open_statistics()));
  CHECK(file.get() >= 0 && file.get() != before);
  close(before);
}

TEST(a_file_moves_out_of_the_way_and_between_owners) {
  OwnFile file(open_statistics());
  const int before = file.get();
  file.move_away();
  CHECK(file.get() >= 512);
  CHECK(!is_open(before));
  const int descriptor = file.get();
  OwnFile other(std::move(file));
  CHECK_SAME(other.get(), descriptor);
  CHECK_SAME(file.get(), -1);
  OwnFile last(open_statistics());
  last = std::move(other);
  CHECK_SAME(last.get(), descriptor);
  CHECK(is_open(descriptor));
}

TEST(a_bell_wakes_all_who_wait) {
  std::atomic<int> woken{0};
  const uint32_t heard = Bell::rung();
  const auto wait = [&] {
    while (Bell::rung() == heard) Bell::wait(heard, kLong_ns);
    ++woken;
  };
  std::thread one(wait), other(wait);
  Bell::ring();
  one.join();
  other.join();
  CHECK_SAME(woken.load(), 2);
}

TEST(who_has_not_heard_the_bell_does_not_wait_and_others_wait_so_long) {
  const uint32_t before = Bell::rung();
  Bell::ring();
  Bell::wait(before, kLong_ns);  // or this test never ends
  const int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  Bell::wait(Bell::rung(), 20'000'000);
  CHECK(clock_ns(CLOCK_MONOTONIC) - began_ns >= 19'000'000);
}

TEST(a_bell_rings_in_a_signal_handler) {
  struct sigaction action = {}, before = {};
  action.sa_handler = [](int) { Bell::ring(); };
  sigaction(SIGUSR1, &action, &before);
  const uint32_t heard = Bell::rung();
  std::thread waits([heard] {
    while (Bell::rung() == heard) Bell::wait(heard, kLong_ns);
  });
  raise(SIGUSR1);
  waits.join();
  CHECK_SAME(Bell::rung(), heard + 1);
  sigaction(SIGUSR1, &before, nullptr);
}

int main() { return opscope::tests::run_all(); }
