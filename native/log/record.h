// The one record the hot path appends. 48 bytes, trivially copyable, no pointers to free.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "schema/codes.h"

namespace opscope {

// Spans have the kind that their events will have, EventKind of trace/codes.py.
enum class RecordKind : uint8_t {
  kOperator = EventKind::kOperator,
  kAnnotation = EventKind::kAnnotation,
  kPythonCall = EventKind::kPythonCall,
  kCCall = EventKind::kCCall,
  kModuleCall = EventKind::kModuleCall,
  kOptimizerCall = EventKind::kOptimizerCall,
  kGcPause = EventKind::kGcPause,
  // Likewise those of other sources, which only these name.
  kClose = 32,  // the end of a span that was no longer on its thread's stack
  kAllocate = 33 + AllocationAction::kAllocate,
  kFree = 33 + AllocationAction::kFree,
  kOutOfMemory = 33 + AllocationAction::kOutOfMemory,
  kOutputs = 36,     // what a span returned; the payload is in the arena
  kParameters = 37,  // tensors held by a module (scope 0) or optimizer (scope 1); likewise
  kScript = 38,      // where in TorchScript the operator around it was called
};

inline bool is_span(RecordKind kind) { return kind < RecordKind::kClose; }
inline bool is_python(RecordKind kind) {
  return kind >= RecordKind::kPythonCall && kind <= RecordKind::kOptimizerCall;
}
// Calls, and the pauses of the collector, end in the order opposite to that in which they began.
// Operators and annotations may end in any.
inline bool is_call(RecordKind kind) { return is_span(kind) && kind > RecordKind::kAnnotation; }

enum class SpanState : uint8_t {
  kOpen = 0,       // `end` holds the key that will close it
  kClosed = 1,     // `end` holds ticks; the owner never writes this record again
  kAbandoned = 2,  // its parent ended first: `end` still holds the key, a kClose may follow
};

// What a kClose record ends; in its `scope`.
enum class EndOf : uint8_t {
  kSpan = 0,          // an operator or annotation
  kStartedFrame = 1,  // a Python call whose span was closed too: for windows that opened while it ran
  kPythonCall = 2     // a Python call that this thread did not have open
};

constexpr uint32_t kAsynchronous = 1u << 31;  // in `detail`: torch says so (work of a collective)
constexpr uint32_t kNoParent = UINT32_MAX;
constexpr uint32_t kNoArena = UINT32_MAX;
constexpr uint32_t kCutArena = UINT32_MAX - 1;  // there was a payload, but it could not be kept
constexpr uint32_t kNoName = UINT32_MAX;

struct Record {
  uint64_t ticks;  // start of a span, or the moment of anything else

  // Spans: the key while open, the end in ticks once closed. Closes: the key. Memory: the address.
  uint64_t end;

  // Spans: autograd sequence number, -1 none. Memory: size in bytes, negative for a free.
  int64_t sequence_number;

  uint32_t name;   // row in the process's name table; of Python calls, in the frame table; of
                   // module calls and parameters, in the module or optimizer table.
                   // TorchScript: the modules, kNoName if they are not wanted
                   // Memory: low half of the total allocated
  uint32_t arena;  // position of the payload in this thread's arena, kNoArena if none.
                   // Memory: high half of the total allocated

  uint32_t parent;          // log index (modulo 2^32) of the span around it, kNoParent at top level
  uint32_t forward_thread;  // backward nodes: torch's id of the forward thread.
                            // Python calls: where the caller was, as an offset into its code.
                            // Memory: arena position of the reserved total, kNoArena if zero
                            // TorchScript: name of the functions, kNoName if they are not wanted
  RecordKind kind;
  uint8_t scope;        // at::RecordScope. Memory: device type. Closes: EndOf
  uint8_t state;        // SpanState; written last by the owner, read by the decoder
  int8_t device_index;  // memory only
  uint32_t detail;      // Optimizer calls: row in the optimizer table. Annotations: torch's id of
                        // the thread that made one that runs on another, 0 if this one did; and
                        // kAsynchronous

  SpanState load_state() const { return static_cast<SpanState>(__atomic_load_n(&state, __ATOMIC_ACQUIRE)); }
  void store_state(SpanState value) {
    __atomic_store_n(&state, static_cast<uint8_t>(value), __ATOMIC_RELEASE);
  }
  uint64_t load_end() const { return __atomic_load_n(&end, __ATOMIC_RELAXED); }
  void store_end(uint64_t value) { __atomic_store_n(&end, value, __ATOMIC_RELAXED); }
};

static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == 48);

}  // namespace opscope
