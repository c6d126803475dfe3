// Threads of a Chrome file: the values of "pid" and "tid" together identify one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsers/json_value.h"
#include "parsers/text_rows.h"

namespace opscope::readers {

// Value that identifies a process or thread: JSON, or the text of a list or object.
struct Label {
  std::string text = "null";
  bool is_json = true;
};

class ThreadRows {
 public:
  // Row of an event's thread, or of the thread beside which its line is, if the file has one.
  int32_t row_of(const FoundEvent& event);
  // Sets the thread's name, and the thread of its process beside which its line is.
  void name_thread(const FoundEvent& event, std::string name, const Value& beside);
  // Sets the process's name, or labels such as "GPU 0".
  void name_process(const FoundEvent& event, std::string name);
  void label_process(const FoundEvent& event, std::string labels);
  // Row of an event's process, in `owners`.
  int32_t owner_of(const FoundEvent& event);

  struct Thread {
    Label process;
    Label thread;
    std::optional<std::string> name;
    int32_t row = -1;     // -1: no event so far
    int32_t beside = -1;  // another one
  };
  struct Process {
    Label process;
    std::string name;
    std::string labels;
  };
  const std::vector<Thread>& threads() const { return threads_; }
  const std::vector<int32_t>& rows() const { return rows_; }  // of `threads`
  const std::vector<Process>& processes() const { return processes_; }
  const std::vector<Label>& owners() const { return owners_; }

 private:
  int32_t find(const Value& process, const Value& thread);
  Process& process_of(const FoundEvent& event);

  TextRows keys_;
  TextRows process_keys_;
  std::vector<Thread> threads_;
  std::vector<int32_t> rows_;
  std::vector<Process> processes_;
  TextRows owner_keys_;
  std::vector<Label> owners_;
  std::string key_;
  size_t process_length_ = 0;  // of the last key
};

}  // namespace opscope::readers
