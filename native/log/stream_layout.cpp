#include "log/stream_layout.h"

#include <cstring>
#include <string>

namespace opscope {

ThreadFacts ThreadSlot::facts() const {
  return {number, native_thread, system_thread_id, torch_thread_id.load(std::memory_order_relaxed),
          std::string(name, strnlen(name, sizeof(name)))};
}

}  // namespace opscope
