// Shared by tests of streams: a recording that streams to its own file.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "recording.h"

namespace opscope::tests {

constexpr uint64_t kAnySize = uint64_t{1} << 40;

inline std::string program;  // path of this one

inline std::string new_path() {
  static int count = 0;
  return program + "." + std::to_string(getpid()) + "-" + std::to_string(++count) + ".stream";
}

struct Streaming {
  std::string path = new_path();
  uint32_t window = recorder().reserve_window();

  explicit Streaming(uint64_t max_bytes = kAnySize, uint32_t wants = kAll) {
    recorder().begin_stream(window, path, max_bytes, "{}");
    recorder().open_window(wants, true, window);
  }
  ~Streaming() {
    recorder().close_window(window);
    recorder().end_stream(window);
    recorder().discard_window(window);
    unlink(path.c_str());
  }
};

// Exit status of a forked child: 0 if `work` returns true.
inline int status_of_child(const std::function<bool()>& work) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline size_t count_of(const Columns& columns, const std::string& name) {
  const Names names = names_of(columns);
  return static_cast<size_t>(std::count(names.begin(), names.end(), name));
}

inline void record_some(int count) {
  for (int i = 0; i < count; ++i) {
    open_span("outer", 1, RecordKind::kAnnotation);
    open_span("op", 2, RecordKind::kOperator, {i, 2, 3});
    allocation(64, 4096);
    close_span(2);
    close_span(1);
  }
}

}  // namespace opscope::tests
