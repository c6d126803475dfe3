// Adds memory accounts to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_memory(nanobind::module_& m);

}  // namespace opscope
