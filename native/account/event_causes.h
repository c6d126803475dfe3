// The cause of the own time of every event: by its name, by its kind, and by what it runs in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "account/moments.h"
#include "nesting/nesting.h"
#include "schema/codes.h"

namespace opscope::account {

// Columns of events, and what the texts that they are shown under say.
struct EventColumns {
  const uint8_t* kind;
  const uint8_t* scope;
  const int32_t* name;     // -1 for none
  const int32_t* label;    // row of the text
  const int32_t* around;   // the span directly around each by time, -1 for none
  const int8_t* by_label;  // of every text its cause, -1 where it says none
  const bool* is_engine;   // of every name, whether it is one of the autograd engine's own; the last for none
  size_t names;
  size_t rows;
};

inline bool is_engine(const EventColumns& events, size_t row) {
  const int32_t name = events.name[row];
  return events.is_engine[name < 0 ? events.names : static_cast<size_t>(name)];
}

// By kind: nodes of autograd and C functions that call operators are torch around them. Operators that call
// others may still do most of the work: aten::mm calls helpers first.
inline Cause of_kind(const EventColumns& events, size_t row, bool calls_operators) {
  switch (static_cast<EventKind>(events.kind[row])) {
    case EventKind::kOperator: {
      const bool is_node = static_cast<RecordScope>(events.scope[row]) == RecordScope::kBackwardFunction;
      const bool is_torch = is_engine(events, row) || (is_node && calls_operators);
      return is_torch ? Cause::kDispatch : Cause::kOperator;
    }
    case EventKind::kCCall:
      return calls_operators ? Cause::kDispatch : Cause::kPython;
    case EventKind::kPythonCall:
    case EventKind::kModuleCall:
    case EventKind::kOptimizerCall:
    case EventKind::kTaskRun:
    case EventKind::kCompiledGraph:
      return Cause::kPython;
    case EventKind::kRuntimeCall:
      return Cause::kDispatch;
    default:
      return kAsAround;
  }
}

// What tells something of all that runs in it.
inline constexpr Causes kSpreading{Cause::kLoader, Cause::kCollective, Cause::kCollection, Cause::kImport,
                                   Cause::kCompilation};

// What is known of an event from those that it runs in.
struct Surroundings {
  Causes among{};             // those of kSpreading that are theirs
  Cause nearest = kAsAround;  // of the closest that has one
};

// What runs in an import is part of it, waiting in a loader is waiting for it, and so on.
inline Cause in_surroundings(Cause cause, const Surroundings& around) {
  if (around.among.is_empty()) return cause;
  if (cause != Cause::kCollection) {
    if (around.among.has(Cause::kCompilation)) cause = Cause::kCompilation;
    if (around.among.has(Cause::kImport)) cause = Cause::kImport;
    if (around.among.has(Cause::kCollection)) cause = Cause::kCollection;
  }
  const bool waits = Causes{Cause::kLock, Cause::kIo, Cause::kTimer}.has(cause);
  const bool is_passive = waits || Causes{Cause::kPython, Cause::kDispatch, Cause::kBackward}.has(cause);
  if (waits && around.among.has(Cause::kLoader)) cause = Cause::kLoader;
  return is_passive && around.among.has(Cause::kCollective) ? Cause::kCollective : cause;
}

inline Surroundings within(Cause own, Cause settled, const Surroundings& around) {
  Surroundings found = around;
  if (kSpreading.has(own)) found.among.add(own);
  if (settled != kAsAround) found.nearest = settled;
  return found;
}

// kAsAround where it has none of its own.
inline std::vector<int8_t> causes_of_events(const EventColumns& events) {
  std::vector<uint8_t> calls_operators(events.rows);
  for (size_t row = 0; row < events.rows; ++row) {
    const bool is_operator = static_cast<EventKind>(events.kind[row]) == EventKind::kOperator;
    if (is_operator && events.around[row] >= 0) calls_operators[static_cast<size_t>(events.around[row])] = 1;
  }
  const auto own_cause = [&](size_t row) {
    if (static_cast<EventKind>(events.kind[row]) == EventKind::kGcPause) return Cause::kCollection;
    const auto named = static_cast<Cause>(events.by_label[events.label[row]]);
    return named != kAsAround ? named : of_kind(events, row, calls_operators[row] != 0);
  };
  std::vector<Surroundings> inside(events.rows);  // of every event, what is known of those in it
  std::vector<int8_t> found(events.rows);
  nesting::each_after_parent(events.around, events.rows, [&](size_t row, int32_t parent) {
    const Surroundings around = parent < 0 ? Surroundings{} : inside[static_cast<size_t>(parent)];
    const Cause own = own_cause(row);
    Cause cause = in_surroundings(own, around);
    inside[row] = within(own, cause, around);
    // Annotations and steps are as the function that they are in.
    if (cause == kAsAround) {
      cause = around.nearest == Cause::kOperator ? Cause::kDispatch : around.nearest;
    }
    found[row] = static_cast<int8_t>(cause);
  });
  return found;
}

}  // namespace opscope::account
