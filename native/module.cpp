// The Python face of the recorder. src/opscope/_native.pyi is its contract.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "cupti/cupti_source.h"
#include "decode/columns.h"
#include "decode/window_clock.h"
#include "gpu/bindings.h"
#include "gpu/gpu_activity.h"
#include "interpreter/around_call.h"
#include "interpreter/child_process.h"
#include "interpreter/lifecycle.h"
#include "interpreter/without_gil.h"
#include "log/bridge_loader.h"
#include "log/log_copy.h"
#include "log/recorder.h"
#include "log/streamed_log.h"
#include "memory/bindings.h"
#include "nesting/bindings.h"
#include "numpy/to_numpy.h"
#include "python/annotation.h"
#include "python/python_calls.h"
#include "python/python_collections.h"
#include "python/python_fast_annotation.h"
#include "python/python_windows.h"
#include "ranges/ranges.h"
#include "watch/bindings.h"
#include "writers/bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

void set_up_python(const std::string& hidden_folder, const std::string& shown_file,
                   const std::string& program_file, nb::handle module_function, nb::handle optimizer_code,
                   nb::handle parameter_reader, nb::handle optimizer_hooks, nb::handle optimizer_hook,
                   const std::vector<std::string>& library_marks,
                   const std::vector<std::string>& library_endings,
                   const std::vector<std::string>& recorded_functions) {
  PythonCalls::instance().set_up({hidden_folder,
                                  shown_file,
                                  program_file,
                                  {library_marks, library_endings, recorded_functions},
                                  module_function.ptr(),
                                  optimizer_code.ptr(),
                                  parameter_reader.ptr(),
                                  optimizer_hooks.ptr(),
                                  optimizer_hook.ptr()});
}

// Spans of no program, which no window but the one that is opened for them may have: windows open with the
// GIL, and this keeps it. NaN where there is such a window.
double time_spans(bool empty_callback) {
  const uint64_t of_its_own = empty_callback ? 0 : 1;
  if (Recorder::instance().statistics().open_windows > of_its_own) return std::nan("");
  return loaded_bridge().time_spans(empty_callback);
}

// What is known of the window beside its tables.
nb::dict account(const Columns& columns, const WindowFacts& window) {
  nb::dict account;
  account["start_ns"] = columns.start_ns;
  account["end_ns"] = columns.end_ns;
  account["clock_jumped_ns"] = columns.clock_jumped_ns;
  account["clock_set_by_ns"] = columns.clock_set_by_ns;
  account["dropped_spans"] = columns.dropped.spans;
  account["dropped_allocations"] = columns.dropped.allocations;
  account["dropped_others"] = columns.dropped.others;
  account["unheard_spans"] = columns.dropped.unheard_spans;
  account["recorded_threads"] = columns.recorded_threads;
  account["unheard_threads"] = columns.unheard_threads;
  account["unhooked_threads"] = window.unhooked_threads;
  account["process_threads"] = window.process_threads;
  account["unheard_frees"] = columns.unheard_frees;
  account["unknown_frees"] = window.unknown_frees;
  account["lost_spans"] = window.of_ending_threads.spans;
  account["lost_allocations"] = window.of_ending_threads.allocations;
  account["unmatched_ends"] = columns.unmatched_ends;
  account["cut_payloads"] = columns.cut_payloads;
  account["tensors_not_held"] = window.tensors_not_held;
  account["fault"] = window.fault;
  nb::list notes;
  for (const LedgerNote& note : window.notes)
    notes.append(nb::make_tuple(note.source, note.what, note.value));
  account["notes"] = notes;
  return account;
}

// [holding a ReadLock]
std::shared_ptr<Window> closed_window(uint32_t id) {
  std::shared_ptr<Window> window = Recorder::instance().window(id);
  if (window == nullptr || window->open) throw std::invalid_argument("no closed window with this id");
  return window;
}

nb::dict to_dict(Columns columns, const WindowFacts& window) {
  nb::dict result;
  result["account"] = account(columns, window);
  result["tables"] = to_tables(static_cast<RecordedTables&&>(columns));
  result["name_offsets"] = to_array(std::move(columns.names.offsets));
  result["name_text"] = nb::bytes(columns.names.blob.data(), columns.names.blob.size());
  return result;
}

