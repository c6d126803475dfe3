#include "log/texts.h"

#include <cstring>

namespace opscope {

namespace {

template <typename Number>
Number number_in(std::string_view field) {
  Number number{};
  if (field.size() == sizeof(number)) std::memcpy(&number, field.data(), sizeof(number));
  return number;
}

// Minimum size of an entry: its head, and the lengths of its fields.
constexpr size_t entry_bytes(size_t fields) { return sizeof(EntryHead) + fields * sizeof(uint32_t); }

// Ids are consecutive, but come from several threads. None exceeds the number of entries that fit into all
// journals.
template <typename Text>
void set_at(std::vector<Text>& texts, uint32_t id, size_t most, const Text& text) {
  if (id >= most) return;
  if (id >= texts.size()) texts.resize(id + 1);
  texts[id] = text;
}

InstanceText instance_in(std::string_view fields) {
  InstanceText instance;
  instance.address = number_in<uint64_t>(take_field(fields));
  instance.class_address = number_in<uint64_t>(take_field(fields));
  instance.class_name = take_field(fields);
  return instance;
}

}  // namespace

Texts::Texts(const std::vector<std::vector<const JournalBlock*>>& journals) {
  for (const std::vector<const JournalBlock*>& blocks : journals) {
    journals_.push_back(std::make_unique<const std::string>(joined(blocks)));
    bytes_ += journals_.back()->size();
  }
  for (const auto& journal : journals_) read(*journal);
}

void Texts::read(std::string_view journal) {
  for_each_entry(journal, [this](const EntryHead& head, std::string_view fields) { add(head, fields); });
}

void Texts::add(const EntryHead& head, std::string_view fields) {
  switch (head.kind) {
    case EntryKind::kName: {
      const std::string_view text = take_field(fields);
      return set_at(names_, head.id, bytes_ / entry_bytes(2), {text, take_field(fields)});
    }
    case EntryKind::kFunction: {
      FunctionText function;
      function.file = take_field(fields);
      function.function = take_field(fields);
      function.line = number_in<int32_t>(take_field(fields));
      function.line_table = take_field(fields);
      return set_at(functions_, head.id, bytes_ / entry_bytes(4), function);
    }
    case EntryKind::kModule:
      return set_at(modules_, head.id, bytes_ / entry_bytes(3), instance_in(fields));
    case EntryKind::kOptimizer:
      return set_at(optimizers_, head.id, bytes_ / entry_bytes(3), instance_in(fields));
    case EntryKind::kWindow:
    case EntryKind::kAbout:
    case EntryKind::kNote:
    case EntryKind::kDevices:
      return;
  }
}

}  // namespace opscope
