// Part of torch_bridge.cpp: recorded data of a tensor, in the format of payload.h.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/impl/SizesAndStrides.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>

#include "log/arena.h"
#include "log/payload.h"
#include "torch/torch_held_tensors.h"
#include "torch/torch_state.h"

namespace opscope {
namespace {

// TensorImpl::requires_grad() is a call into another library. Reading its member avoids the call for most
// tensors, which have no autograd metadata.
#if OPSCOPE_READS_PRIVATE
using AutogradMember = std::unique_ptr<c10::AutogradMetaInterface> c10::TensorImpl::*;
AutogradMember autograd_member();
template <AutogradMember kMember>
struct AutogradMemberOf {
  friend AutogradMember autograd_member() { return kMember; }
};
template struct AutogradMemberOf<&c10::TensorImpl::autograd_meta_>;

bool requires_grad(const c10::TensorImpl& impl) {
  const auto& autograd = impl.*autograd_member();
  return autograd != nullptr && autograd->requires_grad();
}
#else
bool requires_grad(const c10::TensorImpl& impl) { return impl.requires_grad(); }
#endif

// Reads the TensorImpl itself: a Python subclass may compute its sizes and device in code, which would run
// operators while one is being recorded.
struct PlainImpl : c10::TensorImpl {
  static bool has_sizes(const c10::TensorImpl& impl) {
    return !impl.is_python_dispatch() ||
           !(impl.*&PlainImpl::matches_python_custom)(SizesStridesPolicy::CustomStrides);
  }
  static c10::Device device(const c10::TensorImpl& impl) { return (impl.*&PlainImpl::device_default)(); }
  static c10::Layout layout(const c10::TensorImpl& impl) {
    if (!impl.is_python_dispatch()) [[likely]]
      return impl.layout();
    return impl.is_sparse() ? c10::kSparse : impl.is_mkldnn() ? c10::kMkldnn : c10::kStrided;
  }
  // Strided, with at most kOrdinaryDims sizes and strides, in TensorImpl's own members.
  static constexpr size_t kOrdinaryDims = 4;
  static bool is_ordinary(const c10::TensorImpl& impl) {
    constexpr auto kNotOrdinary = c10::python_ks | c10::DispatchKeySet(c10::DispatchKey::NestedTensor);
    return !impl.key_set().has_any(kNotOrdinary) && impl.layout() == c10::kStrided &&
           !(impl.*&PlainImpl::matches_policy)(SizesStridesPolicy::CustomStrides) &&
           shape(impl).size() <= kOrdinaryDims;
  }
  static const c10::impl::SizesAndStrides& shape(const c10::TensorImpl& impl) {
    return impl.*&PlainImpl::sizes_and_strides_;
  }
  // SizesAndStrides stores all of these inside itself.
  static_assert(kOrdinaryDims <= C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE);
};

// Symbolic and nested shapes have no plain numbers, and reading them (or the device) may run Python.
bool put_unsized_tensor(Arena& arena, const c10::TensorImpl* impl) {
  constexpr size_t kWords = 1 + kTensorAddresses + 1;
  uint64_t* word = arena.reserve(kWords);
  if (word == nullptr) return false;
  const uint8_t flags = kNoSizes | kNoVersion | (impl->requires_grad() ? kRequiresGrad : 0);
  const auto dtype = static_cast<int8_t>(c10::typeMetaToScalarType(impl->dtype()));
  word[0] = make_tag(Tag::kTensor, pack({dtype, 0, 0, -1, 0, flags}));
  word[1] = reinterpret_cast<uintptr_t>(impl);
  word[2] = word[3] = word[4] = 0;
  arena.advance(kWords);
  return true;
}

// Numbers of one tensor, read once: their width determines its size in the payload.
struct TensorNumbers {
  uint64_t offset;
  uint64_t version;
  c10::IntArrayRef sizes;
  c10::IntArrayRef strides;

  bool fit_32_bits() const {
    uint64_t bits = offset | version;
    for (const int64_t size : sizes) bits |= static_cast<uint64_t>(size);
    for (const int64_t stride : strides) bits |= static_cast<uint64_t>(stride);
    return bits <= UINT32_MAX;
  }

