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

// Takes a field off the front; an empty one where there is none.
std::string_view take_field(std::string_view& fields) {
  uint32_t bytes = 0;
  if (fields.size() < sizeof(bytes)) return {};
  std::memcpy(&bytes, fields.data(), sizeof(bytes));
  fields.remove_prefix(sizeof(bytes));
  const std::string_view field = fields.substr(0, bytes);
  fields.remove_prefix(field.size());
  return field;
}

std::string joined(const std::vector<const JournalBlock*>& blocks) {
  std::string all;
  all.reserve(blocks.size() * JournalBlock::kBytes);
  for (const JournalBlock* block : blocks) {
    const uint64_t used = block->header.used.load(std::memory_order_acquire);
    all.append(block->bytes, std::min<uint64_t>(used, JournalBlock::kBytes));
    if (used < JournalBlock::kBytes) break;
  }
  return all;
}

// Ids are given in order, but by several threads.
template <typename Text>
void set_at(std::vector<Text>& texts, uint32_t id, const Text& text) {
  constexpr uint32_t kMost = 1u << 28;
  if (id >= kMost) return;
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
    read(*journals_.back());
  }
}

void Texts::read(std::string_view journal) {
  EntryHead head;
  while (journal.size() >= sizeof(head)) {
    std::memcpy(&head, journal.data(), sizeof(head));
    journal.remove_prefix(sizeof(head));
    if (journal.size() < head.bytes) return;  // being written
    add(head, journal.substr(0, head.bytes));
    journal.remove_prefix(head.bytes);
  }
}

void Texts::add(const EntryHead& head, std::string_view fields) {
  switch (head.kind) {
    case EntryKind::kName: {
      const std::string_view text = take_field(fields);
      return set_at(names_, head.id, {text, take_field(fields)});
    }
    case EntryKind::kFunction: {
      FunctionText function;
      function.file = take_field(fields);
      function.function = take_field(fields);
      function.line = number_in<int32_t>(take_field(fields));
      function.line_table = take_field(fields);
      return set_at(functions_, head.id, function);
    }
    case EntryKind::kModule:
      return set_at(modules_, head.id, instance_in(fields));
    case EntryKind::kOptimizer:
      return set_at(optimizers_, head.id, instance_in(fields));
  }
}

}  // namespace opscope
