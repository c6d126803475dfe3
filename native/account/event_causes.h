// Cause of each event's self time: from its name, its kind, and the events around it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "account/moments.h"
#include "nesting/nesting.h"
#include "schema/codes.h"

namespace opscope::account {

// Columns of events, and causes of their display names.
struct EventColumns {
  const uint8_t* kind;
  const uint8_t* scope;
  const int32_t* name;     // -1 for none
  const int32_t* label;    // row of the display name
  const int32_t* around;   // the span directly around by time, -1 for none
  const int8_t* by_label;  // cause of every display name, -1 for none
  const bool* is_engine;   // of every name, last of none: an autograd engine name
  size_t names;
  size_t rows;
};

inline bool is_engine(const EventColumns& events, size_t row) {
  const int32_t name = events.name[row];
  return events.is_engine[name < 0 ? events.names : static_cast<size_t>(name)];
}

// Cause by kind: autograd nodes and C functions that call operators are torch code. Operators that call
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

// Causes that extend to everything inside the event.
inline constexpr Causes kSpreading{Cause::kLoader, Cause::kCollective, Cause::kCollection, Cause::kImport,
                                   Cause::kCompilation};

// Facts from the events around an event.
struct Surroundings {
  Causes among{};             // their causes in kSpreading
  Cause nearest = kAsAround;  // cause of the closest event with one
};

// Code inside an import belongs to the import, a wait inside a loader to the loader, and so on.
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

// kAsAround for events without a cause of their own.
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
  std::vector<Surroundings> inside(events.rows);  // facts of every event for the events inside it
  std::vector<int8_t> found(events.rows);
  nesting::each_after_parent(events.around, events.rows, [&](size_t row, int32_t parent) {
    const Surroundings around = parent < 0 ? Surroundings{} : inside[static_cast<size_t>(parent)];
    const Cause own = own_cause(row);
    Cause cause = in_surroundings(own, around);
    inside[row] = within(own, cause, around);
    // Annotations and steps count as the function around them.
    if (cause == kAsAround) {
      cause = around.nearest == Cause::kOperator ? Cause::kDispatch : around.nearest;
    }
    found[row] = static_cast<int8_t>(cause);
  });
  return found;
}

}  // namespace opscope::account
