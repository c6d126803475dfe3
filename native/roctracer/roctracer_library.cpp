#include "roctracer/roctracer_library.h"

#include <dlfcn.h>

namespace opscope::roctracer {

namespace {

template <typename F>
bool take(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

bool take_all(void* handle, Library& lib) {
  return take(handle, "roctracer_version_major", lib.version_major) &&
         take(handle, "roctracer_version_minor", lib.version_minor) &&
         take(handle, "roctracer_open_pool_expl", lib.open_pool) &&
         take(handle, "roctracer_close_pool_expl", lib.close_pool) &&
         take(handle, "roctracer_enable_domain_activity_expl", lib.enable) &&
         take(handle, "roctracer_disable_domain_activity", lib.disable) &&
         take(handle, "roctracer_flush_activity_expl", lib.flush) &&
         take(handle, "roctracer_next_record", lib.next_record) &&
         take(handle, "roctracer_get_timestamp", lib.get_timestamp) &&
         take(handle, "roctracer_op_string", lib.name_of) &&
         take(handle, "roctracer_error_string", lib.error_string);
}

}  // namespace

std::string load_library(const std::vector<std::string>& candidates, Library& library) {
  std::string reason = "none is known";
  for (const int flags : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const std::string& candidate : candidates) {
      void* handle = dlopen(candidate.c_str(), flags);
      if (handle == nullptr) {
        const char* error = dlerror();
        reason = error != nullptr ? error : candidate;
        continue;
      }
      library.path = candidate;
      if (!take_all(handle, library)) return candidate + " is not a roctracer that opscope can use";
      library.version = library.version_major() * 10'000 + library.version_minor();
      return {};
    }
  }
  return "roctracer was not found (" + reason + ")";
}

}  // namespace opscope::roctracer
