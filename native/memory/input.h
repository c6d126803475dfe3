// What memory accounts are computed from: the columns of a trace's tables, as views.
#pragma once

#include <cstdint>

#include "numpy/column.h"

namespace opscope::memory {

using writers::Column;
using Lists = writers::ListColumn;

// Columns that tensors, parameters and allocations share: what a block of memory is known by.
struct Identity {
  Column<int64_t> tensor_id, allocation_id;
  Column<int8_t> device_type, device_index;

  bool known(size_t row) const { return tensor_id[row] >= 0 && allocation_id[row] >= 0; }
};

struct Shapes {
  Column<int8_t> dtype, layout;
  Lists sizes, strides;
};

struct Events {
  Column<int32_t> parent, name;
  Column<int64_t> start_ns;
  Column<uint8_t> kind, scope;

  size_t size() const { return start_ns.size; }
};

struct Tensors {
  Column<int32_t> event, element;
  Column<int16_t> argument;
  Column<uint8_t> role;
  Identity identity;
  Shapes shapes;

  size_t size() const { return event.size; }
};

struct Scalars {
  Column<int32_t> event;
  Column<int16_t> argument;
  Column<uint8_t> role, type;

  size_t size() const { return event.size; }
};

struct Allocations {
  Column<int32_t> event;
  Column<int64_t> time_ns, size_bytes;
  Column<uint64_t> address;
  Column<uint8_t> action;
  Identity identity;

  size_t size() const { return time_ns.size; }
};

struct Parameters {
  Column<uint8_t> role;  // 0 parameter, 1 gradient, 2 optimizer state
  Identity identity;
  Shapes shapes;

  size_t size() const { return role.size; }
};

struct Tables {
  Events events;
  Tensors tensors;
  Scalars scalars;
  Allocations allocations;
  Parameters parameters;
};

// The size behind a signed one.
inline int64_t magnitude(int64_t bytes) {
  if (bytes >= 0) return bytes;
  return bytes == INT64_MIN ? INT64_MAX : -bytes;
}

// Values of trace/schema.py.
constexpr uint8_t kOperator = 0, kAnnotation = 1;  // EventKind
constexpr uint8_t kBackwardFunction = 1;           // RecordScope
constexpr uint8_t kInput = 0;                      // Role
constexpr uint8_t kParameter = 0, kGradient = 1, kState = 2;
constexpr uint8_t kOutOfMemory = 2;  // AllocationAction

}  // namespace opscope::memory
