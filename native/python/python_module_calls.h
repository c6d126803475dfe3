// nn.Module calls, recorded by replacing the vectorcall of the function nn.Module.__call__.
#pragma once

#include <Python.h>

namespace opscope {

// [GIL] Replaces the vectorcall of this function: from now on its calls from C are seen, and calling a module
// object is one.
void hook_module_function(PyObject* function);
void unhook_module_function(PyObject* function);

}  // namespace opscope
