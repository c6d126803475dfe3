// Part of torch_bridge.cpp: spans as ranges that other tools show, in the words of torch's emit_nvtx.
#pragma once

#include <list>
#include <string>
#include <unordered_map>
#include <utility>

namespace opscope {
namespace {

// Which span made a tensor, and as which of its results, so that a reader of the ranges can follow data from
// span to span. Tensors are known by address alone, as in torch's emit_nvtx: a new tensor at the address of
// one that is gone is taken for it. [MT] under mutex().
class Producers {
 public:
  using Producer = std::pair<at::RecordFunctionHandle, int>;

  void add_outputs(const at::RecordFunction& fn) {
    std::lock_guard lock(mutex_);
    int number = 0;
    for (const c10::IValue& output : fn.outputs()) {
      if (output.isTensor() && output.toTensor().defined()) {
        by_tensor_[output.toTensor().unsafeGetTensorImpl()] = {fn.handle(), number};
      }
      ++number;
    }
  }

  std::list<Producer> of_inputs(const at::RecordFunction& fn) {
    std::lock_guard lock(mutex_);
    std::list<Producer> found;
    for (const c10::IValue& input : fn.inputs()) {
      const size_t before = found.size();
      if (input.isTensor()) {
        found.push_back(of(input.toTensor()));
      } else if (input.isList()) {
        for (const c10::IValue item : input.toList()) {
          if (item.isTensor()) found.push_back(of(item.toTensor()));
        }
      }
      if (found.size() == before) found.push_back(kNobody);
    }
    return found;
  }

  void forget() {
    std::lock_guard lock(mutex_);
    by_tensor_.clear();
  }

  std::mutex& mutex() { return mutex_; }  // for the fork handlers only

 private:
  static constexpr Producer kNobody = {0, -1};

  Producer of(const at::Tensor& tensor) const {
    const auto entry = by_tensor_.find(tensor.unsafeGetTensorImpl());
    return !tensor.defined() || entry == by_tensor_.end() ? kNobody : entry->second;
  }

  std::mutex mutex_;
  std::unordered_map<const void*, Producer> by_tensor_;
};

Producers& producers() {
  static auto* instance = new Producers;
  return *instance;
}

const RangeSink* range_sink = nullptr;  // set while no callback is registered
at::CallbackHandle range_handle = at::INVALID_CALLBACK_HANDLE;

template <bool kIds, bool kShapes>
std::string range_text(const at::RecordFunction& fn) {
  std::string text = fn.name();
  if (kIds && fn.seqNr() >= 0) text += ", seq = " + std::to_string(fn.seqNr());
  if (kIds && fn.handle() > 0) text += ", op_id = " + std::to_string(fn.handle());
  if constexpr (kShapes) {
    const auto shapes = torch::profiler::impl::inputSizes(fn, /*flatten_list_enabled=*/true);
    if (!shapes.empty()) text += ", sizes = " + torch::profiler::impl::shapesToStr(shapes);
    const auto made_by = kIds ? producers().of_inputs(fn) : std::list<Producers::Producer>();
    if (!made_by.empty()) text += ", input_op_ids = " + torch::profiler::impl::inputOpIdsToStr(made_by);
  }
  return text;
}

// May not throw: a tensor whose shape cannot be read must not end the program, and every push needs its pop.
template <bool kIds, bool kShapes>
std::unique_ptr<at::ObserverContext> begin_range(const at::RecordFunction& fn) {
  std::string text;
  try {
    text = range_text<kIds, kShapes>(fn);
  } catch (const std::exception&) {
    text = fn.name();
  }
  range_sink->push(text.c_str());
  return nullptr;
}

template <bool kIds, bool kShapes>
void end_range(const at::RecordFunction& fn, at::ObserverContext*) {
  range_sink->pop();
  if constexpr (kIds && kShapes) producers().add_outputs(fn);
}

template <bool kIds, bool kShapes>
at::CallbackHandle register_ranges() {
  at::RecordFunctionCallback callback(&begin_range<kIds, kShapes>, &end_range<kIds, kShapes>);
  callback.needsInputs(kShapes).needsOutputs(kIds && kShapes).needsIds(kIds);
  return at::addGlobalCallback(callback);
}

void emit_ranges(const RangeSink* sink, bool with_ids, bool with_shapes) {
  if (range_handle != at::INVALID_CALLBACK_HANDLE) at::removeCallback(range_handle);
  range_handle = at::INVALID_CALLBACK_HANDLE;
  producers().forget();
  if (sink == nullptr) return;
  range_sink = sink;
  if (with_ids) {
    range_handle = with_shapes ? register_ranges<true, true>() : register_ranges<true, false>();
  } else {
    range_handle = with_shapes ? register_ranges<false, true>() : register_ranges<false, false>();
  }
}

// torch carries Intel's own loader for it.
const RangeSink* itt_ranges() {
  using torch::profiler::impl::ittStubs;
  static const RangeSink sink = {[](const char* text) { ittStubs()->rangePush(text); },
                                 [] { ittStubs()->rangePop(); }};
  return ittStubs()->enabled() ? &sink : nullptr;
}

}  // namespace
}  // namespace opscope
