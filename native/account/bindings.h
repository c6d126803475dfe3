// Adds the account of threads' time to the extension module.
#pragma once

#include <nanobind/nanobind.h>

namespace opscope {

void bind_account(nanobind::module_& m);

}  // namespace opscope
