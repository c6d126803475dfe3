// Records nn.Module calls by replacing the vectorcall of nn.Module.__call__.
#pragma once

#include <Python.h>

namespace opscope {

// [GIL] Replaces the function's vectorcall, through which C code calls it, such as calls of a module object.
void hook_module_function(PyObject* function);
void unhook_module_function(PyObject* function);

}  // namespace opscope
