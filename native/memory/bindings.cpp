// Python bindings of memory accounts: two steps, with a query of torch's schemas in between.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>
#include <vector>

#include "interpreter/without_gil.h"
#include "memory/accounts.h"
#include "numpy/from_numpy.h"
#include "numpy/to_numpy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace opscope {
namespace memory {
namespace {

using opscope::to_array;

nb::object to_array(const std::vector<Category>& column) {
  return to_array(std::vector<uint8_t>(reinterpret_cast<const uint8_t*>(column.data()),
                                       reinterpret_cast<const uint8_t*>(column.data()) + column.size()));
}

nb::tuple operator_signatures(nb::dict arrays) {
  const NumpyColumns columns(std::move(arrays));
  const Tables tables(columns);
  Signatures signatures;
  {
    const WithoutGil without_gil;
    signatures = read_signatures(tables);
  }
  return nb::make_tuple(to_array(std::move(signatures.of_event)), to_array(std::move(signatures.name)),
                        signatures.kinds);
}

SignatureAccess input_access(const NumpyColumns& columns, size_t events) {
  const size_t signatures = columns.any<uint8_t>("signatures.has_schema").size;
  const auto access = columns.any<uint8_t>("signatures.access");
  columns.get<int64_t>("signatures.offsets", signatures + 1);  // required here
  return {columns.indices<int32_t>("signatures.of_event", events, signatures, -1),
          columns.get<uint8_t>("signatures.has_schema", signatures),
          columns.rows("signatures.offsets", signatures, access.size).offsets, access};
}

struct Accounts {
  TreeOrder tree;
  TensorKeys keys;
  DataFlow flow;
  Categories categories;
  Timeline timeline;
};

Accounts compute(const Tables& tables, const SignatureAccess& access, const ColumnView<int64_t>& item_bytes,
                 const GradientNames& names) {
  Accounts result;
  result.tree = order_tree(tables);
  result.keys = number_keys(tables, find_inputs(tables, access));
  measure_keys(tables, result.tree, item_bytes, result.keys);
  result.flow = trace_flow(tables, result.tree, access, result.keys);
  result.categories = categorize(tables, result.tree, result.keys, result.flow, names);
  result.timeline = build_timeline(tables, result.tree, result.keys, result.flow, result.categories);
  return result;
}

nb::dict keys_of(TensorKeys&& keys) {
  nb::dict result;
  result["tensor_id"] = to_array(std::move(keys.tensor_id));
  result["allocation_id"] = to_array(std::move(keys.allocation_id));
  result["device_type"] = to_array(std::move(keys.device_type));
  result["device_index"] = to_array(std::move(keys.device_index));
  result["size_bytes"] = to_array(std::move(keys.size_bytes));
  result["tensor"] = to_array(std::move(keys.tensor));
  result["of_tensor"] = to_array(std::move(keys.of_tensor));
  result["of_allocation"] = to_array(std::move(keys.of_allocation));
  result["of_parameter"] = to_array(std::move(keys.of_parameter));
  return result;
}

nb::dict categories_of(Categories&& categories, std::vector<int64_t>&& version_offsets) {
  nb::dict result;
  result["of_tensor"] = to_array(categories.of_tensor);
  result["of_key"] = to_array(categories.of_key);
  result["of_version"] = to_array(categories.of_version);
  result["labelled"] = to_array(std::move(categories.labelled));
  result["version_offsets"] = to_array(std::move(version_offsets));
  return result;
}

nb::dict timeline_of(Timeline&& timeline) {
  nb::dict result;
  result["time_ns"] = to_array(std::move(timeline.time_ns));
  result["action"] = to_array(std::move(timeline.action));
  result["key"] = to_array(std::move(timeline.key));
  result["version"] = to_array(std::move(timeline.version));
  result["size_bytes"] = to_array(std::move(timeline.size_bytes));
  result["device_type"] = to_array(std::move(timeline.device_type));
  result["device_index"] = to_array(std::move(timeline.device_index));
  return result;
}

nb::dict memory_accounts(nb::dict arrays, int32_t accumulate, int32_t detach, int32_t add) {
  const NumpyColumns columns(std::move(arrays));
  const Tables tables(columns);
  const SignatureAccess access = input_access(columns, tables.events.size());
  const ColumnView<int64_t> item_bytes = columns.any<int64_t>("item_bytes");
  Accounts accounts;
  {
    const WithoutGil without_gil;
    accounts = compute(tables, access, item_bytes, {accumulate, detach, add});
  }
  nb::dict result;
  result["keys"] = keys_of(std::move(accounts.keys));
  result["categories"] =
      categories_of(std::move(accounts.categories), std::move(accounts.flow.version_offsets));
  result["timeline"] = timeline_of(std::move(accounts.timeline));
  return result;
}

}  // namespace
}  // namespace memory

void bind_memory(nb::module_& m) {
  m.def("operator_signatures", &memory::operator_signatures, "columns"_a);
  m.def("memory_accounts", &memory::memory_accounts, "columns"_a, nb::kw_only(), "accumulate"_a, "detach"_a,
        "add"_a);
}

}  // namespace opscope
