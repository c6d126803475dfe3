#include "schema/codes.h"
#include "writers/execution_trace.h"
#include "writers/wrapping_times.h"

namespace opscope::writers {
namespace {

bool is_node(uint8_t kind) { return kind <= EventKind::kAnnotation; }

}  // namespace

void NodeWalk::begin(const NodeTrace& trace) {
  trace_ = &trace;
  ids_.assign(trace.events.start_ns.size, 0);
  last_events_.assign(trace.thread_numbers.size, -1);
  thread_rows_.clear();
}

bool NodeWalk::next(size_t row, Node& node, uint64_t& new_thread) {
  const NodeEvents& e = trace_->events;
  const int32_t thread_row = e.thread[row];
  const bool known = thread_row >= 0 && static_cast<size_t>(thread_row) < last_events_.size();
  const int64_t own = known ? trace_->thread_numbers[static_cast<size_t>(thread_row)] : 0;
  new_thread = 0;
  node.row = row;
  node.thread = e.launch_thread[row] != 0 ? e.launch_thread[row] : own;
  node.parent = parent_of(row, node.thread, new_thread);
  if (!is_node(e.kind[row])) {
    ids_[row] = node.parent;  // its children belong to its parent
    return false;
  }
  if (known) {
    last_events_[static_cast<size_t>(thread_row)] = static_cast<int32_t>(row);
    if (own != 0) thread_rows_[own] = static_cast<size_t>(thread_row);
  }
  node.id = ids_[row] = next_id++;
  node.forward_parent = forward_parent_of(row, own, node.parent);
  const int64_t given = e.record_function_id[row];
  node.record_function_id = given >= 0 ? given : static_cast<int64_t>(row) + 1;
  return true;
}

uint64_t NodeWalk::parent_of(size_t row, int64_t thread, uint64_t& new_thread) {
  const NodeEvents& e = trace_->events;
  if (e.launch_thread[row] != 0) {
    const uint64_t launcher = open_on(e.launch_thread[row], e.start_ns[row], row);
    if (launcher != 0) return launcher;
  } else if (const int32_t parent = e.parent[row]; parent >= 0 && static_cast<size_t>(parent) < row) {
    return ids_[static_cast<size_t>(parent)];
  }
  return root_of(thread, new_thread);
}

// Node open on the thread of the forward operator; on this thread, the parent node.
uint64_t NodeWalk::forward_parent_of(size_t row, int64_t thread, uint64_t parent) const {
  const int32_t forward = trace_->events.forward_thread[row];
  if (forward == 0) return 0;
  if (forward == thread) return parent;
  const uint64_t open = open_on(forward, trace_->events.start_ns[row], row);
  if (open != 0) return open;
  const auto root = roots_.find(forward);
  return root == roots_.end() ? 0 : root->second;
}

// Innermost node that is open on a thread when event `row` starts, 0 for none.
uint64_t NodeWalk::open_on(int32_t torch_thread, int64_t time_ns, size_t row) const {
  const auto found = thread_rows_.find(torch_thread);
  if (found == thread_rows_.end()) return 0;
  const NodeEvents& e = trace_->events;
  auto child = static_cast<int64_t>(row);
  int32_t event = last_events_[found->second];
  // Parents precede children, which also ends the loop on a damaged table.
  while (event >= 0 && event < child) {
    const auto i = static_cast<size_t>(event);
    if (is_node(e.kind[i]) && sum_of(e.start_ns[i], e.duration_ns[i]) > time_ns) return ids_[i];
    child = event;
    event = e.parent[i];
  }
  return 0;
}

uint64_t NodeWalk::root_of(int64_t thread, uint64_t& new_thread) {
  const auto [root, is_new] = roots_.try_emplace(thread, next_id);
  if (is_new) new_thread = next_id++;
  return root->second;
}

}  // namespace opscope::writers
