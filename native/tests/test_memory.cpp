// Memory accounts: a small recording with a known answer, and many that make no sense.
#include <random>
#include <vector>

#include "check.h"
#include "memory/signatures.h"
#include "memory/timeline.h"

using namespace opscope;
using namespace opscope::memory;

namespace {

// The tables of a trace, owned.
struct Recording {
  std::vector<int32_t> parent, name;
  std::vector<int64_t> start_ns;
  std::vector<uint8_t> kind, scope;

  std::vector<int32_t> tensor_event, element;
  std::vector<int16_t> argument;
  std::vector<uint8_t> role;
  std::vector<int64_t> tensor_id, allocation_id;
  std::vector<int8_t> device_type, device_index, dtype, layout;
  std::vector<int64_t> size_offsets{0}, sizes, stride_offsets{0}, strides;

  std::vector<int32_t> scalar_event;
  std::vector<int16_t> scalar_argument;
  std::vector<uint8_t> scalar_role, scalar_type;

  std::vector<int32_t> memory_event;
  std::vector<int64_t> time_ns, size_bytes;
  std::vector<uint64_t> address;
  std::vector<uint8_t> action;
  std::vector<int64_t> memory_tensor, memory_allocation;
  std::vector<int8_t> memory_type, memory_index;

  void add_event(int32_t its_parent, int32_t its_name, uint8_t its_scope = 0) {
    parent.push_back(its_parent);
    name.push_back(its_name);
    start_ns.push_back(static_cast<int64_t>(start_ns.size()) * 10);
    kind.push_back(opscope::EventKind::kOperator);
    scope.push_back(its_scope);
  }
  void add_tensor(int32_t event, int16_t position, int64_t tensor, int64_t allocation,
                  const std::vector<int64_t>& shape) {
    tensor_event.push_back(event);
    element.push_back(-1);
    argument.push_back(position);
    role.push_back(opscope::Role::kInput);
    tensor_id.push_back(tensor);
    allocation_id.push_back(allocation);
    device_type.push_back(0);
    device_index.push_back(-1);
    dtype.push_back(6);
    layout.push_back(0);
    sizes.insert(sizes.end(), shape.begin(), shape.end());
    strides.insert(strides.end(), shape.size(), 1);
    size_offsets.push_back(static_cast<int64_t>(sizes.size()));
    stride_offsets.push_back(static_cast<int64_t>(strides.size()));
  }
  void add_memory(int32_t event, int64_t time, int64_t bytes, int64_t tensor, int64_t allocation) {
    memory_event.push_back(event);
    time_ns.push_back(time);
    size_bytes.push_back(bytes);
    address.push_back(0x1000);
    action.push_back(bytes < 0 ? 1 : 0);
    memory_tensor.push_back(tensor);
    memory_allocation.push_back(allocation);
    memory_type.push_back(0);
    memory_index.push_back(-1);
  }

  template <typename T>
  static ColumnView<T> view(const std::vector<T>& column) {
    return {column.data(), 1, column.size()};
  }
  Tables tables() const {
    Tables result;
    result.events = {view(parent), view(name), view(start_ns), view(kind), view(scope)};
    const Identity identity{view(tensor_id), view(allocation_id), view(device_type), view(device_index)};
    const Shapes shapes{
        view(dtype), view(layout), {view(size_offsets), view(sizes)}, {view(stride_offsets), view(strides)}};
    result.tensors = {view(tensor_event), view(element), view(argument), view(role), identity, shapes};
    result.scalars = {view(scalar_event), view(scalar_argument), view(scalar_role), view(scalar_type)};
    result.allocations = {
        view(memory_event),
        view(time_ns),
        view(size_bytes),
        view(address),
        view(action),
        {view(memory_tensor), view(memory_allocation), view(memory_type), view(memory_index)}};
    return result;
  }
};

struct Accounts {
  Signatures signatures;
  TensorKeys keys;
  DataFlow flow;
  Categories categories;
  Timeline timeline;
};

// `access` is that of every argument of every operator; -1 for one without a schema.
Accounts account(const Recording& recording, const std::vector<int>& access_of_name) {
  Accounts result;
  const Tables tables = recording.tables();
  result.signatures = read_signatures(tables);
  std::vector<uint8_t> has_schema, access;
  std::vector<int64_t> offsets{0};
  for (size_t i = 0; i < result.signatures.name.size(); ++i) {
    const int of_name = access_of_name[static_cast<size_t>(result.signatures.name[i])];
    has_schema.push_back(of_name >= 0 ? 1 : 0);
    for (const char letter : result.signatures.kinds[i]) {
      const bool is_tensor = letter == 'T' || letter == 'L';
      access.push_back(!is_tensor ? 3 : of_name < 0 ? 2 : static_cast<uint8_t>(of_name));
    }
    offsets.push_back(static_cast<int64_t>(access.size()));
  }
  const SignatureAccess signatures{Recording::view(result.signatures.of_event), Recording::view(has_schema),
                                   Recording::view(offsets), Recording::view(access)};
  const std::vector<int64_t> item_bytes(8, 4);
  const TreeOrder tree = order_tree(tables);
  result.keys = number_keys(tables, find_inputs(tables, signatures));
  measure_keys(tables, tree, Recording::view(item_bytes), result.keys);
  result.flow = trace_flow(tables, tree, signatures, result.keys);
  result.categories = categorize(tables, tree, result.keys, result.flow, {});
  result.timeline = build_timeline(tables, tree, result.keys, result.flow, result.categories);
  return result;
}

}  // namespace

