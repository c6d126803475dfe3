#include "cupti/cupti_library.h"

#include <dlfcn.h>

#include "cupti/cupti_layout.h"

namespace opscope::cupti {

namespace {

template <typename F>
bool find(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

bool find_all(void* handle, Library& lib) {
  find(handle, "cuptiGetGraphNodeId", lib.graph_node_id);
  find(handle, "cuptiSetThreadIdType", lib.set_thread_id_type);
  find(handle, "cuptiActivityRegisterTimestampCallback", lib.register_timestamp_callback);
  find(handle, "cuptiActivityEnableRuntimeApi", lib.enable_runtime_api);
  find(handle, "cuptiActivityEnableDriverApi", lib.enable_driver_api);
  find(handle, "cuptiFinalize", lib.finalize);
  find(handle, "cuptiActivitySetAttribute", lib.set_attribute);
  return find(handle, "cuptiGetVersion", lib.get_version) && find(handle, "cuptiSubscribe", lib.subscribe) &&
         find(handle, "cuptiUnsubscribe", lib.unsubscribe) &&
         find(handle, "cuptiEnableCallback", lib.enable_callback) &&
         find(handle, "cuptiGetCallbackName", lib.get_callback_name) &&
         find(handle, "cuptiActivityRegisterCallbacks", lib.register_callbacks) &&
         find(handle, "cuptiActivityEnable", lib.enable) &&
         find(handle, "cuptiActivityDisable", lib.disable) &&
         find(handle, "cuptiActivityFlushAll", lib.flush_all) &&
         find(handle, "cuptiActivityGetNumDroppedRecords", lib.dropped_records) &&
         find(handle, "cuptiActivityGetNextRecord", lib.next_record) &&
         find(handle, "cuptiGetTimestamp", lib.get_timestamp) &&
         find(handle, "cuptiGetResultString", lib.result_string);
}

void* open_first(const std::vector<std::string>& candidates, std::string& path, std::string& error) {
  for (const int flags : {RTLD_NOW | RTLD_NOLOAD, RTLD_NOW | RTLD_LOCAL}) {
    for (const std::string& candidate : candidates) {
      if (void* handle = dlopen(candidate.c_str(), flags)) {
        path = candidate;
        return handle;
      }
      const char* reason = dlerror();
      if ((flags & RTLD_NOLOAD) == 0 && error.empty()) error = reason != nullptr ? reason : candidate;
    }
  }
  return nullptr;
}

}  // namespace

std::string Library::text_of(int result) const {
  const char* text = nullptr;
  if (result_string(result, &text) != kSuccess || text == nullptr) text = "unknown error";
  return std::string(text) + " (" + std::to_string(result) + ")";
}

bool load_library(const std::vector<std::string>& candidates, Library& library, std::string& error) {
  void* handle = open_first(candidates, library.path, error);
  if (handle == nullptr) {
    error = "CUPTI was not found (" + error + ")";
    return false;
  }
  if (!find_all(handle, library)) {
    error = library.path + " is not a CUPTI that opscope can use";
    return false;
  }
  if (library.get_version(&library.version) != kSuccess || library.version < kOldestVersion) {
    error = library.path + " is CUPTI " + std::to_string(library.version) +
            "; the oldest that works is that of CUDA 11.8";
    return false;
  }
  error.clear();
  return true;
}

}  // namespace opscope::cupti
