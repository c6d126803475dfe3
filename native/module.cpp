// The Python face of the recorder. src/opscope/_native.pyi is its contract.
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <vector>

#include "cupti/cupti_source.h"
#include "decode/columns.h"
#include "gpu/bindings.h"
#include "gpu/gpu_activity.h"
#include "interpreter/child_process.h"
#include "interpreter/lifecycle.h"
#include "interpreter/without_gil.h"
#include "log/recorder.h"
#include "log/source.h"
#include "memory/bindings.h"
#include "numpy/to_numpy.h"
#include "python/annotation.h"
#include "python/python_calls.h"
#include "python/python_collections.h"
#include "python/python_fast_annotation.h"
#include "ranges/nvtx_ranges.h"
#include "writers/bindings.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace {

// The decoder's view of what the call recorder has interned.
class RecordedPython final : public PythonNames {
 public:
  Function function(uint32_t frame) override {
    const FrameInfo info = calls_.frames.describe(frame);
    return {info.file, info.function, info.line};
  }
  int32_t line_at(uint32_t frame, int32_t offset) override { return calls_.frames.line_of(frame, offset); }
  Instance module(uint32_t row) override { return instance(calls_.modules, row); }
  Instance optimizer(uint32_t row) override { return instance(calls_.optimizers, row); }
  uint32_t module_frame() override { return calls_.frames.module_row(); }

 private:
  static Instance instance(InstanceTable& table, uint32_t row) {
    const InstanceInfo info = table.describe(row);
    return {info.address, info.class_address, info.class_name};
  }
  PythonCalls& calls_ = PythonCalls::instance();
};

// While one exists no collection begins, so no code of the program runs in the middle of a change.
class NoCollection {
 public:
  NoCollection() : was_on_(PyGC_Disable() != 0) {}
  NoCollection(const NoCollection&) = delete;
  NoCollection& operator=(const NoCollection&) = delete;
  ~NoCollection() {
    if (was_on_) PyGC_Enable();
  }

 private:
  bool was_on_;
};

// Hooks that open windows need, and `also` one that is about to open, and no others.
void configure_sources(uint32_t also = 0) {
  ListedSource::for_each([also](Source& source) { source.configure(also); });
}

uint32_t open_window(uint32_t wants, bool all_threads, uint32_t reserved) {
#ifdef Py_GIL_DISABLED
  if ((wants & (kWantPython | kWantModules)) != 0) {
    throw std::runtime_error(
        "Python calls and modules cannot be recorded without the GIL; leave out "
        "with_stack and with_modules, or set PYTHON_GIL=1");
  }
#endif
  const NoCollection no_collection;
  Recorder& recorder = Recorder::instance();
  // Setting up lets other threads run: what they begin meanwhile must be before the window, or it
  // would be in it twice, as a call and as something that was running already.
  configure_sources(wants);
  uint32_t id = 0;
  try {
    id = recorder.open_window(wants, all_threads, reserved);
  } catch (...) {
    configure_sources();
    throw;
  }
  configure_sources();  // a window that closed meanwhile may have taken it away
  std::vector<InitialStack> running;
  ListedSource::for_each([&](Source& source) { source.begin_window(wants, running); });
  recorder.set_initial_stacks(id, std::move(running), PythonCalls::generation());
  return id;
}

// Devices go on being collected until configure_gpu(): what the window launched may still be running.
void close_window(uint32_t id) {
  const NoCollection no_collection;
  Recorder& recorder = Recorder::instance();
  recorder.close_window(id);
  if (const auto window = recorder.window(id); window != nullptr) {
    ListedSource::for_each([&](Source& source) { source.end_window(*window); });
  }
  configure_sources();
}

void pause_window(uint32_t id, bool paused) {
  const NoCollection no_collection;
  Recorder& recorder = Recorder::instance();
  recorder.pause_window(id, paused);
  configure_sources();
  const auto window = recorder.window(id);
  if (paused || window == nullptr || !window->open) return;
  ListedSource::for_each([&](Source& source) { source.resume_window(*window); });
}

void discard_window(uint32_t id) {
  const NoCollection no_collection;
  Recorder& recorder = Recorder::instance();
  recorder.discard_window(id);
  configure_sources();
  if ((recorder.wanted() & kWantGpu) == 0) GpuActivity::instance().configure(0);
  if (recorder.statistics().windows == 0) {
    ListedSource::for_each([](Source& source) { source.forget(); });
    GpuActivity::instance().forget();
  }
}

void set_up_python(const std::string& hidden_folder, const std::string& shown_file,
                   const std::string& program_file, nb::handle module_function, nb::handle optimizer_code,
                   nb::handle parameter_reader, nb::handle optimizer_hooks, nb::handle optimizer_hook) {
  PythonCalls::instance().set_up({hidden_folder, shown_file, program_file, module_function.ptr(),
                                  optimizer_code.ptr(), parameter_reader.ptr(), optimizer_hooks.ptr(),
                                  optimizer_hook.ptr()});
}

// What is known of the window beside its tables.
nb::dict account(const Columns& columns, const Window& window) {
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
  return account;
}