nb::dict decode(uint32_t id, const std::vector<std::string>& prefixes) {
  Recorder& recorder = Recorder::instance();
  const ReadLock lock(recorder);
  const std::shared_ptr<Window> window = closed_window(id);
  Columns columns;
  {
    const WithoutGil without_gil;
    columns = decode_window(recorder.view_of(*window), prefixes);
  }
  nb::dict result = to_dict(std::move(columns), *window);
  decode_gpu_into(result, *window);
  return result;
}

// Into an open file; returns 0, or what went wrong as an errno.
int write_window(uint32_t id, int file) {
  Recorder& recorder = Recorder::instance();
  const ReadLock lock(recorder);
  const std::shared_ptr<Window> window = closed_window(id);
  const WithoutGil without_gil;
  return write_log(recorder.view_of(*window), file);
}

nb::bytes copy_window(uint32_t id) {
  Recorder& recorder = Recorder::instance();
  const ReadLock lock(recorder);
  const std::shared_ptr<Window> window = closed_window(id);
  std::string copy;
  {
    const WithoutGil without_gil;
    copy = copy_log(recorder.view_of(*window));
  }
  return nb::bytes(copy.data(), copy.size());
}

nb::dict decode_copy(const nb::bytes& bytes, const std::vector<std::string>& prefixes) {
  const CopiedLog log({bytes.c_str(), bytes.size()});
  Columns columns;
  {
    const WithoutGil without_gil;
    columns = decode_window(log.view(), prefixes);
  }
  nb::dict result = to_dict(std::move(columns), log.view().window);
  result["devices"] = nb::none();
  return result;
}

[[noreturn]] void raise_os_error(const std::system_error& error, const std::string& path) {
  const nb::object described = nb::make_tuple(error.code().value(), error.code().message(), path);
  PyErr_SetObject(PyExc_OSError, described.ptr());
  throw nb::python_error();
}

void begin_stream(uint32_t window, const std::string& path, uint64_t max_bytes, const std::string& about) {
  try {
    Recorder::instance().begin_stream(window, path, max_bytes, about);
  } catch (const std::system_error& error) {
    raise_os_error(error, path);
  }
}

std::unique_ptr<StreamedLog> read_stream(const std::string& path) {
  try {
    const WithoutGil without_gil;
    return std::make_unique<StreamedLog>(path);
  } catch (const std::system_error& error) {
    raise_os_error(error, path);
  }
}

nb::dict decode_stream(const StreamedLog& log, const std::vector<std::string>& prefixes) {
  Columns columns;
  {
    const WithoutGil without_gil;
    columns = decode_window(log.view(), prefixes);
  }
  nb::dict result = to_dict(std::move(columns), log.view().window);
  result["devices"] = nb::none();
  return result;
}

nb::dict describe_stream(const StreamedLog& log) {
  const StreamHeader& header = log.header();
  const WindowFacts& window = log.view().window;
  const WindowClock clock(log.view().origin, window.started, window.stopped, log.view().recent_rate);
  const auto time = [&](uint64_t ticks) {
    return ticks == 0 ? nb::object(nb::none()) : nb::cast(clock.unix_ns(ticks));
  };
  nb::dict result;
  result["has_end"] = log.has_end();
  result["missing_blocks"] = log.missing_blocks();
  result["process_id"] = header.process_id;
  result["process_start"] = header.process_start;
  result["boot_id"] = std::string(header.boot_id);
  result["growth_error"] = header.growth_error.load();
  result["first_loss_ns"] = time(log.first_loss());
  result["last_loss_ns"] = time(log.last_loss());
  return result;
}

nb::tuple process_identity(int64_t process_id) {
  const ProcessIdentity identity = identity_of(process_id);
  return nb::make_tuple(identity.start, std::string(identity.boot_id));
}

nb::dict statistics() {
  const RecorderStatistics statistics = Recorder::instance().statistics();
  nb::dict result;
  result["threads"] = statistics.threads;
  result["windows"] = statistics.windows;
  result["mapped_bytes"] = statistics.mapped_bytes;
  result["used_bytes"] = statistics.used_bytes;
  result["text_bytes"] = statistics.text_bytes;
  result["records"] = statistics.records;
  result["wanted"] = statistics.wanted;
  result["occupied_threads"] = PythonCalls::instance().unheard_threads();
  const BridgeApi* bridge = Recorder::instance().bridge();
  result["hides_locks"] = bridge != nullptr && bridge->hides_locks();
  return result;
}

}  // namespace
}  // namespace opscope

