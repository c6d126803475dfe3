// Python calls as spans: Python and C functions, nn.Module calls, optimizer steps.
//
// Below Python 3.12 calls arrive through PyEval_SetProfile on every thread, from 3.12 through
// sys.monitoring. Where only modules are wanted, the vectorcall of the function nn.Module.__call__ is
// replaced: that costs the rest of the program nothing, also covers classes that are made later, and changes
// no attribute that code could look at.
//
// [GIL] Everything here is called with the GIL, and may only be changed with it. Without one, calls of all
// threads are reported at the same time: tables are looked things up in under TablesLock, and windows open
// and close while no other thread runs Python (python_windows.cpp).
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

// What the recorder needs from Python, once. Any object may be None.
struct PythonSetup {
  std::string hidden_folder;  // code in here is not recorded, nor what it calls
  std::string shown_file;     // but for this file, which wraps the program's own functions
  std::string program_file;   // and what this one calls: it runs the program
  LibraryFiles libraries;
  PyObject* module_function;   // nn.Module.__call__
  PyObject* optimizer_code;    // where optimizers show themselves
  PyObject* parameter_reader;  // returns an instance's parameters (recording/parameters.py)
  PyObject* optimizer_hooks;   // the dict of what torch calls after every optimizer's step
  PyObject* optimizer_hook;    // what to put there, under itself as key, once steps are wanted
};

class PythonCalls final : public Source {
 public:
  static PythonCalls& instance();

  void set_up(const PythonSetup& setup);

  // Installs or removes hooks.
  void configure(uint32_t also) override;
  // Adds what every thread is running.
  void begin_window(Window& window, std::vector<InitialStack>& running) override;
  void before_end(const Window& window) override;
  void end_window(Window& window) override;
  // Of functions that were running when the window opened, ends those that ended while it paused, and has
  // those begin that began meanwhile.
  void resume_window(const Window& window) override;
  // Ends the calls that run: their own ends may not be reported.
  void cease(uint32_t wants) override;
  void forget() override;
  // In a child that was just forked: nothing is being recorded.
  void forked();

  // Records that an optimizer has made a step, unless calls are recorded on this thread and show it already.
  void optimizer_step(PyObject* optimizer);

  FrameTable frames;
  InstanceTable modules{EntryKind::kModule};
  InstanceTable optimizers{EntryKind::kOptimizer};

  // Threads without our hook, because another profiler has, or had, its own there.
  uint64_t unheard_threads() const { return hooked_calls_ != CallLevel::kNone ? occupied_threads() : 0; }
  // Rises whenever hooks are installed: ends of calls since their removal were not reported.
  static uint64_t installation() { return installation_; }
  // Rises whenever calls cease to be reported at all.
  static uint64_t spell() { return spell_; }
  // Rises with every installation, and whenever a window has noted what is running.
  static uint64_t generation() { return generation_; }
  // The generation that last had functions begin whose begin was not reported.
  static uint64_t resumed() { return resumed_; }
  // The generation in which calls last ceased to be recorded in windows that go on.
  static uint64_t ceased() { return ceased_; }
  // When hooks were last removed; 0 for never.
  static uint64_t removed_ticks() { return removed_ticks_; }
  // Spans that began before this time may be known to a window as frames that were running.
  static uint64_t overlap_ticks() { return overlap_ticks_; }

 private:
  // How many threads recorded something in a window that wants calls and did not report all of theirs:
  // threads that were started by _thread or in C are not hooked, or only later. Must be asked for before the
  // hooks are removed.
  uint64_t unhooked_threads(const Window& window) const;

  // Static, because they are read at every call, where finding the instance would cost as much again.
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
  uint32_t asked_ = 0;  // by those who configure at this moment, of windows about to open
  Shared<CallLevel> hooked_calls_ = CallLevel::kNone;
  bool hooked_new_threads_ = false;
  bool hooked_modules_ = false;
  PyObject* module_function_ = nullptr;  // owned
  PyObject* optimizer_hooks_ = nullptr;  // owned
  PyObject* optimizer_hook_ = nullptr;   // owned
  PyObject* optimizer_file_ = nullptr;   // where torch's steps are; owned
  bool watching_optimizers_ = false;
};

// [owner of `log`] See CoreApi::place_in_python. An operator is called by the function that is running,
// unless a C function, another operator or code of opscope's is around it. Needs no GIL.
uint32_t place_in_python(const ThreadLog* log);
// Takes a module or optimizer's row in `table`, and its parameters if this window has none yet.
uint32_t row_of_instance(InstanceTable& table, PyObject* instance, bool is_module);
// [owner of the cache] Hooks were installed or windows changed: brings this thread up to date now, rather
// than at its next call.
void catch_up_now(PythonThreadCache& cache);
// What begins: a call of `function`, a row in the table of functions, or of names for C functions.
struct Call {
  RecordKind kind;
  uint64_t key;
  uint32_t function;
  int32_t caller_offset;  // where in its caller, -1 if that is not known
  uint32_t instance = 0;  // module or optimizer: row in the table of those
};
// Appends its span, if there is room for it.
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
