#include "python/python_stacks.h"

#include <Python.h>
#include <dlfcn.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unordered_map.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "python/python_running_frame.h"
#include "python/python_running_threads.h"
#include "python/python_text.h"

namespace nb = nanobind;

namespace opscope {

namespace {

using Names = std::unordered_map<uint64_t, std::string>;  // of threads

constexpr size_t kMostFrames = 100;    // per thread, as in faulthandler; one more shows that there are more
constexpr size_t kMostThreads = 4096;  // limit in a copy, whose list of threads may be circular
constexpr size_t kFramesAtOnce = 200;  // without releasing the GIL
constexpr useconds_t kYield_us = 200;  // long enough for another thread to take the GIL

// A line of limited length that allocates nothing and cuts longer text.
class Line {
 public:
  void add(std::string_view text) {
    for (const char byte : text) put(byte);
  }
  void add(PyObject* text) {
    add_text(text, [this](char byte) { put(byte); });
  }
  void add(uint64_t number, const char* format) {
    char digits[32];
    std::snprintf(digits, sizeof digits, format, static_cast<unsigned long long>(number));
    add(std::string_view(digits));
  }
  std::string_view text() const { return {text_, size_}; }

 private:
  void put(char byte) {
    if (size_ < sizeof text_) text_[size_++] = byte;
  }

  char text_[8192];
  size_t size_ = 0;
};

// Format of faulthandler.
void add_thread(Line& line, uint64_t native_thread, std::string_view name) {
  line.add("Thread ");
  line.add(native_thread, "0x%016llx");
  if (!name.empty()) {
    line.add(" [");
    line.add(name);
    line.add("]");
  }
  line.add(" (most recent call first):\n");
}

void add_call(Line& line, PyCodeObject* code, int32_t instruction) {
  const int number = PyCode_Addr2Line(code, instruction);
  line.add("  File \"");
  line.add(code->co_filename);
  line.add("\", line ");
  if (number > 0) {
    line.add(static_cast<uint64_t>(number), "%llu");
  } else {
    line.add("???");
  }
  line.add(" in ");
  line.add(code->co_name);
  line.add("\n");
}

constexpr std::string_view kNoCall = "  <no Python frame>\n";
constexpr std::string_view kMoreCalls = "  ...\n";

class StackText {
 public:
  explicit StackText(const Names& names) : names_(names) {}

  void add(const SeenThread& thread) {
    const auto name = names_.find(thread.native_thread);
    Line line;
    add_thread(line, thread.native_thread, name == names_.end() ? std::string_view() : name->second);
    text_ += text_.empty() ? "" : "\n";
    text_ += line.text();
    if (thread.frames.empty()) text_ += kNoCall;
    for (size_t i = 0; i < std::min(thread.frames.size(), kMostFrames); ++i) add(thread.frames[i]);
    if (thread.frames.size() > kMostFrames) text_ += kMoreCalls;
  }

  std::string take() { return std::move(text_); }

 private:
  void add(const SeenFrame& frame) {
    Line line;
    add_call(line, frame.code, frame.instruction);
    text_ += line.text();
    if (++frames_ % kFramesAtOnce == 0) without_gil([] { return usleep(kYield_us); });
  }

  const Names& names_;
  std::string text_;
  size_t frames_ = 0;
};

// [GIL] Stacks of all other Python threads at one moment, in faulthandler's format, with the thread names in
// `names`. While this formats the text, other threads run Python now and then. faulthandler itself keeps the
// GIL for its system calls, one per word: 10 ms for 16 threads of 40 functions.
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

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void write_stack_of_copy(int descriptor, PyThreadState* state) {
  RunningFrame frame = RunningFrame::current_without_gil(state);
  if (!frame) write_all(descriptor, kNoCall);
  for (size_t i = 0; frame; ++i, frame = frame.caller()) {
    if (i == kMostFrames) return write_all(descriptor, kMoreCalls);
    Line line;
    add_call(line, frame.code(), frame.instruction());
    write_all(descriptor, line.text());
  }
}

// Calls Python's own dump function.
void write_stacks_as_python_does(int descriptor, PyInterpreterState* interpreter) {
  using Dump = const char* (*)(int, PyInterpreterState*, PyThreadState*);
  const auto dump = reinterpret_cast<Dump>(dlsym(RTLD_DEFAULT, "_Py_DumpTracebackThreads"));
  if (dump != nullptr) dump(descriptor, interpreter, nullptr);
}

}  // namespace

void write_stacks_of_copy(int descriptor, PyInterpreterState* interpreter) {
  if (!cpython::kReadsWithoutGil) return write_stacks_as_python_does(descriptor, interpreter);
  PyThreadState* state = PyInterpreterState_ThreadHead(interpreter);
  for (size_t i = 0; state != nullptr && i < kMostThreads; ++i, state = PyThreadState_Next(state)) {
    if (i > 0) write_all(descriptor, "\n");
    Line line;
    add_thread(line, static_cast<uint64_t>(state->thread_id), {});
    write_all(descriptor, line.text());
    write_stack_of_copy(descriptor, state);
  }
}

void bind_python_stacks(nb::module_& module) {
  module.def("python_stacks", &stacks_of_others, nb::arg("names"));
}

}  // namespace opscope
