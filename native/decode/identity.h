// Which tensors are the same tensor: ids that follow one across views, set_ and resize_.
//
// An allocation id names one life of one storage address: it begins when the address is first seen
// and ends with its free, or with the next allocation there if its free went unheard. A tensor id names a set
// of allocations joined by tensors whose storage was replaced. Both are numbered as torch numbers them
// (torch/csrc/profiler/data_flow.cpp).
#pragma once

#include <cstdint>
#include <vector>

#include "decode/columns.h"

namespace opscope {

// One sighting of a storage, by a tensor argument, a parameter, an allocation or a free.
struct Sighting {
  int64_t time_ns;
  uint64_t impl;  // 0 for allocations and frees
  uint64_t storage;
  uint16_t device;  // any number of its own
  bool is_free;
  int64_t* allocation_id;  // to be filled in
  int64_t* tensor_id;      // likewise; may be null where only allocations are numbered
};

// Sorts sightings by time and fills in their allocation ids, from 1. Returns one past the last of these, and
// adds allocations that ended without a free to `unheard_frees`.
int64_t number_allocations(std::vector<Sighting>& sightings, uint64_t* unheard_frees);

// Fills in tensor_id and allocation_id of tensors, allocations and parameters, and counts unheard_frees.
void assign_identity(Columns& columns);

// Of a piece of a window: allocations are numbered once all pieces are there, and tensors, which are not held
// so long, never.
void assign_no_identity(Columns& columns);

}  // namespace opscope
