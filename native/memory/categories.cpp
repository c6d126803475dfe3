#include <algorithm>

#include "memory/accounts.h"

namespace opscope::memory {

namespace {

using Flags = std::vector<uint8_t>;

class Categorizer {
 public:
  Categorizer(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys, const DataFlow& flow,
              const GradientNames& names)
      : tables_(tables), tree_(tree), keys_(keys), flow_(flow), names_(names) {
    result_.of_tensor.assign(keys.tensor_count(), Category::kUnknown);
    result_.of_key.assign(keys.size(), Category::kUnknown);
    result_.of_version.assign(static_cast<size_t>(flow.version_offsets.back()), Category::kUnknown);
    result_.labelled.assign(keys.size(), 0);
  }

  // Each step uses the results of those before it.
  Categories run() {
    label_accumulated_gradients();
    label_held(ParameterRole::kGradient, Category::kGradient);
    label_temporaries();
    label_held(ParameterRole::kParameter, Category::kParameter);
    const Flags depends = find_dependent_on_gradients();
    label_inputs(depends);
    label_parameters(depends);
    label_activations();
    label_held(ParameterRole::kOptimizerState, Category::kOptimizerState);
    label_autograd_detail();
    return std::move(result_);
  }

 private:
  size_t tensor_of(size_t edge) const {
    return static_cast<size_t>(keys_.tensor[static_cast<size_t>(flow_.edges.key[edge])]);
  }
  int64_t version(size_t edge, int32_t number) const {
    return flow_.version_offsets[static_cast<size_t>(flow_.edges.key[edge])] + number;
  }
  size_t input(size_t edge) const {
    return static_cast<size_t>(version(edge, flow_.edges.input_version[edge]));
  }
  size_t output(size_t edge) const {
    return static_cast<size_t>(version(edge, flow_.edges.output_version(edge)));
  }
  Category category(size_t edge, size_t version) const {
    return result_.get(keys_, flow_.edges.key[edge], static_cast<int64_t>(version));
  }
  Category category_of_tensor(size_t edge) const { return result_.of_tensor[tensor_of(edge)]; }
  bool is_learned(size_t edge) const {
    const Category category = category_of_tensor(edge);
    return category == Category::kGradient || category == Category::kParameter;
  }

  template <typename Function>  // (edge) for the inputs of a node
  void for_inputs(size_t node, Function function) const {
    for_edges(node, [&](size_t edge) {
      if (flow_.edges.is_input(edge)) function(edge);
    });
  }
  template <typename Function>
  void for_outputs(size_t node, Function function) const {
    for_edges(node, [&](size_t edge) {
      if (flow_.edges.is_output(edge)) function(edge);
    });
  }
  template <typename Function>
  void for_edges(size_t node, Function function) const {
    const auto end = static_cast<size_t>(flow_.edge_offsets[node + 1]);
    for (auto edge = static_cast<size_t>(flow_.edge_offsets[node]); edge < end; ++edge) function(edge);
  }
  size_t nodes() const { return flow_.node.size(); }

  void label(int32_t key, Category category) {
    result_.of_tensor[static_cast<size_t>(keys_.tensor[static_cast<size_t>(key)])] = category;
    result_.labelled[static_cast<size_t>(key)] = 1;
  }

  void label_held(uint8_t role, Category category) {
    for (size_t row = 0; row < keys_.of_parameter.size(); ++row) {
      const int32_t key = keys_.of_parameter[row];
      if (key != kUnknown && tables_.parameters.role[row] == role) label(key, category);
    }
  }

  // AccumulateGrad takes the first gradient of a parameter as it is (detach) and adds later ones to
  // it (add_); either way the first argument is the gradient.
  void label_accumulated_gradients() {
    Flags keeps_gradient(tables_.events.size(), 0);
    for (size_t i = 0; i + 1 < tree_.preorder.size(); ++i) {
      const int32_t event = tree_.preorder[i];
      const int32_t first = tree_.preorder[i + 1];
      if (!is_event(event) || !is_event(first) || tree_.parent[static_cast<size_t>(first)] != event) continue;
      const Events& events = tables_.events;
      const int32_t child = events.name[static_cast<size_t>(first)];
      keeps_gradient[static_cast<size_t>(first)] =
          events.name[static_cast<size_t>(event)] == names_.accumulate && names_.accumulate >= 0 &&
          events.scope[static_cast<size_t>(event)] == RecordScope::kBackwardFunction && child >= 0 &&
          (child == names_.detach || child == names_.add);
    }
    const Tensors& tensors = tables_.tensors;
    for (size_t row = 0; row < tensors.size(); ++row) {
      const int32_t key = keys_.of_tensor[row];
      if (key == kUnknown || tensors.argument[row] != 0 || tensors.element[row] >= 0) continue;
      if (keeps_gradient[static_cast<size_t>(tensors.event[row])] != 0) label(key, Category::kGradient);
    }
  }
  bool is_event(int32_t node) const { return static_cast<size_t>(node) < tables_.events.size(); }

