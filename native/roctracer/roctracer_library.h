// roctracer, found at run time: nothing is linked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "roctracer/roctracer_layout.h"

namespace opscope::roctracer {

struct Library {
  uint32_t (*version_major)();
  uint32_t (*version_minor)();
  int (*open_pool)(const Properties* properties, void** pool);
  int (*close_pool)(void* pool);
  int (*enable)(uint32_t domain, void* pool);
  int (*disable)(uint32_t domain);
  int (*flush)(void* pool);
  int (*next_record)(const Record* record, const Record** next);
  int (*get_timestamp)(uint64_t* nanoseconds);
  const char* (*name_of)(uint32_t domain, uint32_t operation, uint32_t kind);
  const char* (*error_string)();

  uint32_t version = 0;  // 10,000 times the major one and the minor one
  std::string path;
};

// Loads the first of `candidates` that is a roctracer, of those already in the process first. Returns why
// that is impossible, or an empty string.
std::string load_library(const std::vector<std::string>& candidates, Library& library);

}  // namespace opscope::roctracer
