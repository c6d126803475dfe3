// The record of the hot path: 48 bytes, of which 32 depend on the kind. It is trivially copyable and has no
// pointers, so a copy is valid in another process.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "schema/codes.h"

namespace opscope {

// Kinds of spans equal those of their events (EventKind of columns/codes.py).
enum class RecordKind : uint8_t {
  kOperator = EventKind::kOperator,
  kAnnotation = EventKind::kAnnotation,
  kPythonCall = EventKind::kPythonCall,
  kCCall = EventKind::kCCall,
  kModuleCall = EventKind::kModuleCall,
  kOptimizerCall = EventKind::kOptimizerCall,
  kGcPause = EventKind::kGcPause,
  kCompiledGraph = EventKind::kCompiledGraph,
  // Records of other sources; only the sources use these names.
  kClose = 32,
  kAllocate = 33 + AllocationAction::kAllocate,
  kFree = 33 + AllocationAction::kFree,
  kOutOfMemory = 33 + AllocationAction::kOutOfMemory,
  kOutputs = 36,
  kParameters = 37,
  kScript = 38,
};

inline bool is_span(RecordKind kind) { return kind < RecordKind::kClose; }
inline bool is_python(RecordKind kind) {
  return kind >= RecordKind::kPythonCall && kind <= RecordKind::kOptimizerCall;
}
// Calls and garbage collections end in reverse order of their starts, operators and annotations in any.
inline bool is_call(RecordKind kind) { return is_span(kind) && kind > RecordKind::kAnnotation; }

enum class SpanState : uint8_t {
  kOpen = 0,       // `end`: the key that will close the span
  kClosed = 1,     // `end`: ticks; the owner never writes this record again
  kAbandoned = 2,  // its parent ended first: `end` is still the key, a kClose may follow
  kRaised = 3,     // as kClosed; an exception ended the span
};

inline bool is_closed(SpanState state) { return state == SpanState::kClosed || state == SpanState::kRaised; }

// What a kClose record ends.
enum class EndOf : uint8_t {
  kSpan = 0,          // an operator or annotation
  kStartedFrame = 1,  // a Python call with a closed span: for windows that opened while it ran
  kPythonCall = 2,    // a Python call that was not open on this thread
  kNoticedFrame = 3   // as kStartedFrame, but the call may have ended earlier
};

// Owner of the tensors of a kParameters record.
enum class Owner : uint8_t { kModule = 0, kOptimizer = 1 };

constexpr uint32_t kAsynchronous = 1u << 31;  // in `launch`: torch reports it as asynchronous (a collective)
constexpr uint32_t kNoParent = UINT32_MAX;
constexpr uint32_t kNoArena = UINT32_MAX;
constexpr uint32_t kCutArena = UINT32_MAX - 1;  // the payload was lost for lack of memory
constexpr uint32_t kNoName = UINT32_MAX;

// Contents of a record by kind. Payloads are positions in this thread's arena, or kNoArena. `end` of a span:
// its key while open, then ticks.

struct SpanPart {
  uint64_t end;
};

struct OperatorPart {
  uint64_t end;
  int64_t sequence_number;  // of autograd, -1 for none
  uint32_t name;            // row in the process's name table
  uint32_t inputs;          // payload: arguments
  uint32_t forward_thread;  // of backward nodes: torch's id of the forward thread
  uint32_t place;           // call in the Python function: offset into its code plus one,
                            // 0 if unknown
};

// Annotations and collections: as operators, except the last field.
struct AnnotationPart {
  uint64_t end;
  int64_t sequence_number;
  uint32_t name;
  uint32_t inputs;
  uint32_t forward_thread;
  uint32_t launch;  // if another thread made this span: torch's id of that thread, otherwise 0;
                    // and kAsynchronous
};

// Python functions, C functions, modules, optimizers, graphs of compiled code.
struct CallPart {
  uint64_t end;
  uint32_t function;      // row in the frame table; of C functions, in the name table
  uint32_t instance;      // of module and optimizer calls: row in their table; of graphs: in the name table
  int32_t caller_offset;  // call in the caller, as an offset into its code; -1 for none
};

// One run of an asyncio task between two awaits.
struct TaskRunPart {
  uint64_t end;
  uint64_t task;         // number in the process
  uint32_t text;         // row in the name table: name of its events
  uint32_t coroutine;    // row in the frame table, kNoName for none
  uint32_t task_name;    // row in the name table, or the number at the end of its name
  uint32_t is_numbered;  // 1: the task has asyncio's default name, "Task-" and that number
};

// End of a span that was no longer on its thread's stack.
struct ClosePart {
  uint64_t key;
  // pthread_self() of the thread that ran the span, 0 for any thread: a running function of another thread
  // may have the key of one that is over.
  uint64_t native_thread;
  EndOf what;
};

// Allocations, frees, and failed allocations.
struct MemoryPart {
  uint64_t address;
  int64_t size_bytes;  // negative for a free
  uint64_t total_allocated_bytes;
  uint32_t reserved;  // payload: one word, the bytes that the allocator reserves; 0 without a payload
  int8_t device_type;
  int8_t device_index;
};

// Return value of the span that is this record's parent.
struct ResultsPart {
  uint32_t values;  // payload
};

struct ParametersPart {
  uint32_t instance;  // row in the table of modules or optimizers
  uint32_t values;    // payload
  Owner owner;
};

// Caller in TorchScript of the operator around it; kNoName for parts that are not wanted.
struct ScriptPart {
  uint32_t modules;
  uint32_t functions;
};

struct Record {
  uint64_t ticks;  // begin of a span, or time of anything else
  union {
    OperatorPart op;
    AnnotationPart annotation;
    SpanPart span;
    CallPart call;
    TaskRunPart task;
    ClosePart close;
    MemoryPart memory;
    ResultsPart results;
    ParametersPart parameters;
    ScriptPart script;
  };
  uint32_t parent;  // log index (modulo 2^32) of the parent span, kNoParent for none
  RecordKind kind;
  uint8_t scope;         // of spans: at::RecordScope
  uint8_t state;         // of spans: SpanState; last write by the owner, read by the decoder
  uint8_t is_published;  // 1 once all but a span's end is written; undefined in reused memory

  SpanState load_state() const { return static_cast<SpanState>(__atomic_load_n(&state, __ATOMIC_ACQUIRE)); }
  void store_state(SpanState value) {
    __atomic_store_n(&state, static_cast<uint8_t>(value), __ATOMIC_RELEASE);
  }
  uint64_t load_end() const { return __atomic_load_n(&span.end, __ATOMIC_RELAXED); }
  void store_end(uint64_t value) { __atomic_store_n(&span.end, value, __ATOMIC_RELAXED); }
};

static_assert(std::is_trivially_copyable_v<Record> && std::is_standard_layout_v<Record>);
static_assert(sizeof(Record) == 48);

}  // namespace opscope
