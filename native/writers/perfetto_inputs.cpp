#include "writers/perfetto_inputs.h"

#include <span>

namespace opscope::writers {

void append_list(std::string& text, std::span<const int64_t> values) {
  text += '[';
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) text += ',';
    text += std::to_string(values[i]);
  }
  text += ']';
}

bool PerfettoInputs::has(size_t event) const {
  const auto tensors = tensors_.rows[event];
  const auto scalars = scalars_.rows[event];
  return tensors.begin < tensors.end || scalars.begin < scalars.end;
}

uint64_t PerfettoInputs::hash(size_t event) const {
  uint64_t hash = 1;
  const auto tensors = tensors_.rows[event];
  for (size_t row = tensors.begin; row < tensors.end; ++row) {
    const auto place = static_cast<uint64_t>(tensors_.argument[row]) << 40 ^
                       static_cast<uint64_t>(int64_t{tensors_.element[row]} + 1) << 8;
    hash = mix_hash(hash, place ^ static_cast<uint8_t>(tensors_.dtype[row]));
    for (const int64_t size : tensors_.sizes[row]) hash = mix_hash(hash, static_cast<uint64_t>(size));
  }
  const auto scalars = scalars_.rows[event];
  for (size_t row = scalars.begin; row < scalars.end; ++row) {
    hash = mix_hash(hash, static_cast<uint64_t>(scalars_.argument[row]) + 1);
    hash = mix_hash(hash, static_cast<uint64_t>(scalars_.value[row]));
  }
  return hash;
}

// Both tables are in order of argument within an event.
std::string PerfettoInputs::text(size_t event) const {
  std::string text;
  auto tensors = tensors_.rows[event];
  auto scalars = scalars_.rows[event];
  while (tensors.begin < tensors.end || scalars.begin < scalars.end) {
    const bool scalar_next =
        scalars.begin < scalars.end &&
        (tensors.begin == tensors.end || scalars_.argument[scalars.begin] < tensors_.argument[tensors.begin]);
    if (!text.empty()) text += ", ";
    if (scalar_next) {
      append_scalar(text, scalars.begin++);
    } else {
      append_tensor(text, tensors.begin++);
    }
  }
  return text;
}

void PerfettoInputs::append_tensor(std::string& text, size_t row) const {
  const auto dtype = static_cast<size_t>(tensors_.dtype[row]);
  if (dtype >= dtype_names_.size()) {  // -1: an undefined tensor
    text += "None";
    return;
  }
  text += dtype_names_[dtype];
  append_list(text, tensors_.sizes[row]);
}

void PerfettoInputs::append_scalar(std::string& text, size_t row) const {
  const auto name = static_cast<size_t>(scalars_.value[row]);
  if (scalars_.value[row] < 0 || name + 1 >= name_offsets_.size) {
    text += "None";
    return;
  }
  const int64_t begin = name_offsets_[name];
  text.append(reinterpret_cast<const char*>(name_bytes_.data) + begin,
              static_cast<size_t>(name_offsets_[name + 1] - begin));
}

}  // namespace opscope::writers
