// Facts of a window other than its records, as bytes.
#pragma once

#include "log/bytes.h"
#include "log/log_view.h"

namespace opscope {

// Without the threads.
void put_window(ByteWriter& out, const LogView& view);
// Raises Damage if the bytes are invalid.
void get_window(ByteReader& in, LogView& view);

}  // namespace opscope
