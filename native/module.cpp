// The Python face of the recorder. src/opscope/_native.pyi is its contract.
#include <dlfcn.h>
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

#include "cupti/cupti_source.h"
#include "decode/columns.h"
#include "decode/window_clock.h"
#include "gpu/bindings.h"
#include "gpu/gpu_activity.h"
#include "interpreter/without_gil.h"
#include "log/log_copy.h"
#include "log/own_file.h"
#include "log/recorder.h"
#include "numpy/to_numpy.h"
#include "python/python_calls.h"
#include "python/python_thread_name.h"
#include "python/python_windows.h"
#include "streams/decoded_dict.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {

// Each adds to the module what Python sees of a folder, or of a file.
using Bind = void(nb::module_&);
Bind bind_account, bind_annotation, bind_around_call, bind_attribution, bind_collections, bind_columns,
    bind_compiled_code, bind_execution_trace, bind_fast_annotations, bind_gpu, bind_graph, bind_lanes,
    bind_lifecycle, bind_memory, bind_nesting, bind_numpy_memory, bind_perfetto, bind_python_stacks,
    bind_parsers, bind_sampler, bind_steps, bind_streams, bind_watch, bind_writers;

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

// Loads the bridge to torch at `path`, for the life of the process. torch must have been imported: the
// bridge's dependencies are found among the libraries that are loaded.
const BridgeApi& load_bridge(const std::string& path) {
  void* library = nullptr;
  {
    const WithoutGil without_gil;  // linking it takes milliseconds
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto attach = reinterpret_cast<AttachBridge>(dlsym(library, "opscope_attach"));
  const BridgeApi* bridge = attach == nullptr ? nullptr : attach(&Recorder::instance().core_api());
  if (bridge == nullptr || bridge->version != kCoreApiVersion) {
    dlclose(library);
    throw std::runtime_error("it was built for another version of opscope");
  }
  Recorder::instance().attach_bridge(bridge);
  return *bridge;
}

const BridgeApi& loaded_bridge() {
  const BridgeApi* attached = Recorder::instance().bridge();
  if (attached == nullptr) throw std::runtime_error("the torch bridge is not loaded");
  return *attached;
}

// Has the process keep memory that is freed, for what is allocated next. glibc gives a block of many MiB
// back to the kernel, which clears every page of the next one: for columns of millions of rows that takes as
// long as computing them. For processes that are ours alone.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
#endif
}

// [holding a ReadLock]
std::shared_ptr<Window> closed_window(uint32_t id) {
  std::shared_ptr<Window> window = Recorder::instance().window(id);
  if (window == nullptr || window->open) throw std::invalid_argument("no closed window with this id");
  return window;
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

// Into an open file, and no further once its number is another's; returns 0, or what went wrong as an errno.
int write_window(uint32_t id, int file) {
  Recorder& recorder = Recorder::instance();
  const ReadLock lock(recorder);
  const std::shared_ptr<Window> window = closed_window(id);
  const WithoutGil without_gil;
  const FileIdentity identity(file);
  return write_log(recorder.view_of(*window), [&](std::string_view bytes) {
    return identity.is_of(file) ? write_bytes(file, bytes) : EBADF;
  });
}

nb::dict decode_copy(const nb::bytes& bytes, const std::vector<std::string>& prefixes) {
  const CopiedLog log({bytes.c_str(), bytes.size()});
  return decode_view(log.view(), prefixes);
}

uint64_t record_count() { return Recorder::instance().statistics().records; }

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
  result["occupied_threads"] = PythonCalls::instance().threads_of_other_tools();
  const BridgeApi* bridge = Recorder::instance().bridge();
  result["reports_memory"] = bridge == nullptr || bridge->reports_memory();
  result["can_skip_inner"] = bridge != nullptr && bridge->can_skip_inner();
  result["hides_locks"] = bridge != nullptr && bridge->hides_locks();
  return result;
}

}  // namespace
}  // namespace opscope

NB_MODULE(_native, m) {
  using namespace opscope;
  nb::set_leak_warnings(false);  // what modules hold until the process ends is not worth the program's stderr
  m.def("new_number", [] {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1) + 1;
  });
  m.def("reserve_window", [] { return Recorder::instance().reserve_window(); });
  Recorder::instance().python_thread = [] {
    PyThreadState* const state = PyGILState_GetThisThreadState();
    return state == nullptr ? uint64_t{0} : PyThreadState_GetID(state);
  };
  Recorder::instance().program_thread_name = &python_thread_name;
  m.def("open_window", &open_window, "wants"_a, "all_threads"_a, "reserved"_a = 0, "collects"_a = UINT32_MAX,
        "most_growth_bytes"_a = UINT64_MAX);
  m.def("close_window", &close_window, "window"_a);
  m.def("pause_window", &pause_window, "window"_a, "paused"_a);
  m.def("collect", &collect, "windows"_a, "wants"_a);
  m.def("snapshot_window", &snapshot_window, "window"_a);
  m.def("discard_window", &discard_window, "window"_a);
  m.def("decode", &decode, "window"_a, "prefixes"_a);
  m.def("write_log", &write_window, "window"_a, "file"_a);
  m.def("decode_copy", &decode_copy, "copy"_a, "prefixes"_a);
  m.def("set_up_python", &set_up_python, "hidden_folder"_a, "shown_file"_a, "program_file"_a,
        "module_function"_a.none(), "optimizer_code"_a.none(), "parameter_reader"_a.none(),
        "optimizer_hooks"_a.none(), "optimizer_hook"_a.none() = nb::none(),
        "library_marks"_a = std::vector<std::string>(), "library_endings"_a = std::vector<std::string>(),
        "recorded_functions"_a = std::vector<std::string>());
  m.def(
      "optimizer_step", [](nb::handle optimizer) { PythonCalls::instance().optimizer_step(optimizer.ptr()); },
      "optimizer"_a);
  m.def("attach_bridge", [](const std::string& path) { return load_bridge(path).torch_version; }, "path"_a);
  m.def("set_budget", [](size_t bytes) { Recorder::instance().pool().set_budget(bytes); }, "bytes"_a);
  m.def("set_tensor_budget", [](uint64_t bytes) { loaded_bridge().set_tensor_budget(bytes); }, "bytes"_a);
  m.def("fault", [] { return Recorder::instance().fault(); });
  m.def("show_profile", [](bool is_open) { loaded_bridge().show_profile(is_open); });
  m.def("wanted", [] { return Recorder::instance().wanted(); });
  m.def("record_count", &record_count);
  m.def("statistics", &statistics);
  m.def("names_from", [](uint32_t id) {
    nb::list texts;  // of any bytes
    for (const std::string& text : Recorder::instance().names().texts_from(id))
      texts.append(
          nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
    return texts;
  });
  m.def("refresh_hooks", [] { configure_sources(); });
  m.def("keep_freed_memory", &keep_freed_memory);
  GpuActivity::instance().set_source(&cupti::make_cupti_source);
  for (const auto bind :
       {bind_account,      bind_annotation,    bind_around_call,     bind_attribution,      bind_collections,
        bind_columns,      bind_compiled_code, bind_execution_trace, bind_fast_annotations, bind_gpu,
        bind_graph,        bind_lanes,         bind_lifecycle,       bind_memory,           bind_nesting,
        bind_numpy_memory, bind_perfetto,      bind_python_stacks,   bind_parsers,          bind_sampler,
        bind_streams,      bind_watch,         bind_steps,           bind_writers}) {
    bind(m);
  }
}
