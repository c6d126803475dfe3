// Reads journals: the texts that records refer to.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "log/journal.h"

namespace opscope {

struct NameText {
  std::string_view text;
  std::string_view overload;  // operator overload, empty if unknown or not wanted
};

struct FunctionText {
  std::string_view file = "?";
  std::string_view function = "?";
  int32_t line = -1;            // first line
  std::string_view line_table;  // of its code, see line_table.h
};

struct InstanceText {
  uint64_t address = 0;
  uint64_t class_address = 0;
  std::string_view class_name;
};

class Texts {
 public:
  Texts() = default;
  // `journals`: the blocks of each, in order.
  explicit Texts(const std::vector<std::vector<const JournalBlock*>>& journals);
  Texts(const Texts&) = delete;
  Texts& operator=(const Texts&) = delete;
  Texts(Texts&&) = default;
  Texts& operator=(Texts&&) = default;

  // Unknown ids get a placeholder text: a journal may be cut off.
  NameText name(uint32_t id) const { return at(names_, id); }
  bool has_name(uint32_t id) const { return id < names_.size(); }
  FunctionText function(uint32_t id) const { return at(functions_, id); }
  InstanceText module(uint32_t id) const { return at(modules_, id); }
  InstanceText optimizer(uint32_t id) const { return at(optimizers_, id); }

 private:
  template <typename Text>
  static Text at(const std::vector<Text>& texts, uint32_t id) {
    return id < texts.size() ? texts[id] : Text{};
  }
  void read(std::string_view journal);
  void add(const EntryHead& head, std::string_view fields);

  std::vector<std::unique_ptr<const std::string>> journals_;  // owners of the texts below
  size_t bytes_ = 0;                                          // of all journals
  std::vector<NameText> names_;
  std::vector<FunctionText> functions_;
  std::vector<InstanceText> modules_;
  std::vector<InstanceText> optimizers_;
};

}  // namespace opscope
