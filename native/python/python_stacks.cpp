#include "python/python_stacks.h"

#include <Python.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "python/python_running_threads.h"
#include "python/python_text.h"

namespace nb = nanobind;

namespace opscope {

namespace {

using Names = std::unordered_map<uint64_t, std::string>;  // of threads

constexpr size_t kMostFrames = 100;    // of a thread, as faulthandler has it; one more says that there are
constexpr size_t kFramesAtOnce = 200;  // with the GIL
constexpr useconds_t kYield_us = 200;  // the GIL goes to who takes it first, and that are we

class StackText {
 public:
  explicit StackText(const Names& names) : names_(names) {}

  void add(const SeenThread& thread) {
    char number[32];
    std::snprintf(number, sizeof number, "0x%016llx", static_cast<unsigned long long>(thread.native_thread));
    text_ += (text_.empty() ? "Thread " : "\nThread ") + std::string(number);
    const auto name = names_.find(thread.native_thread);
    if (name != names_.end()) text_ += " [" + name->second + "]";
    text_ += " (most recent call first):\n";
    if (thread.frames.empty()) text_ += "  <no Python frame>\n";
    for (size_t i = 0; i < std::min(thread.frames.size(), kMostFrames); ++i) add(thread.frames[i]);
    if (thread.frames.size() > kMostFrames) text_ += "  ...\n";
  }

  std::string take() { return std::move(text_); }

 private:
  void add(const SeenFrame& frame) {
    const int line = PyCode_Addr2Line(frame.code, frame.instruction);
    text_ += "  File \"" + text_of(frame.code->co_filename) + "\", line ";
    text_ += (line > 0 ? std::to_string(line) : "???") + " in " + text_of(frame.code->co_name) + "\n";
    if (++frames_ % kFramesAtOnce == 0) without_gil([] { return usleep(kYield_us); });
  }

  const Names& names_;
  std::string text_;
  size_t frames_ = 0;
};

// [GIL] The stacks of all other threads that Python knows, as faulthandler writes them, with the names that
// are known of them by identifier. All are of one moment; while they are made into text others run Python now
// and then. faulthandler itself keeps the GIL throughout, for a system call with every word: 10 ms for 16
// threads of 40 functions.
nb::object stacks_of_others(const Names& names) {
  const auto own = static_cast<uint64_t>(PyThreadState_Get()->thread_id);
  const RunningThreads threads(RunningThreads::Functions::kOfAll, kMostFrames + 1);
  StackText stacks(names);
  for (const SeenThread& thread : threads.seen()) {
    if (thread.native_thread != own) stacks.add(thread);
  }
  const std::string text = stacks.take();
  return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

}  // namespace

void bind_python_stacks(nb::module_& module) {
  module.def("python_stacks", &stacks_of_others, nb::arg("names"));
}

}  // namespace opscope
