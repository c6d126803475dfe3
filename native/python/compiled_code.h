// Spans of code that torch.compile generated: the function that runs a graph, and the kernels that it calls.
// The function's span names the code; its callees have the line of the call.
#pragma once

#include <Python.h>

#include <cstdint>

namespace opscope {

// [GIL] Line in generated code that calls an operator now, encoded as OperatorPart::place. 0: the innermost
// span is no generated function, or other code runs inside it. Needs no GIL on Python versions whose frames
// are readable without it.
uint32_t place_in_generated_code(uint64_t innermost_key);

}  // namespace opscope
