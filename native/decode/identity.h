// Which tensors are the same tensor: ids that follow one across views, set_ and resize_.
//
// An allocation id names one life of one storage address: it begins when the address is first seen
// and ends with its free, or with the next allocation there if its free went unheard. A tensor id names a set
// of allocations joined by tensors whose storage was replaced. Both are numbered as torch numbers them
// (torch/csrc/profiler/data_flow.cpp).
#pragma once

#include "decode/columns.h"

namespace opscope {

// Fills in tensor_id and allocation_id of tensors, allocations and parameters, and counts unheard_frees.
void assign_identity(Columns& columns);

// Of a piece of a window: what is the same in others can only be told of all of them together.
void assign_no_identity(Columns& columns);

}  // namespace opscope
