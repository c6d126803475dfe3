// Memory accounts of inconsistent recordings, under sanitizers. Python tests check correct ones.
#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "memory/accounts.h"
#include "vector_columns.h"

using namespace opscope;
using namespace opscope::tests;
using namespace opscope::memory;

namespace {

template <typename T>
ColumnView<T> view(const std::vector<T>& column) {
  return {column.data(), 1, column.size()};
}

struct Accounts {
  Signatures signatures;
  TensorKeys keys;
  DataFlow flow;
  Categories categories;
  Timeline timeline;
};

// `access`: of every argument of every operator; -1 for an operator without a schema.
Accounts account(const VectorColumns& columns, const std::vector<int>& access_of_name) {
  Accounts result;
  const Tables tables(columns);
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
  const SignatureAccess signatures{view(result.signatures.of_event), view(has_schema), view(offsets),
                                   view(access)};
  const std::vector<int64_t> item_bytes(8, 4);
  const TreeOrder tree = order_tree(tables);
  result.keys = number_keys(tables, find_inputs(tables, signatures));
  measure_keys(tables, tree, view(item_bytes), result.keys);
  result.flow = trace_flow(tables, tree, signatures, result.keys);
  result.categories = categorize(tables, tree, result.keys, result.flow, {});
  result.timeline = build_timeline(tables, tree, result.keys, result.flow, result.categories);
  return result;
}

// A column of this many rows with values from `make`.
template <typename T, typename Make>
void set(VectorColumns& columns, const std::string& name, int64_t rows, Make make) {
  std::vector<T> values;
  for (int64_t row = 0; row < rows; ++row) values.push_back(static_cast<T>(make()));
  columns.set(name, values);
}

}  // namespace

TEST(an_empty_recording_has_empty_accounts) {
  const Accounts accounts = account({}, {});
  CHECK_SAME(accounts.flow.node.size(), 0);
  CHECK_SAME(accounts.timeline.time_ns.size(), 0);
}

TEST(recordings_that_make_no_sense_are_survived) {
  std::mt19937_64 random(1);
  const auto any = [&](int64_t low, int64_t high) {
    return [&random, low, high] { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  };
  const auto extreme = [&] { return any(0, 9)() == 0 ? any(INT64_MIN, INT64_MAX)() : any(-2, 6)(); };
  for (int round = 0; round < 3000; ++round) {
    VectorColumns columns;
    const int64_t events = any(0, 20)();
    set<int32_t>(columns, "events.parent", events, any(-2, events + 2));
    set<int32_t>(columns, "events.name", events, any(0, 4));
    set<int64_t>(columns, "events.start_ns", events, extreme);
    set<uint8_t>(columns, "events.kind", events, any(0, 3));
    set<uint8_t>(columns, "events.scope", events, any(0, 2));
    const int64_t tensors = events == 0 ? 0 : any(0, 30)();
    set<int32_t>(columns, "tensors.event", tensors, any(0, std::max<int64_t>(events - 1, 0)));
    set<int32_t>(columns, "tensors.element", tensors, any(-1, 2));
    set<int16_t>(columns, "tensors.argument", tensors, any(-2, 5));
    set<uint8_t>(columns, "tensors.role", tensors, any(0, 3));
    set<int8_t>(columns, "tensors.dtype", tensors, any(-128, 127));
    set<int8_t>(columns, "tensors.layout", tensors, any(-1, 1));
    for (const char* name : {"tensors.sizes", "tensors.strides"}) {
      int64_t offset = -2;
      set<int64_t>(columns, name + std::string(".offsets"), tensors + 1, [&] { return offset += 2; });
      set<int64_t>(columns, name + std::string(".values"), 2 * tensors, extreme);
    }
    const int64_t scalars = events == 0 ? 0 : any(0, 5)();
    set<int32_t>(columns, "scalars.event", scalars, any(0, std::max<int64_t>(events - 1, 0)));
    set<int16_t>(columns, "scalars.argument", scalars, any(-2, 5));
    set<uint8_t>(columns, "scalars.role", scalars, any(0, 3));
    set<uint8_t>(columns, "scalars.type", scalars, any(0, 255));
    const int64_t allocations = any(0, 20)();
    set<int32_t>(columns, "allocations.event", allocations, any(-2, events + 2));
    set<int64_t>(columns, "allocations.time_ns", allocations, extreme);
    set<int64_t>(columns, "allocations.size_bytes", allocations, extreme);
    set<uint64_t>(columns, "allocations.address", allocations, any(0, 3));
    set<uint8_t>(columns, "allocations.action", allocations, any(0, 3));
    for (const auto& [table, rows] : {std::pair("tensors", tensors), std::pair("allocations", allocations)}) {
      const std::string prefix = std::string(table) + ".";
      set<int64_t>(columns, prefix + "tensor_id", rows, extreme);
      set<int64_t>(columns, prefix + "allocation_id", rows, extreme);
      set<int8_t>(columns, prefix + "device_type", rows, any(0, 1));
      set<int8_t>(columns, prefix + "device_index", rows, any(-1, 1));
    }
    const Accounts accounts = account(columns, {0, 1, -1, 3, 0});
    CHECK_SAME(accounts.categories.of_version.size(),
               static_cast<size_t>(accounts.flow.version_offsets.back()));
    for (const int32_t key : accounts.timeline.key) CHECK(key < static_cast<int32_t>(accounts.keys.size()));
  }
}

int main() { return opscope::tests::run_all(); }
