// What we read of roctracer, ROCm's library: numbers and the record, as its public headers have had them
// since ROCm 5. Declared here, so that building opscope needs no ROCm.
#pragma once

#include <cstddef>
#include <cstdint>

namespace opscope::roctracer {

constexpr int kSuccess = 0;

enum Domain : uint32_t { kHipOperations = 2, kHipCalls = 3 };
enum Operation : uint32_t { kDispatch = 0, kCopy = 1, kBarrier = 2 };

struct Record {
  uint32_t domain, kind, operation;
  uint64_t correlation, begin_ns, end_ns;
  union {
    struct {
      int32_t device;
      uint64_t queue;
    };
    struct {
      uint32_t process, thread;
    };
  };
  union {
    size_t bytes;
    const char* kernel_name;
  };
};

using BufferFull = void (*)(const char* begin, const char* end, void* argument);

// Of a pool of buffers.
struct Properties {
  uint32_t mode;
  size_t buffer_size;
  void (*allocate)(char** pointer, size_t size, void* argument);
  void* allocate_argument;
  BufferFull full;
  void* full_argument;
};

}  // namespace opscope::roctracer
