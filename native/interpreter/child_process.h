// A child process that does work which may fail in ways no code can catch.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_child_process(nanobind::module_& module);

}  // namespace opscope