TEST(an_operator_in_place_makes_a_new_version_of_what_another_made) {
  // name 0: empty, reads nothing; name 1: add_, writes; name 2: sum, reads.
  Recording recording;
  recording.add_event(-1, 0);
  recording.add_event(-1, 1);
  recording.add_event(-1, 2);
  recording.add_tensor(1, 0, 5, 7, {2, 3});
  recording.add_tensor(2, 0, 5, 7, {2, 3});
  recording.add_memory(0, 2, 24, 5, 7);
  recording.add_memory(-1, 25, -24, 5, 7);

  const Accounts accounts = account(recording, {0, 1, 0});

  CHECK_SAME(accounts.keys.tensor_id, std::vector<int64_t>{5});
  CHECK_SAME(accounts.keys.size_bytes, std::vector<int64_t>{24});
  CHECK_SAME(accounts.flow.node, std::vector<int32_t>{0, 1, 2, 4});  // 4: the free outside
  CHECK_SAME(accounts.flow.edges.input_version, std::vector<int32_t>{-1, 0, 1, 1});
  CHECK_SAME(accounts.flow.edges.mutated, std::vector<uint8_t>{0, 1, 0, 0});
  CHECK_SAME(accounts.flow.version_offsets, std::vector<int64_t>{0, 2});
  CHECK_SAME(accounts.timeline.action, std::vector<uint8_t>{2, 3, 4});
  CHECK_SAME(accounts.timeline.time_ns, std::vector<int64_t>{2, 10, 25});
  CHECK_SAME(accounts.timeline.version, std::vector<int32_t>{0, 0, 1});
}

TEST(what_an_operator_makes_and_frees_is_temporary) {
  Recording recording;
  recording.add_event(-1, 0);
  recording.add_event(0, 1);
  recording.add_memory(1, 12, 64, 0, 1);
  recording.add_memory(0, 15, -64, 0, 1);

  const Accounts accounts = account(recording, {0, 0});

  CHECK_SAME(accounts.flow.node, std::vector<int32_t>{0});
  CHECK(accounts.flow.edges.is_intermediate(0));
  CHECK(accounts.categories.of_key[0] == Category::kTemporary);
}

TEST(an_empty_recording_has_empty_accounts) {
  const Accounts accounts = account({}, {});
  CHECK_SAME(accounts.flow.node.size(), 0);
  CHECK_SAME(accounts.timeline.time_ns.size(), 0);
}

TEST(recordings_that_make_no_sense_are_survived) {
  std::mt19937_64 random(1);
  const auto any = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  const auto extreme = [&] { return any(0, 9) == 0 ? any(INT64_MIN, INT64_MAX) : any(-2, 6); };
  for (int round = 0; round < 3000; ++round) {
    Recording recording;
    const int64_t events = any(0, 20);
    for (int64_t i = 0; i < events; ++i) {
      recording.add_event(static_cast<int32_t>(any(-2, events + 2)), static_cast<int32_t>(any(0, 4)),
                          static_cast<uint8_t>(any(0, 2)));
      recording.kind.back() = static_cast<uint8_t>(any(0, 3));
      recording.start_ns.back() = extreme();
    }
    for (int64_t i = any(0, 30); i > 0; --i) {
      recording.add_tensor(static_cast<int32_t>(any(-2, events + 2)), static_cast<int16_t>(any(-2, 5)),
                           extreme(), extreme(), {extreme(), extreme()});
      recording.element.back() = static_cast<int32_t>(any(-1, 2));
      recording.role.back() = static_cast<uint8_t>(any(0, 3));
      recording.dtype.back() = static_cast<int8_t>(any(-128, 127));
      recording.strides.back() = extreme();
    }
    for (int64_t i = any(0, 5); i > 0; --i) {
      recording.scalar_event.push_back(static_cast<int32_t>(any(-2, events + 2)));
      recording.scalar_argument.push_back(static_cast<int16_t>(any(-2, 5)));
      recording.scalar_role.push_back(static_cast<uint8_t>(any(0, 3)));
      recording.scalar_type.push_back(static_cast<uint8_t>(any(0, 255)));
    }
    for (int64_t i = any(0, 20); i > 0; --i) {
      recording.add_memory(static_cast<int32_t>(any(-2, events + 2)), extreme(), extreme(), extreme(),
                           extreme());
      recording.action.back() = static_cast<uint8_t>(any(0, 3));
    }
    const Accounts accounts = account(recording, {0, 1, -1, 3, 0});
    CHECK_SAME(accounts.categories.of_version.size(),
               static_cast<size_t>(accounts.flow.version_offsets.back()));
    for (const int32_t key : accounts.timeline.key) CHECK(key < static_cast<int32_t>(accounts.keys.size()));
  }
}

int main() { return opscope::tests::run_all(); }