nb::dict decode(uint32_t id, const std::vector<std::string>& prefixes) {
  Recorder& recorder = Recorder::instance();
  const ReadLock lock(recorder);
  const auto window = recorder.window(id);
  if (window == nullptr || window->open) throw std::invalid_argument("no closed window with this id");
  Columns columns;
  RecordedPython python;
  {
    const WithoutGil without_gil;
    columns = decode_window(recorder, *window, &python, prefixes);
  }
  nb::dict result;
  result["account"] = account(columns, *window);
  result["tables"] = to_tables(static_cast<RecordedTables&&>(columns));
  result["name_offsets"] = to_array(std::move(columns.names.offsets));
  result["name_text"] = nb::bytes(columns.names.blob.data(), columns.names.blob.size());
  decode_gpu_into(result, *window);
  return result;
}

// The bridge has torch's libraries as dependencies; torch is imported by now, so they are found by
// their names among those already loaded.
std::string attach_bridge(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto attach = reinterpret_cast<AttachBridge>(dlsym(library, "opscope_attach"));
  const BridgeApi* bridge = attach == nullptr ? nullptr : attach(&Recorder::instance().core_api());
  if (bridge == nullptr || bridge->version != kCoreApiVersion) {
    dlclose(library);
    throw std::runtime_error("it was built for another version of opscope");
  }
  Recorder::instance().attach_bridge(bridge);
  return bridge->torch_version;
}

const BridgeApi& bridge() {
  const BridgeApi* attached = Recorder::instance().bridge();
  if (attached == nullptr) throw std::runtime_error("the torch bridge is not loaded");
  return *attached;
}

// Returns why nothing will be seen of the ranges; empty if they are.
std::string emit_ranges(const std::string& kind, bool with_shapes) {
  const char* why_not = "";
  const bool nvtx = kind == "nvtx";
  const RangeSink* sink = nvtx ? nvtx_ranges(&why_not) : bridge().itt_ranges();
  if (sink == nullptr) return nvtx ? why_not : "this build of torch has no ITT";
  bridge().emit_ranges(sink, /*with_ids=*/nvtx, with_shapes);
  return "";
}

nb::dict statistics() {
  const RecorderStatistics statistics = Recorder::instance().statistics();
  nb::dict result;
  result["threads"] = statistics.threads;
  result["windows"] = statistics.windows;
  result["mapped_bytes"] = statistics.mapped_bytes;
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
  m.def("open_window", &open_window, "wants"_a, "all_threads"_a, "reserved"_a = 0);
  m.def("close_window", &close_window, "window"_a);
  m.def("pause_window", &pause_window, "window"_a, "paused"_a);
  m.def("discard_window", &discard_window, "window"_a);
  m.def("decode", &decode, "window"_a, "prefixes"_a);
  m.def("guard_fast_annotations", [](nb::handle type) { guard_fast_annotations(type.ptr()); }, "type"_a);
  m.def("set_up_python", &set_up_python, "hidden_folder"_a, "shown_file"_a, "program_file"_a,
        "module_function"_a.none(), "optimizer_code"_a.none(), "parameter_reader"_a.none(),
        "optimizer_hooks"_a.none(), "optimizer_hook"_a.none() = nb::none());
  m.def(
      "optimizer_step", [](nb::handle optimizer) { PythonCalls::instance().optimizer_step(optimizer.ptr()); },
      "optimizer"_a);
  m.def("attach_bridge", &attach_bridge, "path"_a);
  m.def("enter_thread", [] { bridge().enter_thread(); });
  m.def("leave_thread", [] { bridge().leave_thread(); });
  m.def("emit_ranges", &emit_ranges, "kind"_a, "with_shapes"_a);
  m.def("stop_ranges", [] { bridge().emit_ranges(nullptr, false, false); });
  m.def(
      "time_spans", [](bool empty_callback) { return bridge().time_spans(empty_callback); },
      "empty_callback"_a);
  m.def("set_budget", [](size_t bytes) { Recorder::instance().pool().set_budget(bytes); }, "bytes"_a);
  m.def("set_tensor_budget", [](uint64_t bytes) { bridge().set_tensor_budget(bytes); }, "bytes"_a);
  m.def("fault", [] { return Recorder::instance().fault(); });
  m.def("statistics", &statistics);
  m.def("refresh_hooks", [] { configure_sources(); });
  m.attr("WANTS") = nb::dict();
  nb::dict wants = nb::cast<nb::dict>(m.attr("WANTS"));
  wants["OPERATORS"] = static_cast<uint32_t>(kWantOperators);
  wants["INPUTS"] = static_cast<uint32_t>(kWantInputs);
  wants["OUTPUTS"] = static_cast<uint32_t>(kWantOutputs);
  wants["MEMORY"] = static_cast<uint32_t>(kWantMemory);
  wants["OVERLOADS"] = static_cast<uint32_t>(kWantOverloads);
  wants["PYTHON"] = static_cast<uint32_t>(kWantPython);
  wants["MODULES"] = static_cast<uint32_t>(kWantModules);
  wants["GC"] = static_cast<uint32_t>(kWantGc);
  wants["ANNOTATIONS"] = static_cast<uint32_t>(kWantAnnotations);
  wants["NEW_THREADS"] = static_cast<uint32_t>(kWantNewThreads);
  wants["PROCESS_IDS"] = static_cast<uint32_t>(kWantProcessIds);
  wants["GPU"] = static_cast<uint32_t>(kWantGpu);
  wants["GPU_SYNC"] = static_cast<uint32_t>(kWantGpuSync);
  bind_annotation(m);
  bind_child_process(m);
  bind_collections(m);
  bind_lifecycle(m);
  GpuActivity::instance().set_source(&cupti::make_cupti_source);
  bind_gpu(m);
  bind_memory(m);
  bind_writers(m);
}
