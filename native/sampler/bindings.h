// Adds the sampler of threads to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_sampler(nanobind::module_& module);

}  // namespace opscope
