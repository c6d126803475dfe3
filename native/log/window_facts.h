// What is known of a window beside its records, as bytes.
#pragma once

#include "log/bytes.h"
#include "log/log_view.h"

namespace opscope {

// All but the threads.
void put_window(ByteWriter& out, const LogView& view);
// Raises Damage where the bytes are no such thing.
void get_window(ByteReader& in, LogView& view);

}  // namespace opscope
