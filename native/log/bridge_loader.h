// Loading the bridge to torch that was compiled on this machine.
#pragma once

#include <string>

#include "log/core_api.h"

namespace opscope {

// Loads the library at `path`, for the life of the process, and makes it the recorder's bridge. torch must
// have been imported: the bridge's dependencies are found among the libraries that are loaded. Raises
// std::runtime_error if it cannot be loaded, or was built for another version of opscope.
const BridgeApi& load_bridge(const std::string& path);

// The loaded bridge; raises std::runtime_error if there is none.
const BridgeApi& loaded_bridge();

}  // namespace opscope
