// Garbage collections as spans: an entry of gc.callbacks, while a window wants them.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_collections(nanobind::module_& module);

}  // namespace opscope
