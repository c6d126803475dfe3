// A method that calls another between two functions of ours, and leaves no trace in a recording: it is no
// Python function, so that what it calls has the program's function for its caller, and no C function that
// profile functions are told of.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

// The type AroundCall: `before()`, then `function(...)`, then `after(first argument, whether it returned)`.
void bind_around_call(nanobind::module_& module);

}  // namespace opscope