  void label_temporaries() {
    for (size_t edge = 0; edge < flow_.edges.size(); ++edge) {
      if (!flow_.edges.is_intermediate(edge)) continue;
      result_.of_key[static_cast<size_t>(flow_.edges.key[edge])] = Category::kTemporary;
    }
  }

  // Tensors with a version that is computed, directly or not, from a gradient or a parameter. The first step
  // of a loop shows only a part of this, so repeats until nothing is added.
  Flags find_dependent_on_gradients() const {
    Flags depends(keys_.tensor_count(), 0);
    bool grew = true;
    const auto add = [&](size_t edge) {
      grew |= depends[tensor_of(edge)] == 0;
      depends[tensor_of(edge)] = 1;
    };
    while (grew) {
      grew = false;
      for (size_t node = 0; node < nodes(); ++node) {
        bool found = false;
        for_inputs(node, [&](size_t edge) {
          if (!is_learned(edge) && depends[tensor_of(edge)] == 0) return;
          found = true;
          add(edge);
        });
        if (found) for_outputs(node, add);
      }
    }
    return depends;
  }

  // Inputs: tensors that gradients or parameters are computed from and that do not depend on a gradient.
  // Tensors of the backward pass are autograd's own.
  void label_inputs(const Flags& depends) {
    Flags contributes(result_.of_version.size(), 0);
    for (size_t node = nodes(); node-- > 0;) {
      bool found = false;
      for_inputs(node, [&](size_t edge) { found |= is_learned(edge) || contributes[input(edge)] != 0; });
      for_outputs(node, [&](size_t edge) { found |= is_learned(edge) || contributes[output(edge)] != 0; });
      if (!found) continue;
      for_inputs(node, [&](size_t edge) { contributes[input(edge)] = 1; });
      for_outputs(node, [&](size_t edge) { contributes[output(edge)] = 1; });
    }
    for (size_t node = 0; node < nodes(); ++node) {
      if (flow_.in_backward[node] == 0) continue;
      for_outputs(node, [&](size_t edge) { contributes[output(edge)] = 0; });
    }
    for (size_t key = 0; key < keys_.size(); ++key) {
      if (depends[static_cast<size_t>(keys_.tensor[key])] != 0) continue;
      const auto end = static_cast<size_t>(flow_.version_offsets[key + 1]);
      for (auto at = static_cast<size_t>(flow_.version_offsets[key]); at < end; ++at) {
        if (contributes[at] != 0) result_.of_version[at] = Category::kInput;
      }
    }
  }

  // For programs without recorded modules and optimizers: a parameter is used together with inputs in the
  // forward pass, contributes to a gradient, and (through the optimizer's step) depends on one.
  void label_parameters(const Flags& depends) {
    const Flags candidates = find_candidates();
    const Flags used = find_used_for_gradients();
    Flags is_parameter(keys_.tensor_count(), 0);
    for (size_t key = 0; key < keys_.size(); ++key) {
      const auto tensor = static_cast<size_t>(keys_.tensor[key]);
      const auto end = static_cast<size_t>(flow_.version_offsets[key + 1]);
      for (auto at = static_cast<size_t>(flow_.version_offsets[key]); at < end; ++at) {
        if (candidates[at] != 0 && used[at] != 0 && depends[tensor] != 0) is_parameter[tensor] = 1;
      }
    }
    const Flags known = known_versions(flow_, result_.labelled);
    for (size_t key = 0; key < keys_.size(); ++key) {
      if (is_parameter[static_cast<size_t>(keys_.tensor[key])] == 0) continue;
      const auto first = known.begin() + flow_.version_offsets[key];
      const auto last = known.begin() + flow_.version_offsets[key + 1];
      if (std::any_of(first, last, [](uint8_t seen) { return seen != 0; })) {
        label(static_cast<int32_t>(key), Category::kParameter);
      }
    }
  }

