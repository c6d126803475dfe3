// Python bindings of the flight recorder.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "log/clock.h"
#include "watch/dump_writer.h"
#include "watch/watch.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

constexpr const char* kNews[] = {"nothing", "stopped", "rotate", "request", "signal", "standstill", "memory"};

std::vector<uint32_t> as_list(const std::deque<uint32_t>& ids) { return {ids.begin(), ids.end()}; }

nb::tuple wait_for_news(Watch& watch, int64_t timeout_ns) {
  {
    const WithoutGil without_gil;
    watch.wait(timeout_ns);
  }
  const Watch::Report report = watch.take();
  return nb::make_tuple(kNews[static_cast<int>(report.news)], report.value, report.age_ns);
}

void stop(Watch& watch) {
  const WithoutGil without_gil;
  watch.stop();
}

// Leaked on purpose: the object must not be destroyed in a forked child.
void leave_to_parent(nb::handle_t<Watch> watch) {
  watch.inc_ref();
  nb::cast<Watch&>(watch).leave_to_parent();
}

std::string as_text(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

int write_files(Watch& watch, uint32_t window, std::string folder, std::string facts,
                const std::string& reason, const nb::bytes& places, const std::string& stacks) {
  const SpoolOrder order{std::move(folder), std::move(facts), as_text(places), {}};
  const WithoutGil without_gil;
  return watch.while_working([&] { return write_spool_files(order, reason, window, stacks); });
}

int hand_over(const std::vector<std::string>& command) {
  const WithoutGil without_gil;
  return hand_to_writer(command);
}

uint64_t bytes_of_folders(const std::string& folder, const std::string& prefix, const std::string& suffix) {
  const WithoutGil without_gil;
  return folder_bytes(folder, prefix, suffix);
}

}  // namespace

void bind_watch(nb::module_& module) {
  nb::class_<Watch>(module, "Watch")
      .def(
          "__init__",
          [](Watch* self, int64_t last_ns, uint64_t max_bytes, int64_t patience_ns, int64_t standstill_ns,
             bool needs_steps, int64_t memory_jump_bytes, int64_t memory_jump_ns) {
            new (self) Watch({{last_ns, max_bytes},
                              patience_ns,
                              standstill_ns,
                              needs_steps,
                              memory_jump_bytes,
                              memory_jump_ns});
          },
          "last_ns"_a, "max_bytes"_a, "patience_ns"_a, "standstill_ns"_a = 0, "needs_steps"_a = true,
          "memory_jump_bytes"_a = 0, "memory_jump_ns"_a = 0)
      .def("start", &Watch::start)
      .def("stop", &stop)
      .def("leave_to_parent", &leave_to_parent)
      .def("wait", &wait_for_news, "timeout_ns"_a)
      .def("request", &Watch::request, "number"_a, "reason"_a)
      .def("take_answered", &Watch::take_answered)
      .def("step_ended", &Watch::step_ended)
      .def("catch_signal", &Watch::catch_signal, "number"_a)
      .def("ignore_signal", &Watch::ignore_signal, "number"_a)
      .def(
          "arm",
          [](Watch& watch, std::string folder, std::string facts, const nb::bytes& places,
             std::vector<std::string> command) {
            watch.arm({std::move(folder), std::move(facts), as_text(places), std::move(command)});
          },
          "folder"_a, "facts"_a, "places"_a, "command"_a)
      .def("write_spool_files", &write_files, "window"_a, "folder"_a, "facts"_a, "reason"_a, "places"_a,
           "stacks"_a)
      .def(
          "add_window", [](Watch& watch, uint32_t id) { watch.ring().add(id, clock_ns(CLOCK_MONOTONIC)); },
          "window"_a)
      .def("take_windows", [](Watch& watch) { return as_list(watch.ring().take()); })
      .def_prop_ro("windows", [](Watch& watch) { return as_list(watch.ring().windows()); })
      .def_prop_ro("held_ns", [](Watch& watch) { return watch.ring().held_ns(clock_ns(CLOCK_MONOTONIC)); })
      .def_prop_ro("cut_by_memory", [](Watch& watch) { return watch.ring().cut_by_memory(); })
      .def_prop_ro("emergencies", &Watch::emergencies)
      .def_prop_ro("processor_ns", &Watch::processor_ns);
  module.def("folder_bytes", &bytes_of_folders, "folder"_a, "prefix"_a, "suffix"_a);
  module.def("hand_to_writer", &hand_over, "command"_a);
}

}  // namespace opscope
