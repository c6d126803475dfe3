// Memory accounts: the input, and the result of each stage.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "numpy/column_source.h"
#include "schema/codes.h"

namespace opscope::memory {

// Identity of a memory block: columns that tensors, parameters and allocations share.
struct Identity : TableColumns {
  using TableColumns::TableColumns;

  ColumnView<int64_t> tensor_id = column("tensor_id"), allocation_id = column("allocation_id");
  ColumnView<int8_t> device_type = column("device_type"), device_index = column("device_index");

  bool known(size_t row) const { return tensor_id[row] >= 0 && allocation_id[row] >= 0; }
};

struct Shapes : TableColumns {
  using TableColumns::TableColumns;

  ColumnView<int8_t> dtype = column("dtype"), layout = column("layout");
  ListView sizes = column("sizes"), strides = column("strides");
};

struct Events : TableColumns {
  explicit Events(const ColumnSource& from)
      : TableColumns(from, "events", from.any<int64_t>("events.start_ns").size) {}

  ColumnView<int32_t> parent = column("parent"), name = column("name");
  ColumnView<int64_t> start_ns = column("start_ns");
  ColumnView<uint8_t> kind = column("kind"), scope = column("scope");
};

struct Tensors : TableColumns {
  Tensors(const ColumnSource& from, size_t events)
      : TableColumns(from, "tensors", from.any<int32_t>("tensors.event").size),
        event(indices<int32_t>("event", events)),
        identity(from, "tensors", size()),
        shapes(from, "tensors", size()) {}

  ColumnView<int32_t> event, element = column("element");
  ColumnView<int16_t> argument = column("argument");
  ColumnView<uint8_t> role = column("role");
  Identity identity;
  Shapes shapes;
};

struct Scalars : TableColumns {
  Scalars(const ColumnSource& from, size_t events)
      : TableColumns(from, "scalars", from.any<int32_t>("scalars.event").size),
        event(indices<int32_t>("event", events)) {}

  ColumnView<int32_t> event;
  ColumnView<int16_t> argument = column("argument");
  ColumnView<uint8_t> role = column("role"), type = column("type");
};

struct Allocations : TableColumns {
  explicit Allocations(const ColumnSource& from)
      : TableColumns(from, "allocations", from.any<int64_t>("allocations.time_ns").size),
        identity(from, "allocations", size()) {}

  ColumnView<int32_t> event = column("event");
  ColumnView<int64_t> time_ns = column("time_ns"), size_bytes = column("size_bytes");
  ColumnView<uint64_t> address = column("address");
  ColumnView<uint8_t> action = column("action");
  Identity identity;
};

struct Parameters : TableColumns {
  explicit Parameters(const ColumnSource& from)
      : TableColumns(from, "parameters", from.any<uint8_t>("parameters.role").size),
        identity(from, "parameters", size()),
        shapes(from, "parameters", size()) {}

  ColumnView<uint8_t> role = column("role");  // ParameterRole
  Identity identity;
  Shapes shapes;
};

struct Tables {
  explicit Tables(const ColumnSource& from)
      : events(from),
        tensors(from, events.size()),
        scalars(from, events.size()),
        allocations(from),
        parameters(from) {}

  Events events;
  Tensors tensors;
  Scalars scalars;
  Allocations allocations;
  Parameters parameters;
};

// Absolute value; the most negative number becomes the largest.
inline int64_t magnitude(int64_t bytes) {
  if (bytes >= 0) return bytes;
  return bytes == INT64_MIN ? INT64_MAX : -bytes;
}

// Signatures: an operator's name and the kinds of its arguments. A program uses a few hundred, however long
// it runs, so schemas are looked up once per signature.
struct Signatures {
  std::vector<int32_t> of_event;   // row below; -1 for events that are neither operator nor annotation
  std::vector<int32_t> name;       // row in names
  std::vector<std::string> kinds;  // a letter of ArgumentKind per position
};

Signatures read_signatures(const Tables& tables);

// The call tree of events and allocations, walked depth first.

// Nodes are the rows of events, then those of allocations.
struct TreeOrder {
  std::vector<int32_t> preorder;  // parents before children, children in order of time
  std::vector<int32_t> position;  // of every node in preorder; -1 if no root leads to it
  std::vector<int32_t> end;       // a node's subtree is preorder[position, end)
  std::vector<int32_t> parent;    // -1 for roots
  std::vector<int64_t> time_ns;
};

TreeOrder order_tree(const Tables& tables);

// Which block of memory every tensor, parameter and allocation is: one number per (tensor id,
// allocation id, device), in that order.
constexpr int32_t kUnknown = -1;

struct TensorKeys {
  // Per key.
  std::vector<int64_t> tensor_id, allocation_id;
  std::vector<int8_t> device_type, device_index;
  std::vector<int32_t> tensor;      // number of its tensor id without gaps
  std::vector<int64_t> size_bytes;  // see measure_keys
  // Per row: its key, or kUnknown.
  std::vector<int32_t> of_tensor, of_allocation, of_parameter;

