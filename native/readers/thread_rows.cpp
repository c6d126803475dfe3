#include "readers/thread_rows.h"

#include <utility>

namespace opscope::readers {
namespace {

bool is_nested(const Value& value) { return value.sort == Sort::kList || value.sort == Sort::kObject; }

// The same for values that Python takes for equal, as it does true and 1.
void append_key(std::string& key, const Value& value) {
  switch (value.sort) {
    case Sort::kMissing:
    case Sort::kNull:
      key += 'n';
      break;
    case Sort::kFalse:
      key += "i0";
      break;
    case Sort::kTrue:
      key += "i1";
      break;
    case Sort::kInteger:
      key += 'i';
      key += value.raw == "-0" ? "0" : value.raw;
      break;
    case Sort::kConstant:
      key += 'c';
      key += value.raw;
      break;
    default:
      key += 's';
      append_unescaped(key, value.raw);
  }
}

Label label_of(const Value& value) {
  if (value.sort == Sort::kMissing) return {};
  if (value.is_text()) return {.text = '"' + std::string(value.raw) + '"'};
  return {.text = std::string(value.raw)};
}

}  // namespace

int32_t ThreadRows::find(const Value& process, const Value& thread) {
  key_.clear();
  Label labels[2];
  if (is_nested(process) || is_nested(thread)) {
    const Value* const values[] = {&process, &thread};
    for (int i = 0; i < 2; ++i) {
      labels[i] = {.text = rare_.spelled(values[i]->raw.empty() && !values[i]->is_text()
                                             ? std::string_view("null")
                                             : std::string_view(label_of(*values[i]).text)),
                   .is_json = false};
      key_ += 's';
      key_ += labels[i].text;
      if (i == 0) process_length_ = key_.size();
    }
  } else {
    append_key(key_, process);
    process_length_ = key_.size();
    append_key(key_, thread);
  }
  // Two keys must not be equal because the border between process and thread is elsewhere.
  key_.append(reinterpret_cast<const char*>(&process_length_), sizeof process_length_);
  const int32_t found = keys_.row_of(key_);
  if (static_cast<size_t>(found) == threads_.size()) {
    if (labels[0].is_json) labels[0] = label_of(process), labels[1] = label_of(thread);
    threads_.push_back({.process = std::move(labels[0]), .thread = std::move(labels[1]), .name = {}});
  }
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
  Label label;
  if (is_nested(event.process)) {
    label = {.text = rare_.spelled(event.process.raw), .is_json = false};
    key_ = 's' + label.text;
  } else {
    append_key(key_, event.process);
  }
  const int32_t row = owner_keys_.row_of(key_);
  if (static_cast<size_t>(row) == owners_.size())
    owners_.push_back(label.is_json ? label_of(event.process) : std::move(label));
  return row;
}

}  // namespace opscope::readers
