// What memory accounts are computed from: the columns of a trace's tables, as views.
#pragma once

#include <cstdint>

#include "numpy/column_view.h"
#include "schema/codes.h"

namespace opscope::memory {

// Columns that tensors, parameters and allocations share: what a block of memory is known by.
struct Identity {
  ColumnView<int64_t> tensor_id, allocation_id;
  ColumnView<int8_t> device_type, device_index;

  bool known(size_t row) const { return tensor_id[row] >= 0 && allocation_id[row] >= 0; }
};

struct Shapes {
  ColumnView<int8_t> dtype, layout;
  ListView sizes, strides;
};

struct Events {
  ColumnView<int32_t> parent, name;
  ColumnView<int64_t> start_ns;
  ColumnView<uint8_t> kind, scope;

  size_t size() const { return start_ns.size; }
};

struct Tensors {
  ColumnView<int32_t> event, element;
  ColumnView<int16_t> argument;
  ColumnView<uint8_t> role;
  Identity identity;
  Shapes shapes;

  size_t size() const { return event.size; }
};

struct Scalars {
  ColumnView<int32_t> event;
  ColumnView<int16_t> argument;
  ColumnView<uint8_t> role, type;

  size_t size() const { return event.size; }
};

struct Allocations {
  ColumnView<int32_t> event;
  ColumnView<int64_t> time_ns, size_bytes;
  ColumnView<uint64_t> address;
  ColumnView<uint8_t> action;
  Identity identity;

  size_t size() const { return time_ns.size; }
};

struct Parameters {
  ColumnView<uint8_t> role;  // ParameterRole
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

// The absolute value; the most negative number, which has none, becomes the largest.
inline int64_t magnitude(int64_t bytes) {
  if (bytes >= 0) return bytes;
  return bytes == INT64_MIN ? INT64_MAX : -bytes;
}

}  // namespace opscope::memory