NB_MODULE(_native, m) {
  using namespace opscope;
  nb::set_leak_warnings(false);  // what modules hold until the process ends is not worth the program's stderr
  m.def("reserve_window", [] { return Recorder::instance().reserve_window(); });
  Recorder::instance().python_thread = [] {
    PyThreadState* const state = PyGILState_GetThisThreadState();
    return state == nullptr ? uint64_t{0} : PyThreadState_GetID(state);
  };
  m.def("open_window", &open_window, "wants"_a, "all_threads"_a, "reserved"_a = 0, "collects"_a = UINT32_MAX);
  m.def("close_window", &close_window, "window"_a);
  m.def("pause_window", &pause_window, "window"_a, "paused"_a);
  m.def("collect", &collect, "window"_a, "wants"_a);
  m.def("snapshot_window", &snapshot_window, "window"_a);
  m.def("discard_window", &discard_window, "window"_a);
  m.def("decode", &decode, "window"_a, "prefixes"_a);
  m.def("copy_log", &copy_window, "window"_a);
  m.def("write_log", &write_window, "window"_a, "file"_a);
  m.def("decode_copy", &decode_copy, "copy"_a, "prefixes"_a);
  m.def("begin_stream", &begin_stream, "window"_a, "path"_a, "max_bytes"_a, "about"_a);
  m.def(
      "note_in_stream", [](const std::string& text) { Recorder::instance().note_in_stream(text); }, "text"_a);
  m.def("end_stream", [](uint32_t window) { Recorder::instance().end_stream(window); }, "window"_a);
  m.def(
      "discard_stream",
      [](const std::string& path) { Recorder::instance().pool().discard_stream(path.c_str()); }, "path"_a);
  nb::class_<StreamedLog>(m, "StreamedLog")
      .def_prop_ro("about", &StreamedLog::about)
      .def_prop_ro("notes", &StreamedLog::notes)
      .def("describe", &describe_stream)
      .def("decode", &decode_stream, "prefixes"_a);
  m.def("read_stream", &read_stream, "path"_a);
  m.def("process_identity", &process_identity, "process_id"_a);
  m.def("guard_fast_annotations", [](nb::handle type) { guard_fast_annotations(type.ptr()); }, "type"_a);
  m.def("set_up_python", &set_up_python, "hidden_folder"_a, "shown_file"_a, "program_file"_a,
        "module_function"_a.none(), "optimizer_code"_a.none(), "parameter_reader"_a.none(),
        "optimizer_hooks"_a.none(), "optimizer_hook"_a.none() = nb::none(),
        "library_marks"_a = std::vector<std::string>(), "library_endings"_a = std::vector<std::string>(),
        "recorded_functions"_a = std::vector<std::string>());
  m.def(
      "optimizer_step", [](nb::handle optimizer) { PythonCalls::instance().optimizer_step(optimizer.ptr()); },
      "optimizer"_a);
  m.def("attach_bridge", [](const std::string& path) { return load_bridge(path).torch_version; }, "path"_a);
  m.def("enter_thread", [] { loaded_bridge().enter_thread(); });
  m.def("leave_thread", [] { loaded_bridge().leave_thread(); });
  m.def("emit_ranges", &emit_ranges, "kind"_a, "with_shapes"_a);
  m.def("stop_ranges", &stop_ranges);
  m.def("time_spans", &time_spans, "empty_callback"_a);
  m.def("set_budget", [](size_t bytes) { Recorder::instance().pool().set_budget(bytes); }, "bytes"_a);
  m.def("limit_growth", [](size_t bytes) { Recorder::instance().pool().limit_growth(bytes); }, "bytes"_a);
  m.def("set_tensor_budget", [](uint64_t bytes) { loaded_bridge().set_tensor_budget(bytes); }, "bytes"_a);
  m.def("fault", [] { return Recorder::instance().fault(); });
  m.def("statistics", &statistics);
  m.def("refresh_hooks", [] { configure_sources(); });
  m.attr("WANTS") = nb::dict();
  nb::dict wants = nb::cast<nb::dict>(m.attr("WANTS"));
  for (size_t i = 0; i < std::size(kWants); ++i) wants[nb::str(kWantNames[i].data())] = kWants[i];
  bind_annotation(m);
  bind_around_call(m);
  bind_child_process(m);
  bind_collections(m);
  bind_lifecycle(m);
  GpuActivity::instance().set_source(&cupti::make_cupti_source);
  bind_gpu(m);
  bind_memory(m);
  bind_nesting(m);
  bind_watch(m);
  bind_writers(m);
}
