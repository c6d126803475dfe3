// Adds the writers to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_writers(nanobind::module_& m);
void bind_perfetto(nanobind::module_& m);         // called by bind_writers
void bind_execution_trace(nanobind::module_& m);  // likewise

}  // namespace opscope
