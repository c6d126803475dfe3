// The threads of a Chrome file: whatever stands under "pid" and "tid" together names one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "parsers/json_value.h"
#include "parsers/text_rows.h"

namespace opscope::readers {

// A value that names a process or thread: JSON, or else the text of a list or an object.
struct Label {
  std::string text = "null";
  bool is_json = true;
};

class ThreadRows {
 public:
  // The row of the thread that an event is of; of that beside which its line is, if that was said.
  int32_t row_of(const FoundEvent& event);
  // What the file says a thread is called, and beside which other of its process it is.
  void name_thread(const FoundEvent& event, std::string name, const Value& beside);
  // What the file says a process is: its name, or labels such as "GPU 0".
  void name_process(const FoundEvent& event, std::string name);
  void label_process(const FoundEvent& event, std::string labels);
  // The row of the process that an event is of, in `owners`.
  int32_t owner_of(const FoundEvent& event);

  struct Thread {
    Label process;
    Label thread;
    std::optional<std::string> name;
    int32_t row = -1;     // -1: nothing was on it so far
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
  size_t process_length_ = 0;  // of the key that was made last
};

}  // namespace opscope::readers