  template <typename Number>
  void write(uint64_t* words) const {
    write_number<Number>(words, 0, offset);
    write_number<Number>(words, 1, version);
    size_t at = 2;
    for (const int64_t size : sizes) write_number<Number>(words, at++, static_cast<uint64_t>(size));
    for (const int64_t stride : strides) write_number<Number>(words, at++, static_cast<uint64_t>(stride));
  }
};

[[gnu::always_inline]] inline uint8_t flags_of(const c10::TensorImpl& impl, bool has_version) {
  return static_cast<uint8_t>((requires_grad(impl) ? kRequiresGrad : 0) |
                              (impl.is_wrapped_number() ? kWrappedNumber : 0) |
                              (has_version ? 0 : kNoVersion));
}

// Tag and addresses.
[[gnu::always_inline]] inline void put_tensor_head(uint64_t* word, const c10::TensorImpl& impl,
                                                   c10::StorageImpl* storage, c10::Layout layout, size_t dim,
                                                   uint8_t flags) {
  const c10::Device device = PlainImpl::device(impl);
  word[0] = make_tag(Tag::kTensor, pack({static_cast<int8_t>(c10::typeMetaToScalarType(impl.dtype())),
                                         static_cast<uint8_t>(layout), static_cast<uint8_t>(device.type()),
                                         device.index(), static_cast<uint8_t>(dim), flags}));
  word[1] = reinterpret_cast<uintptr_t>(&impl);
  word[2] = reinterpret_cast<uintptr_t>(storage);
  // Skips the checks, which throw for a storage without memory (of a fake tensor).
  word[3] =
      storage == nullptr ? 0 : reinterpret_cast<uintptr_t>(storage->_mutable_data_ptr_no_checks().get());
}

bool put_any_tensor(Arena& arena, const c10::TensorImpl* impl) {
  if (impl->has_symbolic_sizes_strides() || impl->is_nested() || !PlainImpl::has_sizes(*impl)) {
    return put_unsized_tensor(arena, impl);
  }
  const c10::Layout layout = PlainImpl::layout(*impl);
  const bool has_strides = layout == c10::kStrided;
  const bool has_version = impl->version_counter().enabled();
  c10::StorageImpl* storage = impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl() : nullptr;
  TensorNumbers numbers = {storage == nullptr ? 0 : static_cast<uint64_t>(impl->storage_offset()),
                           has_version ? impl->version_counter().current_version() : 0, impl->sizes(),
                           has_strides ? impl->strides() : c10::IntArrayRef()};
  if (numbers.sizes.size() > UINT8_MAX) [[unlikely]] {
    numbers.sizes = numbers.sizes.slice(0, UINT8_MAX);
    if (has_strides) numbers.strides = numbers.strides.slice(0, UINT8_MAX);
  }
  const bool wide = !numbers.fit_32_bits();
  const auto flags = static_cast<uint8_t>(flags_of(*impl, has_version) | (has_strides ? kHasStrides : 0) |
                                          (wide ? kWide : 0));
  const size_t dim = numbers.sizes.size();
  const size_t count = 1 + kTensorAddresses + words_of_numbers(count_numbers(dim, flags), flags);
  uint64_t* word = arena.reserve(count);
  if (word == nullptr) return false;
  put_tensor_head(word, *impl, storage, layout, dim, flags);
  if (wide) {
    numbers.write<uint64_t>(word + 1 + kTensorAddresses);
  } else {
    numbers.write<uint32_t>(word + 1 + kTensorAddresses);
  }
  arena.advance(count);
  return true;
}

// Packs four numbers at a time.
using FourWide [[gnu::vector_size(32)]] = int64_t;
using FourNumbers [[gnu::vector_size(16)]] = uint32_t;
constexpr size_t kOrdinaryDims = PlainImpl::kOrdinaryDims;

constexpr size_t kOrdinaryTensorWords = 1 + kTensorAddresses + 1 + kOrdinaryDims;

// Writes an ordinary tensor; requires room for kOrdinaryTensorWords. Returns the end, or nullptr if a number
// has more than 32 bits.
//
// Copies all kOrdinaryDims sizes and strides without a loop over the used ones: a mispredicted branch costs
// more than the copy. Unused ones are arbitrary; the next entry overwrites them.
[[gnu::always_inline]] inline uint64_t* put_ordinary_tensor(uint64_t* word, const c10::TensorImpl& impl) {
  const c10::impl::SizesAndStrides& shape = PlainImpl::shape(impl);
  const size_t dim = shape.size();
  FourWide sizes, strides;
  std::memcpy(&sizes, shape.sizes_data(), sizeof(sizes));
  std::memcpy(&strides, shape.strides_data(), sizeof(strides));
  const bool has_version = impl.version_counter().enabled();
  const uint64_t version = has_version ? impl.version_counter().current_version() : 0;
  const auto offset = static_cast<uint64_t>(impl.storage_offset());
  uint64_t* const numbers = word + 1 + kTensorAddresses;
  numbers[0] = (offset & UINT32_MAX) | version << 32;
  const auto narrow_sizes = __builtin_convertvector(sizes, FourNumbers);
  const auto narrow_strides = __builtin_convertvector(strides, FourNumbers);
  std::memcpy(numbers + 1, &narrow_sizes, sizeof(narrow_sizes));
  std::memcpy(reinterpret_cast<char*>(numbers + 1) + dim * sizeof(uint32_t), &narrow_strides,
              sizeof(narrow_strides));
  const auto high = __builtin_convertvector((sizes | strides) >> FourWide{32, 32, 32, 32}, FourNumbers);
  const FourNumbers place = {0, 1, 2, 3};
  const auto count = static_cast<uint32_t>(dim);
  const auto used = reinterpret_cast<FourNumbers>(place < FourNumbers{count, count, count, count});
  uint64_t too_large[2];
  const FourNumbers high_in_use = high & used;
  std::memcpy(too_large, &high_in_use, sizeof(too_large));
  if ((too_large[0] | too_large[1] | (offset | version) >> 32) != 0) [[unlikely]]
    return nullptr;
  const auto flags = static_cast<uint8_t>(flags_of(impl, has_version) | kHasStrides);
  put_tensor_head(word, impl, impl.unsafe_storage().unsafeGetStorageImpl(), c10::kStrided, dim, flags);
  return numbers + 1 + dim;
}

// Writes an ordinary or undefined tensor. Returns the end, or nullptr for others.
uint64_t* put_usual_tensor(uint64_t* word, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    word[0] = make_tag(Tag::kUndefined);
    return word + 1;
  }
  c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  if (hot.holding.load(std::memory_order_relaxed)) [[unlikely]]
    HeldTensors::this_thread().hold(impl);
  return PlainImpl::is_ordinary(*impl) ? put_ordinary_tensor(word, *impl) : nullptr;
}

bool put_tensor(Arena& arena, const at::Tensor& tensor) {
  uint64_t* const word = arena.reserve(kOrdinaryTensorWords);
  if (word == nullptr) return false;
  uint64_t* const end = put_usual_tensor(word, tensor);
  if (end == nullptr) [[unlikely]]
    return put_any_tensor(arena, tensor.unsafeGetTensorImpl());
  arena.advance_to(end);
  return true;
}

}  // namespace
}  // namespace opscope
