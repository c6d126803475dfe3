// Adds questions about whole columns to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_columns(nanobind::module_& module);
void bind_numpy_memory(nanobind::module_& module);

}  // namespace opscope
