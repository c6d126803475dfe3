#include "parsers/thread_rows.h"

#include <utility>

namespace opscope::readers {
namespace {

void append_key(std::string& key, const Value& value) {
  if (value.is_text()) {
    key += 's';
    append_unescaped(key, value.raw);
  } else {
    key += 'v';
    key += value.sort == Sort::kMissing ? "null" : value.raw;
  }
}

Label label_of(const Value& value) {
  if (value.sort == Sort::kMissing) return {};
  if (value.is_text()) return {.text = '"' + std::string(value.raw) + '"'};
  const bool is_nested = value.sort == Sort::kList || value.sort == Sort::kObject;
  return {.text = std::string(value.raw), .is_json = !is_nested};
}

}  // namespace

int32_t ThreadRows::find(const Value& process, const Value& thread) {
  key_.clear();
  append_key(key_, process);
  process_length_ = key_.size();
  append_key(key_, thread);
  // The length prevents equal keys with different borders between process and thread.
  key_.append(reinterpret_cast<const char*>(&process_length_), sizeof process_length_);
  const int32_t found = keys_.row_of(key_);
  if (static_cast<size_t>(found) == threads_.size())
    threads_.push_back({.process = label_of(process), .thread = label_of(thread), .name = {}});
  return found;
}

int32_t ThreadRows::row_of(const FoundEvent& event) {
  int32_t found = find(event.process, event.thread);
  const int32_t beside = threads_[static_cast<size_t>(found)].beside;
  if (beside >= 0) found = beside;
  int32_t& row = threads_[static_cast<size_t>(found)].row;
  if (row < 0) {
    row = static_cast<int32_t>(rows_.size());
    rows_.push_back(found);
  }
  return row;
}

void ThreadRows::name_thread(const FoundEvent& event, std::string name, const Value& beside) {
  const auto found = static_cast<size_t>(find(event.process, event.thread));
  threads_[found].name = std::move(name);
  if (beside.sort != Sort::kInteger || !threads_[found].process.is_json) return;
  const int32_t other = find(event.process, beside);
  threads_[found].beside = other;
}

void ThreadRows::name_process(const FoundEvent& event, std::string name) {
  process_of(event).name = std::move(name);
}

void ThreadRows::label_process(const FoundEvent& event, std::string labels) {
  process_of(event).labels = std::move(labels);
}

ThreadRows::Process& ThreadRows::process_of(const FoundEvent& event) {
  const auto found = static_cast<size_t>(find(event.process, event.thread));
  const auto row =
      static_cast<size_t>(process_keys_.row_of(std::string_view(key_).substr(0, process_length_)));
  if (row == processes_.size()) processes_.push_back({threads_[found].process, {}, {}});
  return processes_[row];
}

int32_t ThreadRows::owner_of(const FoundEvent& event) {
  key_.clear();
  append_key(key_, event.process);
  const int32_t row = owner_keys_.row_of(key_);
  if (static_cast<size_t>(row) == owners_.size()) owners_.push_back(label_of(event.process));
  return row;
}

}  // namespace opscope::readers
