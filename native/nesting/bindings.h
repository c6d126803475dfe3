// Adds questions about columns of parents to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_nesting(nanobind::module_& m);

}  // namespace opscope
