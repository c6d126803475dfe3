#include "sampler/connections.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstring>
#include <vector>

#include "log/proc_files.h"

namespace opscope {

namespace {

constexpr size_t kMostFiles = 512;

// What the kernel says of a connection. Its struct only grows, and the C library's knows less of it.
constexpr int kTcpInfo = 11;
constexpr size_t kNotSentBytes = 144, kReceiverFull_us = 176, kInfoSize = 184;
constexpr int kListening = 10;

struct ConnectionState {
  uint32_t not_sent_bytes = 0;
  uint64_t receiver_full_us = 0;
};

// False for what is no TCP connection, or of a kernel that does not say. Asks nothing but a socket: a
// descriptor may be another file's by now, and devices take other calls for theirs.
bool read_state(int descriptor, ConnectionState& state) {
  unsigned char info[kInfoSize];
  socklen_t size = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, kTcpInfo, info, &size) != 0 || size < sizeof info) return false;
  if (info[0] == kListening) return false;
  std::memcpy(&state.not_sent_bytes, info + kNotSentBytes, sizeof state.not_sent_bytes);
  std::memcpy(&state.receiver_full_us, info + kReceiverFull_us, sizeof state.receiver_full_us);
  return true;
}

}  // namespace

void Connections::find() {
  const std::vector<int> descriptors = numbered_entries("/proc/self/fd", kMostFiles + 1);
  if (descriptors.empty()) return;
  std::unordered_map<int, Known> found;
  for (const int descriptor : descriptors) {
    ConnectionState state;
    if (!read_state(descriptor, state)) continue;
    const auto known = connections_.find(descriptor);
    found[descriptor] = known == connections_.end() ? Known{state.receiver_full_us} : known->second;
  }
  if (descriptors.size() > kMostFiles) found.clear();
  connections_.swap(found);
}

bool Connections::look(bool& is_behind) {
  is_behind = false;
  for (auto one = connections_.begin(); one != connections_.end();) {
    ConnectionState state;
    if (!read_state(one->first, state)) {
      one = connections_.erase(one);
      continue;
    }
    const bool is_full = state.receiver_full_us != one->second.receiver_full_us;
    one->second.receiver_full_us = state.receiver_full_us;
    is_behind |= state.not_sent_bytes > 0 && !is_full;
    ++one;
  }
  return !connections_.empty();
}

}  // namespace opscope
