// Code that torch.compile generated, seen while it runs: the function that runs one graph, and the kernels it
// calls. The function is a span that says which code it is; what it calls has the line it is called from.
#pragma once

#include <Python.h>

#include <cstdint>

namespace opscope {

// [GIL] Where the function of generated code is that calls an operator now, as OperatorPart::place has it; 0:
// the innermost span is not that of such a function, or something else runs in it. Needs no GIL on Python
// versions whose frames can be read without it.
uint32_t place_in_generated_code(uint64_t innermost_key);

}  // namespace opscope
