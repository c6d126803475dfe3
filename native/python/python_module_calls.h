// nn.Module calls, seen at the function that nn.Module.__call__ is.
#pragma once

#include <Python.h>

namespace opscope {

// [GIL] From now on calls of this function from C, which is how an object is called, are seen.
void hook_module_function(PyObject* function);
void unhook_module_function(PyObject* function);

}  // namespace opscope
