// Adds times over graphs of dependencies to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_graph(nanobind::module_& module);

}  // namespace opscope
