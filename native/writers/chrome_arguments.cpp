#include "writers/chrome_arguments.h"

#include <span>
#include <string_view>

#include "schema/codes.h"

namespace opscope::writers {
void ArgumentWriter::write(TextBuffer& out, size_t event) {
  collect(event);
  if (arguments_.empty()) return;
  const auto each = [&](auto&& write_one) {
    for (size_t i = 0; i < arguments_.size(); ++i) {
      if (i != 0) out.put(',');
      write_one(arguments_[i]);
    }
  };
  out.put(",\"Concrete Inputs\":[");
  each([&](const Argument& a) { write_value(out, a); });
  out.put("],\"Input type\":[");
  each([&](const Argument& a) { write_type(out, a); });
  out.put("],\"Input Strides\":[");
  each([&](const Argument& a) { write_lists(out, a, tensors_.strides); });
  out.put("],\"Input Dims\":[");
  each([&](const Argument& a) { write_lists(out, a, tensors_.sizes); });
  out.put(']');
}

void ArgumentWriter::collect(size_t event) {
  arguments_.clear();
  const auto scalars = scalars_.rows[event];
  for (size_t row = scalars.begin; row < scalars.end; ++row) {
    if (scalars_.role[row] != Role::kInput) continue;
    place(scalars_.argument[row], {Argument::kScalar, row, row + 1});
  }
  const auto tensors = tensors_.rows[event];
  size_t row = tensors.begin;
  while (row < tensors.end) {
    const size_t begin = row;
    const int16_t argument = tensors_.argument[begin];
    const uint8_t role = tensors_.role[begin];
    do {
      ++row;
    } while (row < tensors.end && tensors_.argument[row] == argument && tensors_.role[row] == role);
    if (role != Role::kInput) continue;
    const bool list = tensors_.element[begin] >= 0;
    place(argument, {list ? Argument::kTensorList : Argument::kTensor, begin, row});
  }
}

// Unrecorded positions stay: readers match arguments by position.
void ArgumentWriter::place(int16_t position, Argument argument) {
  if (position < 0) return;
  const auto index = static_cast<size_t>(position);
  if (index >= arguments_.size()) arguments_.resize(index + 1);
  arguments_[index] = argument;
}

void ArgumentWriter::write_value(TextBuffer& out, const Argument& argument) const {
  out.put('"');
  if (argument.kind == Argument::kScalar) {
    const uint8_t type = scalars_.type[argument.begin];
    const bool shown = (type >= ScalarType::kBool && type <= ScalarType::kComplex) ||
                       (type >= ScalarType::kIntList && type <= ScalarType::kBoolList);
    if (shown) out.put(names_[scalars_.value[argument.begin]]);
  }
  out.put('"');
}

void ArgumentWriter::write_type(TextBuffer& out, const Argument& argument) const {
  out.put('"');
  if (argument.kind == Argument::kTensorList) {
    out.put("TensorList");
  } else if (argument.kind == Argument::kTensor) {
    const auto dtype = static_cast<size_t>(tensors_.dtype[argument.begin]);
    if (dtype < dtype_names_.size()) out.put(dtype_names_[dtype]);  // -1: an undefined tensor
  } else if (argument.kind == Argument::kScalar) {
    const uint8_t type = scalars_.type[argument.begin];
    if (type >= ScalarType::kBool && type <= ScalarType::kComplex) out.put("Scalar");
    if (type == ScalarType::kTensorList) out.put("TensorList");
    // A list that was too long to keep has no text; torch then does not call it a list.
    const bool list = type >= ScalarType::kIntList && type <= ScalarType::kBoolList;
    if (list && !names_[scalars_.value[argument.begin]].empty()) out.put("ScalarList");
  }
  out.put('"');
}

void ArgumentWriter::write_lists(TextBuffer& out, const Argument& argument, const ListView& lists) const {
  if (argument.kind == Argument::kTensor) {
    out.numbers(lists[argument.begin]);
    return;
  }
  out.put('[');
  if (argument.kind == Argument::kTensorList) {
    for (size_t row = argument.begin; row < argument.end; ++row) {
      if (row != argument.begin) out.put(',');
      out.numbers(lists[row]);
    }
  }
  out.put(']');
}

}  // namespace opscope::writers