  size_t size() const { return tensor_id.size(); }
  size_t tensor_count() const { return tensor.empty() ? 0 : static_cast<size_t>(tensor.back()) + 1; }
};

// `is_input`: rows of tensors that count, see data_flow.h.
TensorKeys number_keys(const Tables& tables, const std::vector<uint8_t>& is_input);

// A block has the size of its allocation or, if that was not recorded, of its largest tensor. `item_bytes` is
// by dtype.
void measure_keys(const Tables& tables, const TreeOrder& tree, const ColumnView<int64_t>& item_bytes,
                  TensorKeys& keys);

// The data flow graph: versions that operators read, change, make and free.
//
// Nodes are the outermost operators that have a schema or belong to the backward pass, and the allocations
// outside of those. Events inside a node count for the node.

// Decided in Python per signature (analysis/memory/categories.py).
using Access = ArgumentAccess;

struct SignatureAccess {
  ColumnView<int32_t> of_event;  // -1 for events that are neither operator nor annotation
  ColumnView<uint8_t> has_schema;
  ColumnView<int64_t> offsets;  // signature i has access[offsets[i], offsets[i + 1])
  ColumnView<uint8_t> access;

  Access of(int32_t event, int16_t argument) const;
  bool is_operator(int32_t event) const { return of_event[static_cast<size_t>(event)] >= 0; }
};

struct FlowEdges {
  std::vector<int32_t> key;
  std::vector<int32_t> input_version;  // -1: allocated by the node
  std::vector<uint8_t> mutated, deleted;

  size_t size() const { return key.size(); }
  bool is_allocation(size_t edge) const { return input_version[edge] < 0; }
  bool is_input(size_t edge) const { return !is_allocation(edge); }
  bool is_output(size_t edge) const {
    return (is_allocation(edge) && deleted[edge] == 0) || (mutated[edge] != 0 && deleted[edge] == 0);
  }
  bool is_intermediate(size_t edge) const { return is_allocation(edge) && deleted[edge] != 0; }
  int32_t output_version(size_t edge) const { return input_version[edge] + 1; }
};

struct DataFlow {
  std::vector<int32_t> node;  // of the tree: a row of events; allocations come after events
  std::vector<uint8_t> in_backward;
  std::vector<int64_t> edge_offsets;     // edges of node i are [edge_offsets[i], edge_offsets[i + 1])
  FlowEdges edges;                       // edges of a node are in order of key
  std::vector<int64_t> version_offsets;  // version v of key k is number version_offsets[k] + v
};

// Rows of `tensors` that are inputs of an operator. Shape (tensors,).
std::vector<uint8_t> find_inputs(const Tables& tables, const SignatureAccess& signatures);

DataFlow trace_flow(const Tables& tables, const TreeOrder& tree, const SignatureAccess& signatures,
                    const TensorKeys& keys);

// Category of every version of every block, by torch's rules.
using Category = MemoryCategory;

// A tensor's category applies to all its blocks, a block's to all its versions.
struct Categories {
  std::vector<Category> of_tensor;  // by TensorKeys::tensor
  std::vector<Category> of_key;
  std::vector<Category> of_version;  // by DataFlow::version_offsets
  std::vector<uint8_t> labelled;     // keys that gave a tensor its category

  Category get(const TensorKeys& keys, int32_t key, int64_t version) const {
    const Category tensor = of_tensor[static_cast<size_t>(keys.tensor[static_cast<size_t>(key)])];
    if (tensor != Category::kUnknown) return tensor;
    const Category whole = of_key[static_cast<size_t>(key)];
    return whole != Category::kUnknown ? whole : of_version[static_cast<size_t>(version)];
  }
};

// Names of the autograd node that stores a gradient, and of the operators it may begin with: rows in names,
// -1 if not called.
struct GradientNames {
  int32_t accumulate = -1;
  int32_t detach = -1;
  int32_t add = -1;
};

Categories categorize(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys,
                      const DataFlow& flow, const GradientNames& names);

// Versions that the data flow graph or a label contains. Shape (versions,).
std::vector<uint8_t> known_versions(const DataFlow& flow, const std::vector<uint8_t>& labelled);

// Actions on every block of memory, in order of time, as in torch's memory profiler.
using Action = MemoryAction;

constexpr int64_t kBeforeRecording = -1;

struct Timeline {
  std::vector<int64_t> time_ns;  // kBeforeRecording for earlier blocks
  std::vector<uint8_t> action;
  std::vector<int32_t> key;  // kUnknown: a block without recorded tensor
  std::vector<int32_t> version;
  std::vector<int64_t> size_bytes;
  std::vector<int8_t> device_type, device_index;
};

Timeline build_timeline(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys,
                        const DataFlow& flow, const Categories& categories);

}  // namespace opscope::memory