  Flags find_candidates() const {
    Flags forward(result_.of_version.size(), 0);
    Flags candidates(result_.of_version.size(), 0);
    for (size_t edge = 0; edge < flow_.edges.size(); ++edge) {
      if (flow_.edges.is_input(edge)) forward[input(edge)] = category(edge, input(edge)) == Category::kInput;
      if (flow_.edges.is_output(edge))
        forward[output(edge)] = category(edge, output(edge)) == Category::kInput;
    }
    for (size_t node = 0; node < nodes(); ++node) {
      bool uses_input = false;
      bool uses_gradient = flow_.in_backward[node] != 0;
      const auto look = [&](size_t edge) {
        uses_gradient |= category_of_tensor(edge) == Category::kGradient;
      };
      for_inputs(node, look);
      for_outputs(node, look);
      for_inputs(node, [&](size_t edge) { uses_input |= forward[input(edge)] != 0; });
      if (uses_gradient || !uses_input) continue;
      for_outputs(node, [&](size_t edge) { forward[output(edge)] = 1; });
      for_inputs(node, [&](size_t edge) { candidates[input(edge)] |= forward[input(edge)] == 0; });
    }
    return candidates;
  }

  Flags find_used_for_gradients() const {
    Flags used(result_.of_version.size(), 0);
    for (size_t node = nodes(); node-- > 0;) {
      bool found = false;
      for_outputs(node, [&](size_t edge) {
        found |= category_of_tensor(edge) == Category::kGradient || used[output(edge)] != 0;
      });
      if (found) for_inputs(node, [&](size_t edge) { used[input(edge)] = 1; });
    }
    return used;
  }

  // Activations: computed by the forward pass from inputs or activations, and otherwise only from parameters
  // and temporaries.
  void label_activations() {
    for (size_t node = 0; node < nodes(); ++node) {
      bool from_input = false;
      bool from_other = flow_.in_backward[node] != 0;
      for_inputs(node, [&](size_t edge) {
        const Category of_input = category(edge, input(edge));
        const bool required = of_input == Category::kInput || of_input == Category::kActivation;
        from_input |= required;
        from_other |= !required && of_input != Category::kParameter && of_input != Category::kTemporary;
      });
      if (!from_input || from_other) continue;
      for_outputs(node, [&](size_t edge) { label_version(output(edge), Category::kActivation); });
    }
  }

  void label_autograd_detail() {
    for (size_t node = 0; node < nodes(); ++node) {
      if (flow_.in_backward[node] == 0) continue;
      for_outputs(node, [&](size_t edge) {
        const bool is_first = flow_.edges.output_version(edge) == 0;
        const Category before = is_first ? Category::kUnknown : category(edge, output(edge) - 1);
        if (before == Category::kUnknown || before == Category::kAutogradDetail) {
          label_version(output(edge), Category::kAutogradDetail);
        }
      });
    }
  }

  void label_version(size_t version, Category category) {
    if (result_.of_version[version] == Category::kUnknown) result_.of_version[version] = category;
  }

  const Tables& tables_;
  const TreeOrder& tree_;
  const TensorKeys& keys_;
  const DataFlow& flow_;
  const GradientNames& names_;
  Categories result_;
};

}  // namespace

Categories categorize(const Tables& tables, const TreeOrder& tree, const TensorKeys& keys,
                      const DataFlow& flow, const GradientNames& names) {
  return Categorizer(tables, tree, keys, flow, names).run();
}

std::vector<uint8_t> known_versions(const DataFlow& flow, const std::vector<uint8_t>& labelled) {
  std::vector<uint8_t> known(static_cast<size_t>(flow.version_offsets.back()), 0);
  const FlowEdges& edges = flow.edges;
  for (size_t edge = 0; edge < edges.size(); ++edge) {
    const int64_t first = flow.version_offsets[static_cast<size_t>(edges.key[edge])];
    if (edges.is_input(edge)) known[static_cast<size_t>(first + edges.input_version[edge])] = 1;
    if (edges.is_intermediate(edge)) known[static_cast<size_t>(first)] = 1;
    if (edges.is_output(edge)) known[static_cast<size_t>(first + edges.output_version(edge))] = 1;
  }
  for (size_t key = 0; key < labelled.size(); ++key) {
    if (labelled[key] != 0) known[static_cast<size_t>(flow.version_offsets[key])] = 1;
  }
  return known;
}

}  // namespace opscope::memory
