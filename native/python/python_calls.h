// Python calls as spans: Python and C functions, nn.Module calls, optimizer steps.
//
// Below Python 3.12 PyEval_SetProfile reports calls, on every thread; from 3.12 sys.monitoring does. For
// modules alone, opscope replaces the vectorcall of nn.Module.__call__: this costs the rest of the program
// nothing, covers classes made later, and changes no visible attribute.
//
// [GIL] Call everything here with the GIL, and change it only with the GIL. Without one, all threads report
// calls at the same time: lookups in tables take TablesLock, and windows open and close while no other thread
// runs Python (python_windows.cpp).
#pragma once

#include <Python.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "interpreter/free_threads.h"
#include "log/clock.h"
#include "log/core_api.h"
#include "log/recorder.h"
#include "log/source.h"
#include "python/python_frames.h"
#include "python/python_hooks.h"
#include "python/python_modules.h"

namespace opscope {

// Python objects that the recorder needs; any may be None.
struct PythonSetup {
  std::string hidden_folder;  // its code and callees are not recorded
  std::string shown_file;     // except this file, which wraps the program's functions
  std::string program_file;   // and except callees of this file, which runs the program
  LibraryFiles libraries;
  PyObject* module_function;   // nn.Module.__call__
  PyObject* optimizer_code;    // of the function that each optimizer step runs
  PyObject* parameter_reader;  // returns an instance's parameters (recording/parameters.py)
  PyObject* optimizer_hooks;   // dict of functions that torch calls after every optimizer step
  PyObject* optimizer_hook;    // added to that dict, with itself as key, while steps are wanted
};

class PythonCalls final : public Source {
 public:
  static PythonCalls& instance();

  void set_up(const PythonSetup& setup);

  void configure(uint32_t also) override;
  // Notes the running functions of every thread.
  void begin_window(Window& window, std::vector<InitialStack>& running) override;
  void before_end(const Window& window) override;
  void end_window(Window& window) override;
  // Ends functions noted as running that ended during the pause, and begins those that began during it.
  void resume_window(const Window& window) override;
  // Ends running calls: their own ends may not be reported.
  void cease(uint32_t wants) override;
  void forget() override;
  // In a forked child, where nothing is recorded.
  void forked();

  // Records a step of an optimizer, unless a recorded call on this thread shows it already.
  void optimizer_step(PyObject* optimizer);

  FrameTable frames;
  InstanceTable modules{EntryKind::kModule};
  InstanceTable optimizers{EntryKind::kOptimizer};

  // Threads without our hook, because another profiler has or had its hook there.
  uint64_t threads_of_other_tools() const {
    return hooked_calls_ != CallLevel::kNone ? occupied_threads() : 0;
  }
  // Increases with each installation: ends of calls since the previous removal were not reported.
  static uint64_t installation() { return installation_; }
  // Increases when reporting of calls stops.
  static uint64_t spell() { return spell_; }
  // Increases with each installation, and each time a window has noted the running functions.
  static uint64_t generation() { return generation_; }
  // Latest generation that began functions whose starts were not reported.
  static uint64_t resumed() { return resumed_; }
  // Latest generation in which calls ceased to be recorded in windows that stay open.
  static uint64_t ceased() { return ceased_; }
  // Time of the latest removal of hooks; 0 if never.
  static uint64_t removed_ticks() { return removed_ticks_; }
  // Windows may list spans that began before this time as already running.
  static uint64_t overlap_ticks() { return overlap_ticks_; }

 private:
  // Number of threads that recorded something in a window that wants calls but did not report all calls:
  // threads started by _thread or in C get a hook late or never. Call it before removing the hooks.
  uint64_t unhooked_threads(const Window& window) const;

  // Static, because every call reads them; finding the instance would double the cost.
  static inline Shared<uint64_t> installation_ = 0;
  static inline Shared<uint64_t> spell_ = 0;
  static inline Shared<uint64_t> generation_ = 0;
  static inline Shared<uint64_t> resumed_ = 0;
  static inline Shared<uint64_t> ceased_ = 0;
  static inline Shared<uint64_t> removed_ticks_ = 0;
  static inline Shared<uint64_t> overlap_ticks_ = 0;

  PythonCalls();
  uint32_t to_hook() const;
  CallLevel level_to_hook() const;
  void hook_calls();
  void hook_modules();
  void watch_optimizers();
  bool is_any_step_running() const;
  static void note_ends_of_initial(const Window& window, PythonThreadCache& cache);

  std::recursive_mutex configuring_;
  uint32_t pending_wants_ = 0;  // wants of windows that are about to open
  Shared<CallLevel> hooked_calls_ = CallLevel::kNone;
  bool hooked_new_threads_ = false;
  bool hooked_modules_ = false;
  PyObject* module_function_ = nullptr;  // owned
  PyObject* optimizer_hooks_ = nullptr;  // owned
  PyObject* optimizer_hook_ = nullptr;   // owned
  PyObject* optimizer_file_ = nullptr;   // file of torch's optimizer step; owned
  bool watching_optimizers_ = false;
};

// [owner of `log`] See CoreApi::place_in_python. The running function calls the operator, unless the
// innermost span is a C function, another operator or code of opscope. Needs no GIL.
uint32_t place_in_python(const ThreadLog* log);
// Row of a module or optimizer in `table`. Records its parameters if this window has none yet.
uint32_t row_of_instance(InstanceTable& table, PyObject* instance, bool is_module);
// [owner of the cache] Updates this thread now, not at its next call: hooks or windows have changed.
void catch_up_now(PythonThreadCache& cache);
// A call that begins. `function`: row in the table of functions; for C functions, of names.
struct Call {
  RecordKind kind;
  uint64_t key;
  uint32_t function;
  int32_t caller_offset;  // instruction in the caller, -1 if unknown
  uint32_t instance = 0;  // row of the module or optimizer in its table
};
inline void begin_call(ThreadLog& log, const Call& call) {
  Record* const record = log.open_span(call.key);
  if (record == nullptr) return;
  record->kind = call.kind;
  record->scope = 0;
  record->call.function = call.function;
  record->call.instance = call.instance;
  record->call.caller_offset = call.caller_offset;
  record->ticks = now_ticks();
  log.publish_span();
}

}  // namespace opscope
