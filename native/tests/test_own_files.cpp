// Files of ours in a program that closes all it might have opened.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "log/own_file.h"

using namespace opscope;

namespace {

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

TEST(a_file_is_ours_until_it_is_closed_whoever_owns_it) {
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
  OwnFile first(open_statistics());
  descriptor = first.get();
  OwnFile last(open_statistics());
  last = std::move(first);
  CHECK_SAME(first.get(), -1);
  CHECK_SAME(last.get(), descriptor);
  CHECK(is_open(descriptor));
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
  }
  setrlimit(RLIMIT_NOFILE, &before);
  dup2(kept, 0);
  close(kept);
}

TEST(a_file_that_is_closed_while_it_is_written_is_not_written_to_another) {
  const std::string path = "/tmp/opscope-own-file-" + std::to_string(getpid());
  NewFile file(path);
  CHECK_SAME(NewFile(path).error(), EEXIST);
  CHECK_SAME(file.write("one, "), 0);
  CHECK_SAME(file.write("two"), 0);
  const int theirs = replace(file.get());
  CHECK_SAME(file.write("three"), EBADF);
  CHECK_SAME(file.end(), 0);
  CHECK(is_open(theirs));
  close(theirs);
  std::ifstream written(path);
  CHECK_SAME(std::string(std::istreambuf_iterator<char>(written), {}), std::string("one, two"));
  unlink(path.c_str());
  CHECK_SAME(NewFile("/nowhere/file").write("x"), ENOENT);
}

TEST(threads_of_this_process_are_listed) {
  const std::vector<int> threads = numbered_entries("/proc/self/task", SIZE_MAX);
  CHECK(std::find(threads.begin(), threads.end(), getpid()) != threads.end());
  CHECK_SAME(numbered_entries("/proc/self/fd", 2).size(), 2u);
  CHECK(numbered_entries("/nowhere", 2).empty());
}

int main() { return opscope::tests::run_all(); }
