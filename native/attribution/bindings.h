// Adds to the extension module which module, part of a step and line each event is of.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_attribution(nanobind::module_& m);

}  // namespace opscope
