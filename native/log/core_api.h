// What the torch bridge sees of the recorder, and the recorder of the bridge.
//
// The bridge is compiled on the user's machine from these same headers, so it may inline
// thread_log.h; everything with a slow path goes through these pointers. Both sides refuse a
// version they were not built for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "log/thread_log.h"
#include "schema/codes.h"

namespace opscope {

// Python functions, with or without C functions, or some of them.
constexpr uint32_t kWantCalls = kWantPython | kWantFunctions | kWantOwnFunctions;

constexpr uint32_t kCoreApiVersion = 16;

struct CoreApi {
  uint32_t version;
  ThreadLog* (*this_thread)();  // made on first use; nullptr while the thread is torn down
  uint32_t (*intern)(ThreadLog* log, const char* text, const char* overload);
  void (*fault)(const char* what);             // an exception was caught: stop recording, remember why
  void (*lost_at_thread_end)(bool is_memory);  // a span or allocation of a thread that has no log any more
  void (*name_thread)(ThreadLog* log,
                      uint64_t torch_thread_id);  // [owner of `log`] torch's id of this thread
  // [owner of `log`] Where the Python function is that calls an operator now, as OperatorPart::place has it.
  // Only while Python calls are wanted, or compiled code runs. Needs no GIL.
  uint32_t (*place_in_python)(const ThreadLog* log);
};

struct BridgeApi {
  uint32_t version;
  const char* torch_version;
  // Union of what open windows want, see Want; 0: nothing to do. Written by the core only. It is the bridge's
  // variable so that it shares a cache line with what else the bridge reads at every event.
  std::atomic<uint32_t>* wanted;
  // Registers what `wanted` needs with torch, or removes everything for 0. Not [MT].
  // On failure returns false and writes a message.
  bool (*configure)(uint32_t wanted, char* message, size_t message_bytes);
  // While the program has a profile open that is opscope's in place of torch's: torch reports an enabled
  // profiler on the calling thread and on the threads that work for it. Not [MT].
  void (*show_profile)(bool is_open);
  // The calling thread is ending, and its log with it.
  void (*forget_thread)();
  // The calling thread is about to fork: takes the locks that the child must find free. Called with the
  // core's mutex held, so that nothing calls `configure` meanwhile.
  void (*before_fork)();
  // Gives them back, in the parent and in the child.
  void (*after_fork)(bool in_child);
  // Whether some of torch's locks could not be found in this torch, so that before_fork cannot take them and
  // waits instead until no thread is likely to hold them.
  bool (*hides_locks)();
  // How many blocks of CPU memory were freed while memory was recorded that had been allocated before: their
  // size is not known.
  uint64_t (*unknown_frees)();
  // Whether TensorImpls are held from now on, so that their addresses are not used again. [MT]
  void (*hold_tensors)(bool wanted);
  // Releases all of them. Called while none are to be held.
  void (*release_tensors)();
  // From here on TensorImpls are held anew; returns the mark's number. [MT]
  uint64_t (*mark_tensors)();
  // Releases tensors held before the previous mark, or all for UINT64_MAX, at most `most`, during recording.
  // Returns whether all of it is gone. [MT]
  bool (*release_tensors_before)(uint64_t mark, uint64_t most);
  // What is kept so. [MT]
  uint64_t (*held_tensor_bytes)();
  // How often, so far, a TensorImpl was seen that could not be held within the byte budget.
  uint64_t (*tensors_not_held)();
  // How many bytes of TensorImpls may be kept. [MT]
  void (*set_tensor_budget)(uint64_t bytes);
  // Whether operators inside operators can be left out with this torch, where no window wants them. [MT]
  bool (*leaves_out_inner)();
  // Whether torch's allocations, and the spans that it begins for profilers only, are reported by this torch.
  // Known after the first record. [MT]
  bool (*hears_memory)();
};

using AttachBridge = const BridgeApi* (*)(const CoreApi*);  // exported as opscope_attach

}  // namespace opscope
