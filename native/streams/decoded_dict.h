// What was decoded, as Python gets it.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "decode/columns.h"
#include "log/window.h"

namespace opscope {

// Tables, names, and what is known of the window beside them.
nanobind::dict to_dict(Columns columns, const WindowFacts& window);

// Without what devices did.
nanobind::dict decode_view(const LogView& view, const std::vector<std::string>& prefixes);

}  // namespace opscope
