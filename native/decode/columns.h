// Decoding: the records of one closed window become the columns of trace/schema.py.
//
// Runs once per window, without the GIL, while threads may go on recording for other windows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "log/recorder.h"

namespace opscope {

struct ListColumn {
  std::vector<int64_t> offsets{0};
  std::vector<int64_t> values;
  void end_row() { offsets.push_back(static_cast<int64_t>(values.size())); }
};

struct EventColumns {
  std::vector<int32_t> thread, parent, name, overload, forward_thread, launch_thread;
  std::vector<uint8_t> kind, scope, unfinished, is_async;
  std::vector<int64_t> start_ns, duration_ns, sequence_number;
  std::vector<int64_t> record_function_id;  // empty: row number + 1
};

struct TensorColumns {
  std::vector<int32_t> event, element, keyword;
  std::vector<int16_t> argument;
  std::vector<uint8_t> role, requires_grad, is_wrapped_number;
  std::vector<uint64_t> impl, storage, storage_impl;
  std::vector<int64_t> storage_offset, version;
  std::vector<int8_t> dtype, unsized_dtype, device_type, device_index, layout;
  std::vector<int64_t> tensor_id, allocation_id;  // see identity.h
  ListColumn sizes, strides;
};

struct ScalarColumns {
  std::vector<int32_t> event, keyword, value;
  std::vector<int16_t> argument;
  std::vector<uint8_t> role, type;
};

struct AllocationColumns {
  std::vector<int32_t> event, thread;
  std::vector<uint8_t> action;
  std::vector<int64_t> time_ns, size_bytes, total_allocated_bytes, total_reserved_bytes;
  std::vector<uint64_t> address;
  std::vector<int8_t> device_type, device_index;
  std::vector<int64_t> tensor_id, allocation_id;  // see identity.h
};

struct ThreadColumns {
  std::vector<int64_t> system_thread_id, torch_thread_id;
  std::vector<int32_t> name;
};

struct PythonCallColumns {
  std::vector<int32_t> event, frame, caller, caller_line, module, optimizer;
};

struct FrameColumns {
  std::vector<int32_t> file, function, line;
};

struct InstanceColumns {
  std::vector<uint64_t> address, class_address;
  std::vector<int32_t> class_name, name;
};

struct ScriptCallColumns {
  std::vector<int32_t> event, modules, functions;
};

// `tensors` is filled like the tensors table, with no event; the other columns say whose they are.
struct ParameterColumns {
  std::vector<int32_t> module, optimizer, parameter, name;
  std::vector<uint8_t> role;
  std::vector<int64_t> time_ns;
};

// What the records of Python calls mean; the decoder itself knows no Python. [MT]
class PythonNames {
 public:
  struct Function {
    std::string file;
    std::string function;
    int32_t line;
  };
  struct Instance {
    uint64_t address;
    uint64_t class_address;
    std::string class_name;
  };
  virtual ~PythonNames() = default;
  virtual Function function(uint32_t frame) = 0;
  virtual int32_t line_at(uint32_t frame, int32_t offset) = 0;
  virtual Instance module(uint32_t row) = 0;
  virtual Instance optimizer(uint32_t row) = 0;
  virtual uint32_t module_frame() = 0;  // the frame behind module calls
};

// Text once per trace, in order of first use.
class LocalNames {
 public:
  int32_t add(std::string_view text);
  // The text of a name of the process, copied on first use; -1 for kNoName.
  int32_t add_global(NameTable& names, uint32_t id);
  int32_t overload_of(NameTable& names, uint32_t id);

  std::string text(int32_t row) const { return blob.substr(offsets[row], offsets[row + 1] - offsets[row]); }

  std::string blob;
  std::vector<int64_t> offsets{0};

 private:
  struct Global {
    int32_t text = -2;  // -2: not looked up yet
    int32_t overload = -1;
  };
  Global& global(NameTable& names, uint32_t id);

  std::unordered_map<std::string, int32_t> ids_;
  std::vector<Global> globals_;
};

struct Columns {
  EventColumns events;
  TensorColumns tensors;
  ScalarColumns scalars;
  AllocationColumns allocations;
  ThreadColumns threads;
  PythonCallColumns python_calls;
  ScriptCallColumns script_calls;
  FrameColumns frames;
  InstanceColumns modules;
  InstanceColumns optimizers;
  ParameterColumns parameters;
  TensorColumns parameter_tensors;  // row by row with `parameters`
  LocalNames names;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t clock_jumped_ns = 0;  // see WindowClock
  int64_t clock_set_by_ns = 0;
  Drops dropped;                  // no memory left for them
  uint64_t recorded_threads = 0;  // that recorded anything
  uint64_t unheard_threads = 0;   // of them, those with spans whose memory went to somebody else
  uint64_t unheard_frees = 0;     // of memory that was allocated in the window; those that could be told
  uint64_t unmatched_ends = 0;    // ends whose span this window did not see
  uint64_t cut_payloads = 0;      // spans whose arguments could not be kept
};

// `python` may be nullptr where no Python calls were recorded. `prefixes`: folders to leave out of
// the names of Python functions, tried in order.
Columns decode_window(Recorder& recorder, const Window& window, PythonNames* python,
                      const std::vector<std::string>& prefixes);

}  // namespace opscope
