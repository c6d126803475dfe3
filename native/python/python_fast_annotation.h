// Keeps torch's _RecordFunctionFast from failing when a thread is adopted inside one.
#pragma once

#include <Python.h>

namespace opscope {

// [GIL] From now on `type` (torch._C._profiler._RecordFunctionFast) leaves quietly where it would
// raise. None: nothing to do. Idempotent, and never undone: a `with` statement looks its exit up on
// entry, so it has to be in place before the span begins that it will matter to.
//
// Its __enter__ does something only while the thread's PROFILER_STATE slot is filled, and its
// __exit__ asserts that the slot was filled on entry. We fill the slot of other threads when they
// first run an operator, which may be inside such a span.
void guard_fast_annotations(PyObject* type);

}  // namespace opscope
