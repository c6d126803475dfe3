// The one record the hot path appends: 48 bytes, of which 32 mean what its kind says. Trivially copyable, and
// without pointers, so that a copy of it means the same in another process.
#pragma once

#include <atomic>
#include <cstdint>
#include <type_traits>

#include "schema/codes.h"

namespace opscope {

// Spans have the kind that their events will have, EventKind of columns/codes.py.
enum class RecordKind : uint8_t {
  kOperator = EventKind::kOperator,
  kAnnotation = EventKind::kAnnotation,
  kPythonCall = EventKind::kPythonCall,
  kCCall = EventKind::kCCall,
  kModuleCall = EventKind::kModuleCall,
  kOptimizerCall = EventKind::kOptimizerCall,
  kGcPause = EventKind::kGcPause,
  kCompiledGraph = EventKind::kCompiledGraph,
  // Likewise those of other sources, which only these name.
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
// Calls, and the pauses of the collector, end in the order opposite to that in which they began.
// Operators and annotations may end in any.
inline bool is_call(RecordKind kind) { return is_span(kind) && kind > RecordKind::kAnnotation; }

enum class SpanState : uint8_t {
  kOpen = 0,       // `end` holds the key that will close it
  kClosed = 1,     // `end` holds ticks; the owner never writes this record again
  kAbandoned = 2,  // its parent ended first: `end` still holds the key, a kClose may follow
  kRaised = 3,     // as kClosed: an exception left it
};

inline bool is_closed(SpanState state) { return state == SpanState::kClosed || state == SpanState::kRaised; }

// What a kClose record ends.
enum class EndOf : uint8_t {
  kSpan = 0,          // an operator or annotation
  kStartedFrame = 1,  // a Python call whose span was closed too: for windows that opened while it ran
  kPythonCall = 2,    // a Python call that this thread did not have open
  kNoticedFrame = 3   // as kStartedFrame, of which is known only that it was over by then
};

// Whose parameters a kParameters record holds.
enum class Owner : uint8_t { kModule = 0, kOptimizer = 1 };

constexpr uint32_t kAsynchronous = 1u << 31;  // in `launch`: torch says so (work of a collective)
constexpr uint32_t kNoParent = UINT32_MAX;
constexpr uint32_t kNoArena = UINT32_MAX;
constexpr uint32_t kCutArena = UINT32_MAX - 1;  // there was a payload, but it could not be kept
constexpr uint32_t kNoName = UINT32_MAX;

// What a record says, by its kind. Payloads are positions in this thread's arena, kNoArena if there is none.
// `end` of a span: its key while it is open, ticks once it is closed.

// Any span.
struct SpanPart {
  uint64_t end;
};

struct OperatorPart {
  uint64_t end;
  int64_t sequence_number;  // of autograd, -1 none
  uint32_t name;            // row in the process's name table
  uint32_t inputs;          // payload: the arguments
  uint32_t forward_thread;  // of backward nodes: torch's id of the forward thread
  uint32_t place;           // where the Python function is that called it, as an offset into its code,
                            // plus one; 0 where that is not known
};

// Annotations and collections: as operators but for the last.
struct AnnotationPart {
  uint64_t end;
  int64_t sequence_number;
  uint32_t name;
  uint32_t inputs;
  uint32_t forward_thread;
  uint32_t launch;  // torch's id of the thread that made one that runs on another, 0 if this one did;
                    // and kAsynchronous
};

// Python functions, C functions, modules, optimizers, graphs of compiled code.
struct CallPart {
  uint64_t end;
  uint32_t function;  // row in the frame table; of C functions, in the name table
  uint32_t
      instance;  // of module and optimizer calls: row in the table of those; of graphs: in the name table
  int32_t caller_offset;  // where the caller was, as an offset into its code; -1 if there is none
};

// One run of an asyncio task between two awaits.
struct TaskRunPart {
  uint64_t end;
  uint64_t task;         // its number in the process
  uint32_t text;         // row in the name table: what its events are called
  uint32_t coroutine;    // row in the frame table, kNoName if there is none
  uint32_t task_name;    // row in the name table, or the number that its name ends with
  uint32_t is_numbered;  // 1: it has asyncio's default name, "Task-" and that number
};

// The end of a span that was no longer on its thread's stack.
struct ClosePart {
  uint64_t key;
  // pthread_self() of the thread that ran it, 0 where it may be any: another thread's function, which runs
  // still, can have the key of one that is over.
  uint64_t native_thread;
  EndOf what;
};

// Allocations, frees, and allocations that failed.
struct MemoryPart {
  uint64_t address;
  int64_t size_bytes;  // negative for a free
  uint64_t total_allocated_bytes;
  uint32_t reserved;  // payload: one word, the bytes that the allocator holds; without one it is 0
  int8_t device_type;
  int8_t device_index;
};

// What a span returned: that which is this record's parent.
struct ResultsPart {
  uint32_t values;  // payload
};

// Tensors held by a module or an optimizer.
struct ParametersPart {
  uint32_t instance;  // row in the table of modules or optimizers
  uint32_t values;    // payload
  Owner owner;
};

// Where in TorchScript the operator around it was called; kNoName for what is not wanted.
struct ScriptPart {
  uint32_t modules;
  uint32_t functions;
};

struct Record {
  uint64_t ticks;  // start of a span, or the moment of anything else
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
  uint32_t parent;  // log index (modulo 2^32) of the span around it, kNoParent at top level
  RecordKind kind;
  uint8_t scope;         // of spans: at::RecordScope
  uint8_t state;         // of spans: SpanState; written last by the owner, read by the decoder
  uint8_t is_published;  // 1 once all but the end of a span is written; means nothing in memory that was used
                         // before

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
