// What all threads are running, as text for people.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_python_stacks(nanobind::module_& module);

}  // namespace opscope
