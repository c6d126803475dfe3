// Adds the writers to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_writers(nanobind::module_& m);

}  // namespace opscope
