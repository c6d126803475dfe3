// Placing spans so that those drawn on one line are properly nested.
//
// Perfetto and Chrome drop a slice that only partly overlaps the one around it. Of two such spans
// one moves to another lane of its track: the one that yields more, else the later one. So a step
// or an operator keeps its place where a Python frame only reaches into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "numpy/column_view.h"

namespace opscope::writers {

struct LaneInput {
  ColumnView<int32_t> track;  // small numbers from 0
  ColumnView<int64_t> start_ns;
  ColumnView<int64_t> duration_ns;
  ColumnView<uint8_t> yields;  // of two that overlap, the one with more moves
  ColumnView<int32_t> order;   // rows to place, in order of start
};

// The lane of each row, from 0; 0 for rows not placed. Empty if all are 0, the usual case.
std::vector<int32_t> assign_lanes(const LaneInput& input);

}  // namespace opscope::writers
