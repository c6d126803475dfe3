// Interface between the recorder and the torch bridge.
//
// The bridge is compiled on the user's machine from these headers, so it may inline thread_log.h; slow paths
// are called through these pointers. Both sides reject a version that they were not built for.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "log/thread_log.h"
#include "schema/codes.h"

namespace opscope {

// Python functions with or without C functions, or the program's own functions only.
constexpr uint32_t kWantCalls = kWantPython | kWantFunctions | kWantOwnFunctions;

constexpr uint32_t kCoreApiVersion = 16;

struct CoreApi {
  uint32_t version;
  ThreadLog* (*this_thread)();  // created on first use; nullptr while the thread is torn down
  uint32_t (*intern)(ThreadLog* log, const char* text, const char* overload);
  void (*fault)(const char* what);             // an exception was caught: stop, and store the reason
  void (*lost_at_thread_end)(bool is_memory);  // a lost span or allocation of a thread without a log
  void (*name_thread)(ThreadLog* log,
                      uint64_t torch_thread_id);  // [owner of `log`] torch's id of this thread
  // [owner of `log`] Instruction of the Python function that calls an operator now, encoded as
  // OperatorPart::place. Call it only while Python calls are wanted or compiled code runs. Needs no GIL.
  uint32_t (*place_in_python)(const ThreadLog* log);
};

struct BridgeApi {
  uint32_t version;
  const char* torch_version;
  // Union of the wants of open windows, see Want; 0: nothing to do. Only the core writes it. It is the
  // bridge's variable, so that it shares a cache line with other data that the bridge reads at every event.
  std::atomic<uint32_t>* wanted;
  // Registers callbacks for `wanted` with torch; 0 removes all. Not [MT]. False: it failed; writes a message.
  bool (*configure)(uint32_t wanted, char* message, size_t message_bytes);
  // Whether the program has an opscope profile open in place of torch's: then torch reports an enabled
  // profiler on the calling thread and its worker threads. Not [MT].
  void (*show_profile)(bool is_open);
  // The calling thread is ending, and its log with it.
  void (*forget_thread)();
  // Before a fork by the calling thread: acquires the locks that the child must find free. Called with the
  // core's mutex, so that nothing calls `configure` at the same time.
  void (*before_fork)();
  // Releases them, in the parent and in the child.
  void (*after_fork)(bool in_child);
  // Whether some locks of this torch could not be found. Then before_fork cannot acquire them and waits until
  // probably no thread holds them.
  bool (*hides_locks)();
  // Number of CPU memory blocks freed while memory was recorded but allocated before: their size is unknown.
  uint64_t (*unknown_frees)();
  // Whether TensorImpls are held from now on, so that their addresses are not reused. [MT]
  void (*hold_tensors)(bool wanted);
  // Releases all held tensors. Call it while holding is off.
  void (*release_tensors)();
  // Begins a new period of held tensors and returns the mark's number. [MT]
  uint64_t (*mark_tensors)();
  // Releases tensors held before `mark`, or all for UINT64_MAX, but at most `most`, during recording. Returns
  // whether none are left before it. [MT]
  bool (*release_tensors_before)(uint64_t mark, uint64_t most);
  // Bytes of held tensors. [MT]
  uint64_t (*held_tensor_bytes)();
  // Number of TensorImpls so far that exceeded the byte budget and were not held.
  uint64_t (*tensors_not_held)();
  // Limit of the bytes of held TensorImpls. [MT]
  void (*set_tensor_budget)(uint64_t bytes);
  // Whether this torch allows to leave out inner operators that no window wants. [MT]
  bool (*can_skip_inner)();
  // Whether this torch reports allocations and spans for profilers only. Known after the first record. [MT]
  bool (*reports_memory)();
};

using AttachBridge = const BridgeApi* (*)(const CoreApi*);  // exported as opscope_attach

}  // namespace opscope
