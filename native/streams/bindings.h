// Recordings in files, for Python: writing, reading, decoding in pieces.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_streams(nanobind::module_& m);

}  // namespace opscope
