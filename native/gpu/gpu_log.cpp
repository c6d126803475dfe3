#include "gpu/gpu_log.h"

namespace opscope::gpu {

Work& GpuLog::add_work(GpuKind kind, uint64_t start, uint64_t end) {
  Work& row = work.append();
  row = {};
  row.kind = kind;
  row.start = start;
  row.end = end;
  row.peer_device = row.target_device = -1;
  return row;
}

// Compares the text too: the address may now belong to another kernel.
uint32_t GpuLog::kernel_name(const char* name) {
  if (name == nullptr) name = "unnamed kernel";
  const auto known = name_at_.find(name);
  if (known != name_at_.end() && kernel_names[known->second] == name) return known->second;
  const auto [entry, is_new] = name_ids_.try_emplace(name, static_cast<uint32_t>(kernel_names.size()));
  if (is_new) kernel_names.emplace_back(name);
  return name_at_[name] = entry->second;
}

void GpuLog::clear() {
  work.clear();
  calls.clear();
  memory.clear();
  overheads.clear();
  events.clear();
  counts = {};
}

}  // namespace opscope::gpu
