// Files of ours in a program that closes all it might have opened, and what wakes threads without any.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <iterator>
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

TEST(the_same_file_that_the_program_opens_is_not_ours) {
  int descriptor = -1;
  {
    OwnFile file(open_statistics());
    descriptor = file.get();
    const int theirs = open_statistics();
    dup2(theirs, descriptor);
    close(theirs);
    CHECK_SAME(file.get(), -1);
  }
  CHECK(is_open(descriptor));
  close(descriptor);
}

TEST(a_file_has_no_number_of_standard_ones_also_where_few_files_may_be_open) {
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{64, before.rlim_max};
  const int kept = dup(0);
  close(0);
  for (const bool has_few : {false, true}) {
    setrlimit(RLIMIT_NOFILE, has_few ? &few : &before);
    OwnFile file(open_statistics());
    CHECK(file.get() >= (has_few ? 3 : 512));
    CHECK(!is_open(0));
    CHECK(file.take_again(open_statistics()));
    CHECK(file.get() >= (has_few ? 3 : 512));
    CHECK(!is_open(0));
  }
  setrlimit(RLIMIT_NOFILE, &before);
  dup2(kept, 0);
  close(kept);
}

TEST(a_file_that_is_closed_while_it_is_written_is_written_to_its_end) {
  const std::string path = "/tmp/opscope-own-file-" + std::to_string(getpid());
  NewFile file(path);
  CHECK_SAME(NewFile(path).error(), EEXIST);
  CHECK_SAME(file.write("one, "), 0);
  const int theirs = replace(file.get());
  CHECK_SAME(file.write("two, "), 0);
  close(file.get());
  CHECK_SAME(file.write("three"), 0);
  CHECK_SAME(file.end(), 0);
  CHECK(is_open(theirs));
  close(theirs);
  std::ifstream written(path);
  CHECK_SAME(std::string(std::istreambuf_iterator<char>(written), {}), std::string("one, two, three"));
  unlink(path.c_str());
  CHECK_SAME(NewFile("/nowhere/file").write("x"), ENOENT);
}

TEST(a_file_moves_between_owners) {
  OwnFile file(open_statistics());
  CHECK(file.get() >= 512);
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
