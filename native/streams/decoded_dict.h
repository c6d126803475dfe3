// Decoded data as Python objects.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "decode/columns.h"
#include "log/window.h"

namespace opscope {

// Tables, names and facts of the window.
nanobind::dict to_dict(Columns columns, const WindowFacts& window);

// Decodes without device activity.
nanobind::dict decode_view(const LogView& view, const std::vector<std::string>& prefixes);

}  // namespace opscope
