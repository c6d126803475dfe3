#include "log/stream_layout.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace opscope {

ThreadFacts ThreadSlot::facts() const {
  return {number, native_thread, system_thread_id, torch_thread_id.load(std::memory_order_relaxed),
          std::string(name, strnlen(name, sizeof(name)))};
}

ProcessIdentity identity_of(int64_t process_id) {
  ProcessIdentity identity;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  std::string id;
  boot >> id;
  id.copy(identity.boot_id, sizeof(identity.boot_id) - 1);
  // The second field is a name in parentheses, which may hold anything; of those after it the twentieth is
  // the start.
  std::ifstream file("/proc/" + std::to_string(process_id) + "/stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return identity;
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kStart = 20;
  std::string field;
  for (int i = 0; i < kStart; ++i) fields >> field;
  identity.start = std::strtoull(field.c_str(), nullptr, 10);
  return identity;
}

}  // namespace opscope
