// Identity of tensors: ids that follow a tensor across views, set_ and resize_.
//
// An allocation id names one life of one storage address: from the first sighting of the address to its free,
// or to the next allocation there if the free is missing. A tensor id names a set of allocations, joined by
// tensors whose storage was replaced. Ids are numbered as in torch (torch/csrc/profiler/data_flow.cpp).
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
  uint16_t device;  // any unique number
  bool is_free;
  int64_t* allocation_id;  // output
  int64_t* tensor_id;      // output; null if only allocations are numbered
};

// Sorts sightings by time and sets their allocation ids, from 1. Returns the last id plus one, and adds
// allocations that ended without a free to `unreported_frees`.
int64_t number_allocations(std::vector<Sighting>& sightings, uint64_t* unreported_frees);

// Sets tensor_id and allocation_id of tensors, allocations and parameters, and counts unreported_frees.
// `releases_ns`: moments, in order, from which on the address of a TensorImpl may be another tensor's.
void assign_identity(Columns& columns, const std::vector<int64_t>& releases_ns);

// For a piece of a window: allocations are numbered when all pieces are complete, tensors never: they are not
// held that long.
void assign_no_identity(Columns& columns);

}  // namespace opscope
