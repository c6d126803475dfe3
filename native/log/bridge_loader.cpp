#include "log/bridge_loader.h"

#include <dlfcn.h>

#include <stdexcept>

#include "log/recorder.h"

namespace opscope {

const BridgeApi& load_bridge(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  const auto attach = reinterpret_cast<AttachBridge>(dlsym(library, "opscope_attach"));
  const BridgeApi* bridge = attach == nullptr ? nullptr : attach(&Recorder::instance().core_api());
  if (bridge == nullptr || bridge->version != kCoreApiVersion) {
    dlclose(library);
    throw std::runtime_error("it was built for another version of opscope");
  }
  Recorder::instance().attach_bridge(bridge);
  return *bridge;
}

const BridgeApi& loaded_bridge() {
  const BridgeApi* attached = Recorder::instance().bridge();
  if (attached == nullptr) throw std::runtime_error("the torch bridge is not loaded");
  return *attached;
}

}  // namespace opscope
