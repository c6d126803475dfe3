// The data flow graph: what operators read, changed, made and freed, version by version.
//
// Nodes are the outermost operators that have a schema or belong to the backward pass, and the
// allocations outside of those. What happens inside a node counts for the node.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/tensor_keys.h"

namespace opscope::memory {

// Decided in Python per signature (analysis/memory/categories.py).
using Access = ArgumentAccess;

struct SignatureAccess {
  ColumnView<int32_t> of_event;  // -1 for what is neither operator nor annotation
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
  std::vector<int32_t> node;  // of the tree: a row of events, or of allocations after those
  std::vector<uint8_t> in_backward;
  std::vector<int64_t> edge_offsets;     // edges of node i are [edge_offsets[i], edge_offsets[i + 1])
  FlowEdges edges;                       // those of a node in order of key
  std::vector<int64_t> version_offsets;  // version v of key k is number version_offsets[k] + v
};

// Rows of `tensors` that are inputs of an operator. Shape (tensors,).
std::vector<uint8_t> find_inputs(const Tables& tables, const SignatureAccess& signatures);

DataFlow trace_flow(const Tables& tables, const TreeOrder& tree, const SignatureAccess& signatures,
                    const TensorKeys& keys);

}  // namespace opscope::memory
