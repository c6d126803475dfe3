// Loads CUPTI at run time: nothing is linked, and a machine without it records everything else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace opscope::cupti {

using RequestBuffer = void (*)(uint8_t** buffer, size_t* bytes, size_t* max_records);
using CompleteBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid);
using Callback = void (*)(void* user, int domain, uint32_t id, const void* data);

// The functions that opscope calls; optional ones may be nullptr.
struct Library {
  int (*get_version)(uint32_t*);
  int (*subscribe)(void** subscriber, Callback, void* user);
  int (*unsubscribe)(void* subscriber);
  int (*enable_callback)(uint32_t enable, void* subscriber, int domain, uint32_t id);
  int (*get_callback_name)(int domain, uint32_t id, const char** name);
  int (*register_callbacks)(RequestBuffer, CompleteBuffer);
  int (*enable)(uint32_t kind);
  int (*disable)(uint32_t kind);
  int (*flush_all)(uint32_t flag);
  int (*dropped_records)(void* context, uint32_t stream, size_t* dropped);
  int (*next_record)(uint8_t* buffer, size_t valid, void** record);
  int (*get_timestamp)(uint64_t*);
  int (*result_string)(int result, const char** text);
  int (*graph_node_id)(void* node, uint64_t* id);                   // optional
  int (*set_thread_id_type)(int type);                              // optional
  int (*register_timestamp_callback)(uint64_t (*callback)());       // optional
  int (*enable_runtime_api)(uint32_t function, uint8_t on);         // optional
  int (*enable_driver_api)(uint32_t function, uint8_t on);          // optional
  int (*finalize)();                                                // optional
  int (*set_attribute)(int attribute, size_t* bytes, void* value);  // optional

  uint32_t version = 0;
  std::string path;

  std::string text_of(int result) const;
};

// Loads the first CUPTI among `candidates`, preferably a loaded one. False on failure, with the reason in
// `error`.
bool load_library(const std::vector<std::string>& candidates, Library& library, std::string& error);

}  // namespace opscope::cupti
