// Adds the readers of other tools' files to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_readers(nanobind::module_& module);

}  // namespace opscope
